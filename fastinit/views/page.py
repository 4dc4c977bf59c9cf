"""One self-contained HTML page out of paragraphs, tables and figures: no file beside it, no network.

Its look is page.css and its only script, which sorts tables, page.js. The page's own content security policy lets
nothing else run or load, so that not even a mistake here could make a tensor's name act.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from . import figure as figures
from .table import Table

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
    """Return the page's text, complete from doctype to ``</html>``; the same parts give the same text."""
    style, script = (_HERE / "page.css").read_text("utf-8"), (_HERE / "page.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    numbered = _numbered(parts)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fastinit {__version__}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>{html.escape(title)}</h1>
{_contents(numbered)}</header>
<main id="content" tabindex="-1">
{"".join(_part(*each) for each in numbered)}</main>
<script>{script}</script>
</body>
</html>
"""


_HERE = Path(__file__).parent


def _numbered(parts: Iterable[Part]) -> list[tuple[Part, int]]:
    """Return each part with its number among those of its kind."""
    counts: Counter[type] = Counter()
    numbered = []
    for part in parts:
        counts[type(part)] += 1
        numbered.append((part, counts[type(part)]))
    return numbered


def _contents(numbered: list[tuple[Part, int]]) -> str:
    """Return links to the sections, where there are several."""
    links = [
        f'<li><a href="#section-{number}">{html.escape(part.text)}</a></li>\n'
        for part, number in numbered
        if isinstance(part, Heading)
    ]
    return f'<nav aria-label="Contents">\n<ul>\n{"".join(links)}</ul>\n</nav>\n' if len(links) > 1 else ""


def _part(part: Part, number: int) -> str:
    if isinstance(part, Heading):
        return f'<h2 id="section-{number}">{html.escape(part.text)}</h2>\n'
    if isinstance(part, Table):
        return _scroller(part.caption, part.html())
    if isinstance(part, Figure):
        drawing = _scroller(f"Figure {number}", _svg(part.drawing, f"figure-{number}"))
        caption = (
            f'<figcaption id="figure-{number}"><b>Figure {number}.</b> {html.escape(part.caption)}</figcaption>'
        )
        return f"<figure>\n{drawing}{caption}\n</figure>\n"
    return f"<p>{html.escape(part)}</p>\n"


def _scroller(label: str, content: str) -> str:
    """Wrap what may be wider than the page in a region that scrolls by itself, by keyboard too."""
    return (
        f'<div class="scroll" role="region" aria-label="{html.escape(label)}" tabindex="0">\n{content}\n</div>\n'
    )


_ID = re.compile(r"#([\w.-]+)")
_COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)"}


def _svg(drawing: Drawing, name: str) -> str:
    """Return a drawing as an SVG element, named by the page's element whose id is `name`.

    matplotlib writes a file of its own. Inside a page its ids must not meet the next figure's, HTML knows its
    namespaces already, and black and white become the page's ink and paper, so that it is readable in the dark.
    """
    file = io.BytesIO()
    with figures.style():
        drawing.savefig(file, format="svg")
    root = ET.fromstring(file.getvalue())
    del root[:2]  # the metadata, and a style sheet that would hold for the whole page
    ids = {element.get("id") for element in root.iter()}
    used = ids & {
        each for element in root.iter() for value in element.attrib.values() for each in _ID.findall(value)
    }

    def in_page(found: re.Match[str]) -> str:
        return f"#{name}-{found[1]}" if found[1] in used else _COLOURS.get(found[0], found[0])

    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(key): _ID.sub(in_page, value) for key, value in element.attrib.items()}
        identity = attributes.pop("id", None)
        element.attrib = attributes | ({"id": f"{name}-{identity}"} if identity in used else {})
    root.attrib = {
        "role": "img",
        "aria-labelledby": name,
        "viewBox": root.attrib["viewBox"],
        "style": f"--width: {root.attrib['width']}",
    }
    return ET.tostring(root, encoding="unicode")


def _local(name: str) -> str:
    """Return a tag's or attribute's name without its namespace."""
    return name.rpartition("}")[2]
