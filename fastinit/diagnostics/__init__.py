"""Experiments with starting weights that a person can run, read and look at.

An experiment's result has `lines()` for a terminal, `facts()` for a program and `tables()` for a notebook;
`figures.draw` and `pages.page` show it. The names here are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .claims import check_claims
    from .diagnosis import diagnose
    from .digits import load_digits, read_digits
    from .populations import measure_populations
    from .propagation import propagate, residual_stack, six_schemes
    from .report import learner_report
    from .symmetry import zero_symmetry_probe
    from .trace import parse_trace, render_trace
    from .training import compare_starts, train_digits

_HOME = {
    "check_claims": "claims",
    "compare_starts": "training",
    "diagnose": "diagnosis",
    "learner_report": "report",
    "load_digits": "digits",
    "measure_populations": "populations",
    "parse_trace": "trace",
    "propagate": "propagation",
    "read_digits": "digits",
    "render_trace": "trace",
    "residual_stack": "propagation",
    "six_schemes": "propagation",
    "train_digits": "training",
    "zero_symmetry_probe": "symmetry",
}

__all__ = [
    "check_claims",
    "compare_starts",
    "diagnose",
    "learner_report",
    "load_digits",
    "measure_populations",
    "parse_trace",
    "propagate",
    "read_digits",
    "render_trace",
    "residual_stack",
    "six_schemes",
    "train_digits",
    "zero_symmetry_probe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
