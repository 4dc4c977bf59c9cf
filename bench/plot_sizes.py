"""Draw cost against size from a results file: python bench/plot_sizes.py NEW.json docs/cost-against-size.svg"""

import sys

import matplotlib as mpl
from matplotlib.figure import Figure
from results import works

from fastinit.cli.timing import MEMSET

STYLES = {
    "resident, 1 thread": ("#0b6e99", "o"),
    "resident, 2 threads": ("#d9730d", "s"),
    "fresh, default": ("#6940a5", "^"),
    MEMSET: ("#787774", "x"),
}


def main(results: str, picture: str) -> None:
    """Draw one line a contestant, both axes logarithmic."""
    sizes = {int(name[5:]): work.seconds for name, work in works(results).items() if name.startswith("size ")}
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for name, (colour, marker) in STYLES.items():
        points = [(nbytes, seconds[name]) for nbytes, seconds in sorted(sizes.items()) if name in seconds]
        axes.loglog(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, label=name)
    axes.set(
        xlabel="bytes filled",
        ylabel="seconds a call",
        title="xavier_uniform, float64: measured cost of a whole call",
    )
    axes.grid(True, which="major", alpha=0.3)
    axes.legend()
    # Text as text is a quarter of its outlines; without a date the same results give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "fastinit"}):
        figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
