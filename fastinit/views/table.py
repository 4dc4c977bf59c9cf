"""`Table`: rows of a result, as text for a terminal and as HTML for a page or a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from .._escaping import escaped

Cell = str | int | float | bool | None
"""None is an empty cell."""


@dataclass(frozen=True, slots=True)
class Table:
    r"""A caption, the columns' names, and the rows.

    Attributes
    ----------
    caption : str
        The meaning of the numbers: their object, their unit, and whether they are measured or expected.
    columns : tuple of str
        One name for each column.
    rows : tuple of tuple of (str, int, float, bool or None)
        One cell for each column. Floats are shown in 4 significant digits, unprintable characters of
        strings are escaped.

    Examples
    --------
    >>> table = Table("rms of a layer", ("layer", "rms"), ((1, 0.99712), (50, 1.0251)))
    >>> print("\n".join(table.lines()))
    layer     rms
        1  0.9971
       50   1.025
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row has {len(row)} cells for {len(self.columns)} columns: {row!r}")

    def lines(self, most: int | None = None) -> list[str]:
        """Return the table as aligned text lines, numbers to the right; at most `most` rows, and how many more."""
        texts = [self.columns, *(tuple(map(shown, row)) for row in self.rows[:most])]
        columns = list(zip(map(_width, zip(*texts, strict=True)), self._numeric(), strict=True))
        aligned = [
            "  ".join(
                text.rjust(width) if numeric else text.ljust(width)
                for text, (width, numeric) in zip(row, columns, strict=True)
            ).rstrip()
            for row in texts
        ]
        return [*aligned, *the_rest(len(self.rows), most)]

    def html(self, most: int | None = None) -> str:
        """Return a ``<table>`` element, cut as `lines` is; a number's cell carries its exact value for sorting."""
        head = "".join(
            f'<th scope="col"{_CLASS if numeric else ""}>{markup(name)}</th>'
            for name, numeric in zip(self.columns, self._numeric(), strict=True)
        )
        rest = (f'<td colspan="{len(self.columns)}">{text}</td>' for text in the_rest(len(self.rows), most, ""))
        rows = (*("".join(map(_td, row)) for row in self.rows[:most]), *rest)
        body = "\n".join(f"<tr>{row}</tr>" for row in rows)
        return (
            f"<table>\n<caption>{markup(self.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
            f"<tbody>\n{body}\n</tbody>\n</table>"
        )

    def _repr_html_(self) -> str:
        return notebook([self])

    def _numeric(self) -> tuple[bool, ...]:
        """Say of each column whether it holds numbers. It walks all rows: ask once for a table, not for a row."""
        found = tuple(any(map(_is_number, column)) for column in zip(*self.rows, strict=True))
        return found or (False,) * len(self.columns)


def notebook(tables: Iterable[Table]) -> str:
    """Return tables as HTML for a notebook: in its own colours, a long table scrolls by itself."""
    return "\n".join(f'<div class="fastinit">\n{_STYLE}\n{table.html(NOTEBOOK)}\n</div>' for table in tables)


def the_rest(number: int, most: int | None, remedy: str = "; --all shows all") -> list[str]:
    """Return the line that ends a list of `number` rows cut after `most`; nothing where none is left out."""
    return [] if most is None or number <= most else [f"... and {number - most:,} more of {number:,}{remedy}"]


def captioned(tables: Iterable[Table]) -> list[str]:
    """Return the lines of tables under their captions, an empty line between two."""
    lines: list[str] = []
    for table in tables:
        lines += ["", table.caption, *table.lines()]
    return lines[1:]


def counted(number: int, noun: str) -> str:
    """Return ``1 tensor``, ``2 tensors``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amount(nbytes: int) -> str:
    """Return ``1.5 MB``, ``20.0 GB``."""
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 10**9 else f"{nbytes / 1e6:,.1f} MB"


NOTEBOOK = 2000
"""Rows of a table that a notebook keeps in its file."""

_CLASS = ' class="number"'
_WIDEST = 200  # characters: one longer cell must not make every row as long
_LINE = 40  # characters: a longer text may be broken into lines
_STYLE = (
    "<style>.fastinit { max-height: 30em; overflow: auto; } "
    ".fastinit table caption, .fastinit table tr th, .fastinit table tr td { text-align: left; } "
    ".fastinit table tr .number { text-align: right; }</style>"
)


def _width(texts: Iterable[str]) -> int:
    """Return the width of a column; a cell longer than `_WIDEST` shifts the rest of its own row only."""
    return min(_WIDEST, max(map(len, texts)))


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def shown(cell: Cell) -> str:
    """Return a cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.4g}" if isinstance(cell, float) else f"{cell:,}" if isinstance(cell, int) else escaped(cell)


def markup(text: str) -> str:
    """Return text as HTML that shows it: neither its markup nor its control characters act."""
    return html.escape(escaped(text))


def _td(cell: Cell) -> str:
    text = html.escape(shown(cell))
    if isinstance(cell, str | bool | None):
        return f'<td class="long">{text}</td>' if len(text) > _LINE else f"<td>{text}</td>"
    exact = float(cell) if isinstance(cell, float) else cell  # numpy's float64 is a float with a longer repr
    return f'<td class="number" data-value="{exact!r}">{text}</td>'
