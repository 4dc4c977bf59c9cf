"""Drawings of results: `draw(result)` gives a matplotlib figure, `save(result, path)` a file.

Each kind of result registers its drawing here. ``matplotlib.figure`` is used directly, never pyplot: nothing
global changes, and no window opens.
"""

from __future__ import annotations

import os
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
STYLE = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.frameon": False,
    "svg.hashsalt": "fastinit",  # the same drawing gives the same bytes
    "svg.fonttype": "none",  # text stays text: readable by a screen reader, found by a search
}


@singledispatch
def draw(result: object) -> Figure:
    """Return the drawing of a result."""
    raise TypeError(f"there is no drawing of {type(result).__name__}")


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Draw `result` into a new or replaced file whose suffix names the format: .svg or .png."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a figure's file ends in {' or '.join(FORMATS)}, got {str(path)!r}")
    with style():
        draw(result).savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def style() -> Any:
    """Return the context in which all drawings are made and written."""
    return _matplotlib().rc_context(STYLE)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    _matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained")


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'fastinit-weights[figures]'") from error
    return mpl
