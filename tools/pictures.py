"""Write the pictures and pages of the lessons under docs/: `make pictures`.

Every result below is computed once and written to docs/pictures/NAME.svg and docs/reports/NAME.html, as far as it
has a drawing and a page. The same code and the same matplotlib write the same bytes. Git keeps the pictures that
docs/lessons.md shows, and no other.
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
from fastinit.lessons import check_claims, compare_starts, learner_report, measure_populations
from fastinit.propagation import compare_initializers, lesson
from fastinit.views import figure, page
from fastinit.views.result import Result

BLOCK = {
    "h.0.attn.c_attn.weight": (192, 576),
    "h.0.attn.c_proj.weight": (192, 192),
    "h.0.mlp.c_fc.weight": (192, 768),
    "h.0.mlp.c_proj.weight": (768, 192),
    "h.1.attn.c_attn.weight": (192, 576),
    "h.1.attn.c_proj.weight": (192, 192),
}


def diagnose_faults() -> Diagnosis:
    """Diagnose a small checkpoint with three faults: zeros, a matrix drawn twice, one wider than its rule."""
    specs = {name: {"dtype": "F32", "shape": list(shape)} for name, shape in BLOCK.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "faulty.safetensors"
        write_checkpoint(Plan.from_specs(specs, 17), path)
        weights = _stored(path)
        weights["h.0.mlp.c_fc.weight"][:] = 0
        weights["h.1.attn.c_attn.weight"][:] = weights["h.0.attn.c_attn.weight"]
        return replace(diagnose(path, rules={"*c_proj.weight": 0.0041}), path=path.name)


def _stored(path: Path) -> dict[str, np.ndarray]:
    """Return the checkpoint's weights, mapped from the file: its last bytes, in the order of `BLOCK`."""
    end = path.stat().st_size
    weights = {}
    for name, shape in reversed(BLOCK.items()):
        end -= 4 * shape[0] * shape[1]
        weights[name] = np.memmap(path, "<f4", "r+", end, shape)
    return weights


RESULTS: dict[str, Callable[[], Result]] = {
    "report": learner_report,
    "trace": measure_populations,
    "train": compare_starts,
    "claims": check_claims,
    "propagate": compare_initializers,
    "weight-init-variance": lesson,
    "diagnose": diagnose_faults,
}

VIEWS = (("figure", figure.save, "pictures", ".svg"), ("page", page.save, "reports", ".html"))


def write(name: str, result: Result, docs: Path) -> list[Path]:
    """Write the views that `result` has under `docs`, and return their files."""
    written = []
    for view, save, folder, suffix in VIEWS:
        if getattr(type(result), view) is not getattr(Result, view):
            path = docs / folder / f"{name}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            save(getattr(result, view)(), path)
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
