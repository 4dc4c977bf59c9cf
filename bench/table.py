"""Print what every work is bound by, from a results file: python bench/table.py NEW.json [OLD.json] [--into FILE]

A row is a work: fastinit's time, what no fill beats there, the peers' times over fastinit's, and, beside an older
file, its time over the new one. `--into` replaces what stands between the two marks of a Markdown file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from results import Work, machine_of, works

from fastinit.cli.timing import MEMSET, MIX, STORES

BEGIN, END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"
LIMITS = {STORES: "stores", MIX: "mix"}
NEAR = 0.9
"""A fill this near to a limit is bound by it."""


def quantity(seconds: float, ns: float | None) -> str:
    """Return nanoseconds a weight, or else seconds in a unit that suits them."""
    if ns is not None:
        return f"{ns:.3g} ns"
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def limit_of(work: Work) -> str | None:
    """Return the contestant that no fill beats."""
    limits = [name for name in LIMITS if name in work.seconds]
    return max(limits, key=lambda name: work.seconds[name], default=None)


def bound_of(work: Work) -> str:
    """Return what bounds a work: a limit that it is near to, what its case says, or its own arithmetic."""
    said = work.facts[work.own].get("bound") if work.own in work.facts else None
    limit = limit_of(work)
    if said or limit is None:
        return said or ""
    near = work.seconds[limit] / work.seconds[work.own] >= NEAR
    return (
        LIMITS[limit]
        if near
        else f"from draw to weight, {work.seconds[work.own] / work.seconds[limit]:.1f} x the {LIMITS[limit]}"
    )


def row(work: Work, old: Work | None) -> str | None:
    """Return the Markdown row of a work; None where fastinit's own case did not run."""
    own = work.own
    if own not in work.seconds:
        return None

    def told(name: str) -> str:
        return quantity(work.seconds[name], work.ns_a_weight(name))

    limit = limit_of(work)
    limited = f"{told(limit)} ({LIMITS[limit]})" if limit else ""
    peers = []
    for name in work.seconds:
        if name not in (own, *LIMITS, MEMSET):
            least = work.facts[name].get("least")
            aim = f", at least {least:.3g}" if least else ""
            peers.append(f"{name} {told(name)} ({work.seconds[name] / work.seconds[own]:.3g} x{aim})")
    cells = [work.name, told(own), limited, "; ".join(peers), bound_of(work)]
    if old is not None:
        ratio = old.seconds[old.own] / work.seconds[own] if old.own in old.seconds else None
        aim = work.facts[own].get("earlier")
        cells.append("" if ratio is None else f"{ratio:.3g} x" + (f", at least {aim:.3g}" if aim else ""))
    return f"| {' | '.join(cells)} |"


def table(new: str, old: str | None = None) -> str:
    """Return the whole table, with the machine above it."""
    before = works(old) if old else {}
    heads = [
        "work",
        "fastinit",
        "limit",
        "peers: time (over fastinit's)",
        "bound by",
        *(["against earlier"] if old else []),
    ]
    lines = [machine_of(new), "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    empty = Work("", {}, {"": {"own": ""}})
    for name, work in works(new).items():
        if not name.startswith("size "):  # plot_sizes.py draws those
            lines += filter(None, [row(work, before.get(name, empty) if old else None)])
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or put it between the marks of a file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("new", help="a results file of pytest-benchmark")
    parser.add_argument("old", nargs="?", help="an earlier one, to compare with")
    parser.add_argument("--into", metavar="FILE", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    text = table(options.new, options.old)
    if options.into is None:
        print(text, end="")
        return
    head, _, rest = options.into.read_text().partition(BEGIN)
    _, mark, tail = rest.partition(END)
    if not mark:
        raise SystemExit(f"{options.into} has no {BEGIN.strip()} and {END.strip()} to put the table between")
    options.into.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")


if __name__ == "__main__":
    main()
