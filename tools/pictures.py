"""Make the pictures and pages under docs/ again: `make pictures`.

Every result below is computed once and written to docs/pictures/NAME.svg and docs/reports/NAME.html, as far as it
has a drawing and a page. The same code and the same matplotlib write the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from fastinit.diagnostics import figures, pages
from fastinit.diagnostics.claims import check_claims
from fastinit.diagnostics.populations import measure_populations
from fastinit.diagnostics.report import learner_report
from fastinit.diagnostics.training import compare_starts

RESULTS: dict[str, Callable[[], object]] = {
    "report": learner_report,
    "trace": measure_populations,
    "train": compare_starts,
    "claims": check_claims,
}

VIEWS = ((figures.draw, figures.save, "pictures", ".svg"), (pages.page, pages.save, "reports", ".html"))


def write(name: str, result: object, docs: Path) -> list[Path]:
    """Write the views that `result` has under `docs`, and return their files."""
    written = []
    for view, save, folder, suffix in VIEWS:
        if view.dispatch(type(result)) is not view.dispatch(object):
            path = docs / folder / f"{name}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            save(result, path)
            written.append(path)
    return written


def main(names: list[str]) -> None:
    """Write the views of the results named, or of all."""
    docs = Path(__file__).parent.parent / "docs"
    for name in names or RESULTS:
        for path in write(name, RESULTS[name](), docs):
            print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
