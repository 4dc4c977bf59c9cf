"""Results of pytest-benchmark as works: what `table.py`, `plot_dtypes.py` and `plot_sizes.py` read."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Work:
    """The contestants of one work: median seconds and extra_info of each, the first of them fastinit's."""

    name: str
    seconds: dict[str, float]
    facts: dict[str, dict[str, Any]]

    @property
    def own(self) -> str:
        """The contestant that the others are measured by."""
        return next(iter(self.facts.values()))["own"]

    def ns_a_weight(self, contestant: str) -> float | None:
        """Return nanoseconds a weight, None where the contestant or the number of weights is missing."""
        facts = self.facts.get(contestant, {})
        return facts.get("ns_a_weight")


def works(path: str | Path) -> dict[str, Work]:
    """Return the works of a results file by name, in the order in which they ran."""
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    facts: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for case in read(path)["benchmarks"]:
        contestant = case["extra_info"]["contestant"]
        seconds[case["group"]][contestant] = case["stats"]["median"]
        facts[case["group"]][contestant] = case["extra_info"]
    return {name: Work(name, seconds[name], facts[name]) for name in seconds}


def read(path: str | Path) -> dict[str, Any]:
    """Return a results file; name it where it is none of pytest-benchmark's."""
    content = json.loads(Path(path).read_text())
    if "benchmarks" not in content:
        raise SystemExit(f"{path} is not by pytest-benchmark: --benchmark-json and --benchmark-autosave write one")
    return content


def machine_of(path: str | Path) -> str:
    """Return one line: CPU, kernels, compiler, date and commit."""
    content = read(path)
    here, commit = content["machine_info"]["fastinit"], content["commit_info"]["id"][:8]
    return (
        f"{here['cpu']}, {here['cpus']} CPUs, {here['level']}, {here['compiler']}, numpy {here['numpy']}; "
        f"{content['datetime'][:10]}, commit {commit}"
    )
