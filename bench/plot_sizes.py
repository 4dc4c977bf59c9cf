"""Draw GB/s against size from a results file: python bench/plot_sizes.py NEW.json docs/cost-against-size.svg"""

import sys

from matplotlib.figure import Figure
from results import machine_of, works

from fastinit.cli.timing import MEMSET
from fastinit.views import figure as figures

CONTESTANTS = ("resident, 1 thread", "resident, 2 threads", "fresh, default")
"""The fills, in the order of the palette; memset, which no fill can beat, is grey."""


def speeds(results: str) -> dict[str, list[tuple[int, float]]]:
    """Return bytes and GB/s of each contestant, by size; contestants that did not run are left out."""
    points: dict[str, list[tuple[int, float]]] = {}
    for name, work in works(results).items():
        if name.startswith("size "):
            for contestant, seconds in work.seconds.items():
                points.setdefault(contestant, []).append((int(name[5:]), int(name[5:]) / seconds / 1e9))
    return {contestant: sorted(found) for contestant, found in points.items()}


def draw(found: dict[str, list[tuple[int, float]]], machine: str) -> Figure:
    """Draw a line a contestant, both axes logarithmic, and name the machine."""
    with figures.style():
        drawing = figures.new_figure(8, 5)
        axes = drawing.subplots()
        lines = {}
        for name, points in found.items():
            style = figures.emphasis(CONTESTANTS.index(name) if name in CONTESTANTS else None)
            (lines[name],) = axes.plot(*zip(*points, strict=True), **style)
        best, (nbytes, speed) = max(
            ((name, max(points, key=lambda point: point[1])) for name, points in found.items() if name != MEMSET),
            key=lambda each: each[1][1],
        )
        figures.message(drawing, f"xavier_uniform, float64: at most {speed:.3g} GB/s, {best}, at {_size(nbytes)}")
        axes.set(yscale="log", xlabel="bytes filled by one call", ylabel="GB/s of a whole call, median")
        axes.set_xscale("log", base=2)
        sizes = sorted({nbytes for points in found.values() for nbytes, _ in points})
        axes.set_xlim(sizes[0], sizes[-1] if len(sizes) > 1 else 2 * sizes[0])
        axes.set_xticks(sizes[::4], [_size(nbytes) for nbytes in sizes[::4]])
        axes.set_title(machine, fontsize=8, wrap=True)
        figures.label_ends(axes, lines)
    return drawing


def _size(nbytes: int) -> str:
    """Return ``16 B``, ``4 KiB``, ``8 GiB``."""
    power = min(3, (nbytes.bit_length() - 1) // 10)
    return f"{nbytes >> 10 * power} {('B', 'KiB', 'MiB', 'GiB')[power]}"


def main(results: str, picture: str) -> None:
    """Draw the sizes of a results file into an .svg or .png."""
    found = speeds(results)
    if not found:
        raise SystemExit(f"{results} has no sizes: run python -m pytest bench -k sizes --benchmark-json={results}")
    figures.save(draw(found, machine_of(results)), picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
