"""A file of which nothing can be read, where its rows are to be rejected rather than stop the job: one reject for all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.dataeng.sources.base import Batch, Columns, Slice, SourceDamage, SourceFile, sampled_fingerprint
from headrace.dataeng.sources.location import open_input
from headrace.dataeng.uris import redact


@dataclass(frozen=True, slots=True)
class UnreadableProbe:
    """A file and what is wrong with it, in words that begin with its name."""

    uri: str = field(repr=False)
    problem: str

    @property
    def columns(self) -> dict[str, str]:
        """None are known, and nothing is asked of them."""
        return {}

    def plan(self, file: int, columns: Columns, slice_bytes: int) -> SourceFile:
        """One slice, damaged, of one row, which stands for all that are in it."""
        del columns, slice_bytes
        with open_input(self.uri) as opened:
            size = opened.seek(0, 2)
            fingerprint = sampled_fingerprint("unreadable", opened, size)
        name = redact(self.uri)
        damage = self.problem.removeprefix(f"{name}: ")
        return SourceFile(
            uri=self.uri,
            name=name,
            format="unreadable",
            size=size,
            fingerprint=fingerprint,
            num_rows=1,
            slices=(Slice(file=file, num_rows=1, text_bytes=0, damage=damage),),
        )


def read(source: SourceFile, part: Slice) -> Iterator[Batch]:
    """Raises SourceDamage."""
    if part.damage is not None:
        raise SourceDamage(f"{source.name}: {part.damage}")
    yield from ()
