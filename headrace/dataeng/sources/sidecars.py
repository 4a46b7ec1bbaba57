"""Files that lie beside data and tell of it: passed over in a directory, and said."""

from __future__ import annotations

from typing import Final

# Written by `datasets` beside its Arrow files.
_NAMES: Final = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})


def is_sidecar(uri: str, head: bytes, *, beside_data: bool) -> bool:
    """Whether a `.json` file tells of data rather than being some: by its name, or as a single value beside files whose
    names say that they are data. `head`: its first bytes, all of them if it is short.
    """
    if uri.rpartition("/")[2].lower() in _NAMES:
        return True
    _, _, behind = head.partition(b"\n")
    return beside_data and not behind.strip()
