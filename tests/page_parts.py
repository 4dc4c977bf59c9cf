"""A page of every kind of part, and pages of results, for the tests with and without a browser."""

import math

import numpy as np

from fastinit.lessons import check_claims, learner_report, measure_populations
from fastinit.views import figure as figures
from fastinit.views.page import Figure, Heading
from fastinit.views.table import Table

HOSTILE = "</script></title></style><img src=x onerror=\"document.title='owned'\">&amp;'\""

ROWS = (
    ("h.10.weight", 2**53 + 1, 0.5, "good"),
    ("h.2.weight", 2**53, math.nan, "good"),
    ("h.1.weight", 768, -math.inf, None),
    (HOSTILE, 7, math.inf, "exploded"),
    ("h.3.weight", 10, None, "good"),
    ("h.4.weight", 9, 1e-12, "exploded"),
)
TABLE = Table("measured spread of each tensor, in weight units", ("name", "elements", "sd", "verdict"), ROWS)
WIDE = Table("wider than any phone", tuple(f"column {i}" for i in range(40)), (tuple(range(40)),))


def drawing(title="measured", grey=False):
    """Lines, markers, text, a clip path, a hatch, and with `grey` an image."""
    with figures.style():
        figure = figures.new_figure(7, 3)
        axes = figure.subplots()
        axes.set_title(title)
        axes.plot(np.arange(9), np.linspace(0, 1, 9), marker="o", label="$|a|$ & <b>")
        axes.bar([2, 3], [0.5, 0.25], hatch="//", edgecolor="white")
        if grey:
            axes.imshow(np.eye(2), cmap="gray", aspect="auto")
        axes.legend()
    return figure


def parts():
    """Every kind of part, hostile text in each."""
    return [
        f"A paragraph. {HOSTILE} " + "a-very-long-name-without-any-space." * 20,
        Heading(f"Figures {HOSTILE}"),
        Figure(drawing(HOSTILE), f"Measured (lines) and expected (dashes). {HOSTILE}"),
        Figure(drawing(grey=True), "Another."),
        Heading("Tables"),
        TABLE,
        WIDE,
        Table("longer than the screen", ("a",), tuple((i,) for i in range(100))),
        "The last word.",
    ]


RESULTS = {"report": learner_report, "trace": measure_populations, "claims": check_claims}
"""name -> a function that returns a result with a page; the slow ones are left out."""
