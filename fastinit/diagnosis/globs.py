"""`Globs`: the standard deviation that a user expects of the tensors whose names match.

The first glob that matches a name decides. A rule that decides nothing is refused: a misspelt glob would pass
every checkpoint.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Mapping
from typing import Any

from .._engine.checks import as_nonnegative
from .expected import Expected

TOLERANCE = 0.01
"""Relative error of a rule's standard deviation: it is written in few digits, 0.0041 for 0.02 / sqrt(24)."""


class Globs:
    """Globs (``*`` also matches dots) and their standard deviations; 0 asks for equal weights."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._stds = {
            glob: as_nonnegative(std, f"the standard deviation of {glob!r}") for glob, std in rules.items()
        }

    def expected(self, name: str) -> Expected | None:
        """Return what the deciding rule asks of the tensor `name`; None where no glob matches."""
        glob = self._deciding(name)
        if glob is None:
            return None
        std = self._stds[glob]
        return Expected(f"the rule {glob}", std, tolerance=TOLERANCE, is_drawn=std > 0)

    def refuse_idle(self, names: list[str]) -> None:
        """Raise a ValueError where a rule decides none of the tensors `names`."""
        deciding = {self._deciding(name) for name in names}
        for glob in self._stds:
            matched = [name for name in names if fnmatch.fnmatchcase(name, glob)]
            if not matched:
                raise ValueError(f"the rule {glob!r} matches no tensor of weights; {_near(glob, names)}")
            if glob not in deciding:
                raise ValueError(
                    f"the rule {glob!r} decides nothing: the first rule that matches a name decides, and "
                    f"{self._deciding(matched[0])!r} comes before it; put {glob!r} first"
                )

    def _deciding(self, name: str) -> str | None:
        return next((glob for glob in self._stds if fnmatch.fnmatchcase(name, glob)), None)


_SEARCHED = 1000  # names: a search for near ones takes longer than a glob
_LENGTH = 200  # characters of a name; longer ones are not typed by hand


def _near(glob: str, names: list[str]) -> str:
    searched = [name for name in names[:_SEARCHED] if len(name) <= _LENGTH]
    near = difflib.get_close_matches(glob[:_LENGTH], searched, 3, 0.3) or [name[:_LENGTH] for name in names[:3]]
    return f"names here look like {', '.join(map(repr, near))}" if near else "there is none here"
