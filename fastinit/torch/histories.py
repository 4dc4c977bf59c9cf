"""What was written into each storage, in order: regions, their contents, and where the code said so.

`History.contents` says what the elements of one tensor hold at the end: boxes of its own axes, the later write
over the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .._engine.boxes import Box, Painted, painted_over, whole_box
from ..errors import DistributionError
from .contents import Computed, Content, Draw, Drawn, Fixed
from .regions import Region, box_in

FIXED_WRITES = 256
"""Writes of values, and of no draws, after which a storage is taken for a table that a loop fills."""

DRAWN_WRITES = 512
"""The same where parts are drawn, as the experts of a layer are one by one."""


@dataclass(slots=True, eq=False)
class Write:
    """One write: a region, what it holds now, and the line of code that decided it."""

    region: Region
    content: Content
    where: str
    is_stored: bool
    """Whether memory holds it already."""


@dataclass(slots=True)
class History:
    """The writes into one storage that are still seen."""

    nbytes: int
    writes: list[Write] = field(default_factory=list)
    is_older: bool = True
    """Whether the storage was there before the first write that was noted."""
    is_shared: bool = False
    """Whether others than torch may read and write the memory at any time."""
    version: int = 0
    """The highest version that a tensor of this storage has by the writes of the recorder's own thread."""

    @property
    def is_pending(self) -> bool:
        """Whether memory lacks some of what was written."""
        return any(not write.is_stored for write in self.writes)

    @property
    def is_crowded(self) -> bool:
        """Whether there are more writes than a plan could tell, or a table's, which is data."""
        count = len(self.writes)
        return count > DRAWN_WRITES or (count > FIXED_WRITES and not draws_in(self.all_contents()))

    def append(self, write: Write) -> None:
        """Add a write, which hides those under it."""
        if write.region.covers(self.nbytes):
            self.writes.clear()
        elif self.writes and self.writes[-1].region == write.region:
            self.writes.pop()
        self.writes.append(write)

    def contents(self, whole: Region) -> list[Painted[Write]] | None:
        """Return what the elements of a tensor hold, box by box; None where a write is no box of its axes."""
        if not whole.is_distinct:
            return None
        layers: list[Painted[Write]] = []
        for write in self.writes:
            if write.region.meets(whole):
                box = _box_of(write, whole)
                if box is None:
                    return None
                layers.append((box, write))
        try:
            return painted_over(layers)
        except DistributionError:  # too many boxes
            return None

    def all_contents(self) -> list[Content]:
        """Return the contents of all writes."""
        return [write.content for write in self.writes]


def _box_of(write: Write, whole: Region) -> Box | None:
    """Return which box of a tensor a write fills; the bits of a value are another value in another dtype."""
    if isinstance(write.content, Drawn | Fixed) and write.region.dtype != whole.dtype:
        return None
    return box_in(write.region, whole) or _around(write.region, whole)


def _around(region: Region, whole: Region) -> Box | None:
    """Return the whole tensor's box where the region lies around it, all of it."""
    is_around = region.is_plain and whole.lies_in(region) and region.itemsize == whole.itemsize
    return whole_box(whole.sizes) if is_around else None


def draws_in(contents: Sequence[Content]) -> frozenset[Draw]:
    """Return the draws that any of the contents depend on."""
    found: set[Draw] = set()
    for content in contents:
        if isinstance(content, Drawn) and content.draw is not None:
            found.add(content.draw)
        elif isinstance(content, Computed):
            found |= content.draws
    return frozenset(found)
