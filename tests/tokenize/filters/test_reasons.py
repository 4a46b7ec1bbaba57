from __future__ import annotations

from headrace.dataeng.sources import base
from headrace.tokenize.filters import reasons


def test_faults_are_what_no_filter_was_asked_to_reject() -> None:
    found = {"null": 3, "damaged": 1, reasons.SHORT: 40, reasons.LONG: 2}
    assert reasons.num_faults(found) == 4


def test_no_fault_of_an_input_is_taken_for_the_wish_of_a_user() -> None:
    faults = [value for name, value in vars(base).items() if name.isupper() and isinstance(value, str)]
    assert len(faults) > 10
    assert not [reason for reason in faults if reasons.was_asked_for(reason)]
