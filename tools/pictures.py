"""Make the pictures and pages under docs/ again: `make pictures`.

Every result below is computed once and written to docs/pictures/NAME.svg and docs/reports/NAME.html, as far as it
has a drawing and a page. The same code and the same matplotlib write the same bytes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: sums of a product depend on the number of threads

import numpy as np

from fastinit import Plan, write_checkpoint
from fastinit.diagnosis import diagnose
from fastinit.diagnosis.result import Diagnosis
from fastinit.lessons.claims import check_claims
from fastinit.lessons.populations import measure_populations
from fastinit.lessons.report import learner_report
from fastinit.lessons.training import compare_starts
from fastinit.propagation import compare_initializers, lesson
from fastinit.views import figure as figures
from fastinit.views import pages_old as pages

BLOCK = {
    "h.0.attn.c_attn.weight": (192, 576),
    "h.0.attn.c_proj.weight": (192, 192),
    "h.0.mlp.c_fc.weight": (192, 768),
    "h.0.mlp.c_proj.weight": (768, 192),
    "h.1.attn.c_attn.weight": (192, 576),
    "h.1.attn.c_proj.weight": (192, 192),
}


def diagnose_faults() -> Diagnosis:
    """Diagnose a small checkpoint with three faults: a matrix of zeros, one drawn twice, a spread off its rule."""
    layout = {name: {"dtype": "F32", "shape": list(shape)} for name, shape in BLOCK.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faulty.safetensors"
        write_checkpoint(Plan.from_layout(layout, 17), path)
        end = path.stat().st_size
        weights = {}
        for name, shape in reversed(BLOCK.items()):  # stored in the layout's order, up to the end of the file
            end -= 4 * shape[0] * shape[1]
            weights[name] = np.memmap(path, "<f4", "r+", end, shape)
        weights["h.0.mlp.c_fc.weight"][:] = 0
        weights["h.1.attn.c_attn.weight"][:] = weights["h.0.attn.c_attn.weight"]
        return replace(diagnose(path, rules={"*c_proj.weight": 0.0041}), path=path.name)


RESULTS: dict[str, Callable[[], object]] = {
    "report": learner_report,
    "trace": measure_populations,
    "train": compare_starts,
    "claims": check_claims,
    "propagate": compare_initializers,
    "weight-init-variance": lesson,
    "diagnose": diagnose_faults,
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
