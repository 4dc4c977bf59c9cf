"""One self-contained HTML page out of paragraphs, tables and figures: no file beside it, no network."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing, and a caption that says what in it is measured and what is only expected."""

    drawing: Drawing
    caption: str


Part = str | Heading | Table | Figure
"""A string is a paragraph."""


def page(title: str, parts: Iterable[Part]) -> str:
    """Return the page's text, complete from doctype to ``</html>``."""
    body = "\n".join(map(_part, parts))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n</head>\n<body>\n<main>\n<h1>{html.escape(title)}</h1>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def svg(drawing: Drawing) -> str:
    """Return a drawing as an SVG element."""
    file = io.StringIO()
    drawing.savefig(file, format="svg")
    text = file.getvalue()
    return text[text.index("<svg") :]


def _part(part: Part) -> str:
    if isinstance(part, Heading):
        return f"<h2>{html.escape(part.text)}</h2>"
    if isinstance(part, Table):
        return part.html()
    if isinstance(part, Figure):
        return f"<figure>\n{svg(part.drawing)}\n<figcaption>{html.escape(part.caption)}</figcaption>\n</figure>"
    return f"<p>{html.escape(part)}</p>"
