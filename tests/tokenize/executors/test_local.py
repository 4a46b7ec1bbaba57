from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from headrace.dataeng.sources.discover import discover
from headrace.dataeng.storage import Store
from headrace.errors import WorkerError
from headrace.tokenize.config import TokenizeConfig
from headrace.tokenize.executors.local import LocalExecutor
from headrace.tokenize.executors.stop import Stop
from headrace.tokenize.tokenizers import identify
from headrace.tokenize.tools import Context
from headrace.tokenize.units import plan_units
from headrace.tokenize.worker import TokenizeUnit
from tests.tokenize.jobs import some_texts, write_parquet


class Impatient(LocalExecutor):
    LOOK_SECONDS = 0.2
    STUCK_LOOKS = 5


def run_while_stopped(context: Context, task: TokenizeUnit, pids: list[int]) -> None:
    with Impatient(1, context) as pool:
        pids += [each.process.pid or 0 for each in pool._workers]
        os.kill(pids[0], signal.SIGSTOP)
        list(pool.run([task], Stop()))


@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="processor time is read in /proc")
@pytest.mark.timeout(60)
def test_a_worker_that_stands_still_is_an_error_with_its_file_and_is_ended(
    tmp_path: Path, tokenizer_file: Path
) -> None:
    """Case A10: a stuck worker becomes an error, whatever it is that keeps it."""
    write_parquet(tmp_path / "a.parquet", some_texts(1, 20))
    found = discover([str(tmp_path / "a.parquet")])
    (unit,) = plan_units(found.sources, 1 << 40)
    data = tokenizer_file.read_bytes()
    context = Context(
        store=Store(tmp_path / "out"),
        tokenizer=data,
        identity=identify(data, "t"),
        columns=found.columns,
        config=TokenizeConfig(),
        dtype="uint16",
        quarantine_damage=False,
    )
    pids: list[int] = []
    with pytest.raises(WorkerError, match=r"a\.parquet.*used no processor"):
        run_while_stopped(context, TokenizeUnit(unit=unit, sources=dict(enumerate(found.sources))), pids)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
