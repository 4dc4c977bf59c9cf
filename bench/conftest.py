"""Collect the figures of the cases: a table on the terminal, and one JSON file in results/ with the machine."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastinit.cli.machine import machine

sys.path.append(str(Path(__file__).parent))  # for peers.py, in every import mode of pytest

RESULTS = Path(__file__).parent / "results"
_rows: list[dict[str, object]] = []


@pytest.fixture
def record():
    """Append one row: a case's name and its figures."""

    def append(case: str, **figures: object) -> None:
        _rows.append({"case": case, **figures})

    return append


def pytest_terminal_summary(terminalreporter):
    """Print every ratio beside what it must reach."""
    for row in _rows:
        if "ratio" in row:
            terminalreporter.write_line(
                f"{row['case']:<64} {row['ratio']:>7.2f} (spread {row['spread']:.0%}; at least {row['least']})"
            )


def pytest_sessionfinish():
    """Write results/<date>.json."""
    if _rows:
        RESULTS.mkdir(exist_ok=True)
        commit = ["git", "-C", str(RESULTS), "rev-parse", "HEAD"]  # an installed copy knows no commit
        head = subprocess.run(commit, capture_output=True, text=True, check=False).stdout.strip() or None
        facts = {"machine": {**machine(), "commit": head}, "date": time.strftime("%Y-%m-%d"), "rows": _rows}
        (RESULTS / f"{time.strftime('%Y-%m-%d')}.json").write_text(json.dumps(facts, indent=1) + "\n")
