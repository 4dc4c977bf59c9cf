"""One self-contained HTML page made of paragraphs, tables and figures; it loads no other file.

page.css is its look, page.js its only script, which sorts tables. The page's own content security policy lets
nothing else run or load: a tensor's name is anyone's text, and even if it were not escaped it could not act.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .. import __version__
from .._escaping import escaped
from .._files.replacing import write_file
from . import figure as figures
from .table import Table, markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section.

    Attributes
    ----------
    text : str
        Plain text; markup in it is shown, not obeyed.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and its caption.

    Attributes
    ----------
    drawing : matplotlib.figure.Figure
        Becomes an SVG element of the page.
    caption : str
        Says which part of the drawing is measured, and which is only expected. On the page the drawing's message
        comes first: a phone shows a wide drawing in part only.
    """

    drawing: Drawing
    caption: str


Part = str | Heading | Table | Figure
"""A piece of a page; a string is a paragraph."""


def save(page: str, path: str | os.PathLike[str]) -> None:
    """Write a page, as `page` and a result's ``page()`` return it, to a new or, in one step, replaced file."""
    write_file(path, page.encode())


def page(title: str, parts: Iterable[Part]) -> str:
    """Return the page's text, complete from doctype to ``</html>``; the same parts give the same text.

    Parameters
    ----------
    title : str
        Of the window and of the page.
    parts : iterable of Part
        In their order on the page. With two headings or more, links to them come first.
    """
    script = _asset("page.js")
    numbered = _numbered(parts)
    return _TEMPLATE.format(
        policy=_policy(script),
        version=__version__,
        title=markup(title),
        style=_asset("page.css") + _labels(numbered),
        contents=_contents(numbered),
        main="".join(_part(*each) for each in numbered),
        script=script,
    )


_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="fastinit {version}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<h1>{title}</h1>
{contents}</header>
<main id="content" tabindex="-1">
{main}</main>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    """Return the text of a file beside this module."""
    return (Path(__file__).parent / name).read_text("utf-8")


def _policy(script: str) -> str:
    """Return the content security policy that allows `script`, styles and embedded images, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


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
        f'<li><a href="#section-{number}">{markup(part.text)}</a></li>\n'
        for part, number in numbered
        if isinstance(part, Heading)
    ]
    return f'<nav aria-label="Contents">\n<ul>\n{"".join(links)}</ul>\n</nav>\n' if len(links) > 1 else ""


def _part(part: Part, number: int) -> str:
    if isinstance(part, Heading):
        return f'<h2 id="section-{number}">{markup(part.text)}</h2>\n'
    if isinstance(part, Table):
        return _scroller(part.caption, part.html(), f'id="table-{number}" ')
    if isinstance(part, Figure):
        drawing = _scroller(f"Figure {number}", _svg(part.drawing, f"figure-{number}"))
        title = f"Figure {number}. {figures.message_of(part.drawing)}".rstrip(". ")
        caption = f'<figcaption id="figure-{number}"><b>{markup(title)}.</b> {markup(part.caption)}</figcaption>'
        return f"<figure>\n{drawing}{caption}\n</figure>\n"
    return f"<p>{markup(part)}</p>\n"


def _labels(numbered: list[tuple[Part, int]]) -> str:
    """Return style rules that give each cell its column's name, which page.css shows where rows are stacked."""
    return "".join(
        f"#table-{number} td:nth-child({place})::before {{ content: {_css_string(name)}; }}\n"
        for part, number in numbered
        if isinstance(part, Table)
        for place, name in enumerate(_unique(part.columns), 1)
    )


def _unique(names: Iterable[str]) -> list[str]:
    """Return columns' names as each is read alone: a repeated one follows the last unrepeated one."""
    counts = Counter(names := tuple(names))
    group, unique = "", []
    for name in names:
        group = name if counts[name] == 1 else group
        unique.append(name if counts[name] == 1 else f"{group}, {name}")
    return unique


def _css_string(text: str) -> str:
    """Return text as a string of CSS inside a ``<style>`` element, whatever is in it."""
    safe = (c if c.isalnum() or c == " " else f"\\{ord(c):x} " for c in escaped(text))
    return f'"{"".join(safe)}"'


def _scroller(label: str, content: str, name: str = "") -> str:
    """Wrap content that may be wider than the page in a region that scrolls by itself, by keyboard too."""
    return (
        f'<div {name}class="scroll" role="region" aria-label="{markup(label)}" tabindex="0">\n{content}\n</div>\n'
    )


_ID = re.compile(r"#([\w.-]+)")
_COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)"}


def _svg(drawing: Drawing, name: str) -> str:
    """Return a drawing as an SVG element, labelled by the page's element whose id is `name`.

    matplotlib writes a file of its own. Inside a page its ids must not meet the next figure's, HTML knows its
    namespaces already, and black and white become the page's ink and paper, so that a dark page is readable.
    """
    root = _as_tree(drawing)
    ids = {element.get("id") for element in root.iter()}
    used = ids & _references(root)

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


def _as_tree(drawing: Drawing) -> ET.Element:
    """Return matplotlib's SVG without its metadata and its style sheet, which would hold for the whole page."""
    file = io.BytesIO()
    with figures.style():
        drawing.savefig(file, format="svg")
    root = ET.fromstring(file.getvalue())
    del root[:2]
    return root


def _references(root: ET.Element) -> set[str | None]:
    """Return the ids that any attribute below `root` refers to."""
    values = (value for element in root.iter() for value in element.attrib.values())
    return {found for value in values for found in _ID.findall(value)}


def _local(name: str) -> str:
    """Return a tag's or attribute's name without its namespace."""
    return name.rpartition("}")[2]
