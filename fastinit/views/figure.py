"""Parts that all drawings share: style, palette, an empty figure, and writing the file.

Each experiment's drawing stands beside it. ``matplotlib.figure`` is used directly, never pyplot: nothing global
changes, and no window opens.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .._files.replacing import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Draw = TypeVar("_Draw", bound=Callable[..., Any])

FORMATS = (".svg", ".png")
"""The suffixes of a drawing's file."""
PALETTE = (
    "#2f7fc1", "#d55e00", "#0b9467", "#b8569b", "#a87b00", "#7d6bd0", "#808080", "#c4484d", "#00909c", "#95683c",
)  # fmt: skip
"""Line colours; each has a contrast of 3 or more to a page's light paper and to its dark one."""
STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.prop_cycle": f"cycler('color', {list(PALETTE)})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.frameon": False,
    "svg.hashsalt": "fastinit",  # the same drawing gives the same bytes
    "svg.fonttype": "none",  # text stays text: readable by a screen reader, found by a search
}
"""matplotlib's parameters for every drawing."""


def style() -> AbstractContextManager[None]:
    """Return the context to draw and to write a drawing in: `STYLE`, whatever the user's matplotlibrc says.

    Raises
    ------
    ImportError
        Without matplotlib; the message names the extra to install.
    """
    _matplotlib()
    return _styled()


@contextmanager
def _styled() -> Iterator[None]:
    from matplotlib.style import context  # noqa: PLC0415

    with context(["default", STYLE]), warnings.catch_warnings():
        # a name in a script that the font lacks stays text in an SVG, where the reader's fonts show it
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def styled(draw: _Draw) -> _Draw:
    """Decorate a function that draws a result: it runs in `style`."""

    @wraps(draw)
    def in_style(result: object) -> Any:
        with style():
            return draw(result)

    return cast(_Draw, in_style)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of `width` by `height` inches."""
    _matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width, height), layout="constrained")


def ink() -> str:
    """Return the colour of axes and of lines that belong to no data."""
    return str(_matplotlib().rcParams["axes.edgecolor"])


def save(drawing: Figure, path: str | os.PathLike[str]) -> None:
    """Write a drawing to a new or, in one step, replaced file.

    Parameters
    ----------
    drawing : matplotlib.figure.Figure
        As a result's ``figure()`` returns it.
    path : path
        Its suffix names the format: .svg or .png.

    Raises
    ------
    ValueError
        For another suffix.
    OSError
        If the file cannot be written; what was at `path` is as before.
    """
    suffix = format_of(path)
    content = io.BytesIO()
    with style():
        # without a date, so that the same drawing gives the same bytes
        metadata = {"Date": None} if suffix == ".svg" else None
        drawing.savefig(content, format=suffix[1:], metadata=metadata)
    write_file(path, content.getvalue())


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a drawing's file, in lower case; ValueError for any but .svg and .png."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"a figure's file ends in {' or '.join(FORMATS)}, got {str(path)!r}")
    return suffix


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'fastinit-weights[figures]'") from error
    return mpl
