"""A user's own function: it sees the texts of a batch, and gives each back, changed or not, or None to leave it out.

    def hook(texts: list[str]) -> list[str | None]: ...

What runs is the very source whose hash stands in the manifest: it is read once, where the job begins, and sent to every
worker. A file that is edited while a job runs changes nothing, and need not be on the other machines of a cluster.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.errors import UsageError

_CHECKED_FROM: Final = 64  # texts: below it, to look at one of them twice would cost too much
_NAME: Final = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<function>[^\W\d]\w*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class HookSource:
    """The module of a hook. `root` is the directory in which its imports are found too."""

    name: str  # module:function
    path: str
    root: str
    source: bytes = field(repr=False)

    @property
    def sha256(self) -> str:
        """Of the module's file, and of nothing that it imports."""
        return hashlib.sha256(self.source).hexdigest()


def find_hook(name: str) -> HookSource:
    """Reads the module of a hook, from the working directory or, if it is not there, from where Python finds modules.

    The module is run once, to see that it can be.

    Raises:
        UsageError: no such module or function, or one that cannot be imported.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise UsageError(
            f"--hook {name!r}: expected module:function, for instance pii:clean for the function clean of pii.py"
        )
    module = match["module"]
    try:
        path = _source_file(module)
    except Exception as error:  # noqa: BLE001 whatever a parent package raises when it is imported
        raise UsageError(f"--hook {name}: {_in_words(error)}") from None
    if path is None:
        raise UsageError(
            f"--hook {name}: no module {module!r} with a source file in {Path.cwd()} or on the Python path; run the "
            "command where it lies, or set PYTHONPATH"
        )
    found = HookSource(
        name=name,
        path=str(path),
        root=str(path.parents[module.count(".")]),
        source=path.read_bytes(),
    )
    load_hook(found)
    return found


def _source_file(module: str) -> Path | None:
    here = str(Path.cwd())
    relative = Path(here, *module.split(".")).with_suffix(".py")
    if relative.is_file():
        return relative
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or spec.submodule_search_locations is not None:
        return None
    return Path(spec.origin).absolute() if spec.origin.endswith(".py") else None


def load_hook(hook: HookSource) -> Callable[[list[str]], Any]:
    """Runs the module and gives back its function.

    Raises:
        UsageError: it cannot be run, or has no such function.
    """
    module_name, _, function_name = hook.name.partition(":")
    loaded = sys.modules.get(module_name)
    already = getattr(loaded, "__file__", None) or "a part of Python"
    if loaded is not None and already != hook.path:
        raise UsageError(
            f"--hook {hook.name}: a module {module_name!r} is in use already ({already}); give {hook.path} another name"
        )
    if hook.root not in sys.path:
        sys.path.append(hook.root)
    module = ModuleType(module_name)
    module.__file__ = hook.path
    module.__package__ = module_name.rpartition(".")[0]
    sys.modules[module_name] = module  # before it runs, as an import does: dataclasses and pickle look there
    try:
        if module.__package__:
            importlib.import_module(module.__package__)
        exec(compile(hook.source, hook.path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except (Exception, SystemExit) as error:  # noqa: BLE001 it is a user's code
        raise UsageError(f"--hook {hook.name}: {hook.path} cannot be run: {_in_words(error)}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"--hook {hook.name}: {hook.path} has no function {function_name!r}")
    return function  # type: ignore[no-any-return]


class Hook:
    """Calls the function and holds it to its word."""

    def __init__(self, source: HookSource) -> None:
        self._source, self._function = source, load_hook(source)

    def apply(self, texts: Any, describe: Callable[[int], str]) -> tuple[Any, NDArray[np.bool_]]:
        """What the function makes of texts [texts] of a LargeStringArray: as many, null where it left one out, and which.

        One that it leaves empty or blank is left out too. describe: where a text is, for messages.

        Raises:
            UsageError: the function raises, gives back something else than texts, or is caught giving another result
                for the same text.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        given = texts.to_pylist()
        returned = self._call(given, describe)
        if len(given) >= _CHECKED_FROM:
            self._check_purity(given, returned, len(given) // 2, describe)
        try:
            column = pa.array(returned, pa.large_string())
        except (UnicodeEncodeError, pa.ArrowInvalid):
            position = next(n for n, text in enumerate(returned) if text is not None and not _is_utf8(text))
            raise UsageError(
                f"{self._says(describe(position))} a text with half of a surrogate pair, which is no UTF-8; give back texts "
                "as they were, or changed by whole characters"
            ) from None
        nothing = pc.or_(pc.equal(pc.binary_length(column), 0), pc.ascii_is_space(column))
        left_out = pc.fill_null(nothing, True).to_numpy(zero_copy_only=False)
        return column, left_out

    def _call(self, given: list[str], describe: Callable[[int], str]) -> list[str | None]:
        try:
            returned = self._function(list(given))
        except (Exception, SystemExit) as error:  # noqa: BLE001 it is a user's code
            raise self._raised(error, given, describe) from None
        if type(returned) not in (list, tuple) or len(returned) != len(given):
            what = type(returned).__name__
            many = f" of {len(returned):,}" if isinstance(returned, list | tuple) else ""
            raise UsageError(
                f"{self._says(describe(0), len(given))} a {what}{many}; expected a list with a str or None for each of them"
            )
        if not set(map(type, returned)) <= {str, type(None)}:
            position = next(n for n, text in enumerate(returned) if type(text) not in (str, type(None)))
            raise UsageError(
                f"{self._says(describe(position))} a {type(returned[position]).__name__}; expected a str, or None to leave "
                "the document out"
            )
        return list(returned)

    def _raised(self, error: BaseException, given: list[str], describe: Callable[[int], str]) -> UsageError:
        """Names the document, if it raises for one alone."""
        where, shown = f"for {len(given):,} texts together, first {describe(0)}", error
        for position, text in enumerate(given):
            try:
                self._function([text])
            except (Exception, SystemExit) as alone:  # noqa: BLE001 it is a user's code
                where, shown = f"for {describe(position)}", alone
                break
        return UsageError(
            f"--hook {self._source.name} {where}: {_in_words(shown)}\nNothing is published, finished units are kept. Let the "
            "function handle such a text, or give back None to leave the document out; since a changed hook is another "
            "job, that begins anew in another --out"
        )

    def _check_purity(
        self,
        given: list[str],
        returned: list[str | None],
        position: int,
        describe: Callable[[int], str],
    ) -> None:
        (alone,) = self._call([given[position]], lambda _: describe(position))
        if alone != returned[position]:
            raise UsageError(
                f"{self._says(describe(position))} another result alone than together with others. It must depend on nothing "
                "but the text: how texts are batched, and by which worker, is not a part of the job"
            )

    def _says(self, where: str, count: int = 1) -> str:
        return f"--hook {self._source.name} gives back, for {where}{f' and {count - 1:,} more' if count > 1 else ''},"


def _in_words(error: BaseException) -> str:
    """The error, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    last = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{last}"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
