"""Parts that all drawings share: style, palette, an empty figure, and writing the file.

Each experiment's drawing stands beside it. ``matplotlib.figure`` is used directly, never pyplot: nothing global
changes, and no window opens.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
import os
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from .._files.replacing import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_Draw = TypeVar("_Draw", bound=Callable[..., Any])

FORMATS = (".svg", ".png")
"""The suffixes of a drawing's file."""
PALETTE = ("#0072b2", "#d55e00", "#a000f0")
"""Colours of what a picture is about: Okabe and Ito's blue and vermilion, and a violet.

With `MUTED` they differ by 29 or more in CIE76 (L*a*b*) in the eyes of the colour-blind too, where Okabe and Ito's
eight differ by 16 and more; each has a contrast of 3 or more to a page's light paper and to its dark one. Where a
picture needs more than three, the markers differ as well.
"""
MUTED = "#808080"
"""The colour of everything else; text is always in ink."""
MARKERS = ("s", "^", "D", "v", "P")
STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "axes.prop_cycle": f"cycler('color', {list(PALETTE)})",
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "figure.facecolor": "white",  # a ground of its own, for dark pages that embed the file
    "savefig.facecolor": "auto",
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


def message(drawing: Figure, text: str) -> None:
    """Write the one thing that a drawing says above it, in as many lines as it needs."""
    lines = textwrap.fill(text, int(_CHARACTERS * drawing.get_figwidth()))
    drawing.suptitle(lines, x=0.01, ha="left", weight="bold", fontsize="large", parse_math=False)


def message_of(drawing: Figure) -> str:
    """Return a drawing's message as one line; empty where it has none."""
    return " ".join(drawing.get_suptitle().split())


_CHARACTERS = 10  # of a message in an inch


def emphasis(place: int | None) -> dict[str, Any]:
    """Return how a line looks: the `place`-th that a drawing is about, or one of the rest where that is None."""
    if place is None:
        return {"color": MUTED, "linewidth": 0.9, "zorder": 2.0}
    marker = MARKERS[place % len(MARKERS)]
    return {
        "color": PALETTE[place % len(PALETTE)],
        "linewidth": 2.0,
        "marker": marker,
        "markersize": 4,
        "zorder": 3.0,
    }


def label_ends(axes: Axes, labels: Mapping[str, Line2D]) -> None:
    """Write a text beside the right end of each line, in bold where the line is emphasized.

    Call it when the limits of the axes are final. A line that leaves the axes ends at the edge it crosses. Texts
    that would lie on each other are moved apart.
    """
    ends = {text: _end(axes, line) for text, line in labels.items()}
    ordered = sorted(ends, key=lambda text: (ends[text][1], -ends[text][0]))
    texts = [textwrap.wrap(text, _LONGEST) for text in ordered]
    line_height = 10.5 / (axes.get_window_extent().height / axes.figure.dpi * 72)  # points, of the axes' height
    levels = _spread([ends[text][1] for text in ordered], [line_height * len(lines) for lines in texts])
    for text, lines, level in zip(ordered, texts, levels, strict=True):
        colour = labels[text].get_color()
        axes.annotate(
            "\n".join(lines),
            ends[text],
            (1.03, level),
            "axes fraction",
            arrowprops={**_LEADER, "color": colour},
            annotation_clip=False,
            va="center",
            fontsize=8,
            weight="normal" if colour == MUTED else "bold",
            parse_math=False,
        )


_LEADER = {"arrowstyle": "-", "linestyle": ":", "linewidth": 0.8, "relpos": (0, 0.5), "shrinkA": 0, "shrinkB": 0}
_LONGEST = 48  # characters of a label in one line


def _end(axes: Axes, line: Line2D) -> tuple[float, float]:
    """Return where a line ends or first leaves the axes for good, in fractions of the axes."""
    low, high = sorted(axes.get_ylim())
    points = np.asarray(line.get_xydata(), dtype=np.float64)
    if axes.xaxis_inverted():
        points = points[::-1]
    inside = np.flatnonzero((points[:, 1] >= low) & (points[:, 1] <= high))
    last = int(inside[-1]) if len(inside) else 0
    beyond = points[last:, 1][-1]
    x, y = axes.transAxes.inverted().transform(
        axes.transData.transform((points[last, 0], max(points[last, 1], low)))
    )
    return float(x), 1.0 if beyond > high else 0.0 if beyond < low else float(y)


def _spread(levels: list[float], heights: list[float]) -> list[float]:
    """Return ascending levels moved apart for texts of these heights, inside 0 to 1 as far as there is room."""
    scale = min(1.0, 1 / max(sum(heights) - (heights[0] + heights[-1]) / 2, 1e-9))
    gaps = [scale * (one + other) / 2 for one, other in itertools.pairwise(heights)]
    moved = list(levels)
    for place, gap in enumerate(gaps, 1):
        moved[place] = max(moved[place], moved[place - 1] + gap)
    moved[-1] = min(moved[-1], 1.0)
    for place, gap in reversed(list(enumerate(gaps))):
        moved[place] = min(moved[place], moved[place + 1] - gap)
    return moved


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
    write_file(path, _content(drawing, format_of(path)))


def image(drawing: Figure) -> str:
    """Return a drawing as an ``<img>`` of a notebook, on white; its message is the text in its place."""
    address = base64.b64encode(_content(drawing, ".svg")).decode()
    text = html.escape(message_of(drawing))
    return f'<img alt="{text}" src="data:image/svg+xml;base64,{address}" style="max-width: 100%">'


def _content(drawing: Figure, suffix: str) -> bytes:
    """Return a drawing's file."""
    content = io.BytesIO()
    with style():
        # without a date, so that the same drawing gives the same bytes
        metadata = {"Date": None} if suffix == ".svg" else None
        drawing.savefig(content, format=suffix[1:], metadata=metadata)
    return content.getvalue()


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
