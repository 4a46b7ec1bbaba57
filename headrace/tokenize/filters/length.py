"""Documents of too few or too many characters: counted, not measured in bytes, so that no script is treated worse."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.tokenize.filters.reasons import LONG, SHORT


class LengthFilter:
    """Rejects documents of fewer than `least` or more than `most` Unicode characters (code points)."""

    reasons: Final = (SHORT, LONG)

    def __init__(self, least: int | None, most: int | None) -> None:
        self._least, self._most = least, most

    def judge(self, texts: Any) -> NDArray[np.uint8]:
        """0 for each of `texts` that is kept, else one more than the position of its reason."""
        import pyarrow.compute as pc

        chars = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
        verdict = np.zeros(len(texts), np.uint8)
        if self._least is not None:
            verdict[chars < self._least] = 1
        if self._most is not None:
            verdict[chars > self._most] = 2
        return verdict
