"""`Result`: the base class of every result, which a terminal, a program, a notebook and a page can show."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .table import Table, notebook

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result:
    """Something that was measured or checked.

    A subclass gives `lines`, `facts` and `tables`; `passed` where it can fail; `figure` and `page` where it has
    them. Those two import the experiment's views, which stand beside it, so that only they load matplotlib, and a
    notebook that shows the drawing above the tables.
    """

    __slots__ = ()

    @property
    def passed(self) -> bool:
        """Whether every check of it came out as it should; True where there is none."""
        return True

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return the result as plain JSON data."""
        raise NotImplementedError

    def tables(self) -> Sequence[Table]:
        """Return the result as tables."""
        raise NotImplementedError

    def figure(self) -> Figure:
        """Return the drawing of the result; needs matplotlib."""
        raise TypeError(f"there is no drawing of {type(self).__name__}")

    def page(self) -> str:
        """Return the result as one self-contained HTML page; needs matplotlib where it has a drawing."""
        raise TypeError(f"there is no page of {type(self).__name__}")

    def _repr_html_(self) -> str:
        return self._image() + notebook(self.tables())

    def _image(self) -> str:
        """Return the drawing for a notebook; nothing where there is none, or no matplotlib to draw it."""
        if type(self).figure is Result.figure or find_spec("matplotlib") is None:
            return ""
        from .figure import image  # noqa: PLC0415

        return f"{image(self.figure())}\n"
