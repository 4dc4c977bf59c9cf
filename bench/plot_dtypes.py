"""Nanoseconds a weight against dtype, from a results file: python bench/plot_dtypes.py NEW.json docs/speed.svg"""

import sys

from peers import DTYPES
from results import Work, machine_of, works

from fastinit.cli.timing import MIX, STORES
from fastinit.views import figure as figures

BASES = ("uniform", "normal")
STYLES = {
    "fastinit": figures.emphasis(0),
    "numpy": figures.emphasis(1),
    "torch": figures.emphasis(2),
    "MKL": figures.emphasis(None) | {"marker": "v", "markersize": 4},
}


def fills(path: str, base: str) -> dict[str, Work]:
    """Return the works of a distribution by dtype, of the best level that ran."""
    found: dict[str, Work] = {}
    for work in works(path).values():
        facts = work.facts.get("fastinit", {})
        if facts.get("base") == base:
            found.setdefault(facts["dtype"], work)
    return {dtype: found[dtype] for dtype in DTYPES if dtype in found}


def draw(axes, base: str, by_dtype: dict[str, Work]) -> None:
    """Draw one point a contestant and dtype, and the limit as a step of each dtype's width."""
    for place, work in enumerate(by_dtype.values()):
        limit = max(filter(None, (work.ns_a_weight(name) for name in (STORES, MIX))), default=None)
        if limit:
            label = "limit: stores or mix" if place == 0 else None
            axes.hlines(limit, place - 0.4, place + 0.4, color=figures.ink(), linewidth=2, label=label)
    for name, style in STYLES.items():
        points = [
            (at, work.ns_a_weight(name)) for at, work in enumerate(by_dtype.values()) if name in work.seconds
        ]
        if points:
            axes.plot(*zip(*points, strict=True), label=name, **style | {"linewidth": 0.8})
    axes.set(title=base, yscale="log", ylabel="ns a weight, one thread")
    axes.set_xticks(range(len(by_dtype)), [dtype.replace("_", "\n") for dtype in by_dtype])
    axes.grid(True, axis="y", which="both", alpha=0.2)


def main(results: str, picture: str) -> None:
    """Draw a panel a distribution."""
    with figures.style():
        figure = figures.new_figure(10, 4.5)
        figures.message(figure, "Time a weight by dtype, beside what no fill can beat on this machine")
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, base in ((left, BASES[0]), (right, BASES[1])):
            draw(axes, base, fills(results, base))
        right.set_ylabel("")
        left.legend(fontsize=8)
        figure.supxlabel(machine_of(results), fontsize=8)
    figures.save(figure, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
