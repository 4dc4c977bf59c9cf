"""Races for pytest-benchmark: each contestant is a case of its own, and all of one work are timed in turn.

pytest-benchmark times all rounds of a case before it begins the next, and on a shared machine the second
contestant then runs under another load than the first. So the first case of a work runs the whole race, A B C A
B C, by the stopwatch of `fastinit.cli.timing`. Each case then plays its own rounds to `benchmark.pedantic` under a
recorded clock: a `timer` for pytest-benchmark that moves only when a round is played. Statistics, groups, tables,
`--benchmark-json`, `--benchmark-autosave` and `--benchmark-compare` are pytest-benchmark's own.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fastinit.cli.machine import machine
from fastinit.cli.timing import Contestant, rounds_in_turn

RESULTS = Path(__file__).parent / "results"


class RecordedClock:
    """A clock that stands still, but for the seconds that are played to it."""

    now = 0.0

    def play(self, seconds: float) -> None:
        self.now += seconds


_clock = RecordedClock()


def recorded_clock() -> float:
    """Return the time of the rounds played so far."""
    return _clock.now


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the size of a large buffer."""
    parser.addoption(
        "--mib",
        type=int,
        default=512,
        help="size of a large buffer in MiB (default 512); a checkpoint is 5 times as large. Figures of small "
        "buffers say nothing: they are for trying a case",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Save runs beside this file, wherever pytest was started; --benchmark-storage still has the last word."""
    if config.option.benchmark_storage == "file://./.benchmarks":
        config.option.benchmark_storage = f"file://{RESULTS}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every case the recorded clock."""
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=recorded_clock))


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Say which kernels ran, and how they were compiled; the commit stands in the file already."""
    machine_info["fastinit"] = {key: value for key, value in machine().items() if key != "commit"}


@pytest.fixture(scope="session")
def large(pytestconfig: pytest.Config) -> int:
    """Bytes of a large buffer."""
    return pytestconfig.getoption("--mib") << 20


@dataclass
class Races:
    """The seconds of every contestant of every work, each work timed once a session."""

    rounds: int
    done: dict[str, dict[str, list[float]]]

    def seconds(
        self,
        work: str,
        make: Callable[[], dict[str, Contestant | None]],
        rounds: int,
        pause: float,
        seconds_of: Callable[[Contestant], float] | None,
    ) -> dict[str, list[float]]:
        """Return the rounds of a work's contestants; what is None or missing does not take part."""
        if work not in self.done:
            contestants = {name: run for name, run in make().items() if run is not None}
            self.done[work] = rounds_in_turn(contestants, rounds, pause, seconds_of)
        return self.done[work]


@pytest.fixture(scope="session")
def races(pytestconfig: pytest.Config) -> Races:
    """Races of this session; under --benchmark-disable of one round."""
    disabled = pytestconfig.getoption("benchmark_disable")
    return Races(1 if disabled else pytestconfig.getoption("benchmark_min_rounds"), {})


@pytest.fixture
def race(benchmark: Any, races: Races, pytestconfig: pytest.Config) -> Callable[..., None]:
    """Return the function that runs a case: one contestant of one work."""

    def run(
        work: str,
        contestant: str,
        make: Callable[[], dict[str, Contestant | None]],
        *,
        least: dict[str, float] | None = None,
        earlier: float | None = None,
        weights: int | None = None,
        calls: int = 1,
        most_rounds: int = 1000,
        pause: float = 0.0,
        seconds_of: Callable[[Contestant], float] | None = None,
        **facts: object,
    ) -> None:
        """Give pytest-benchmark the rounds of `contestant`, and put its ratio to the first one into extra_info.

        `make` returns {contestant: call}; the ratios are to the first, and a call does the work `calls` times.
        `least` says which ratio to a contestant must be reached, `earlier` how many times as fast as in an earlier
        results file the first one must be. The work draws `weights`. `bound` says what bounds it, where that is
        neither the stores nor the mix, and `facts` are anything else.
        """
        seconds = races.seconds(work, make, min(races.rounds, most_rounds), pause, seconds_of)
        own = next(iter(seconds))
        if contestant not in seconds:
            pytest.skip(f"{contestant} is not installed, or cannot do this")
        medians = {name: statistics.median(rounds) / calls for name, rounds in seconds.items()}
        mine = medians[contestant]
        benchmark.group = work
        benchmark.extra_info |= {"contestant": contestant, "own": own, "ratio": mine / medians[own]}
        if least and contestant in least:
            benchmark.extra_info["least"] = least[contestant]
        if contestant == own and earlier:
            benchmark.extra_info["earlier"] = earlier
        if weights:
            benchmark.extra_info |= {"weights": weights, "ns_a_weight": mine / weights * 1e9}
        benchmark.extra_info |= facts
        played = iter([second / calls for second in seconds[contestant]])
        benchmark.pedantic(_clock.play, setup=lambda: ((next(played),), {}), rounds=len(seconds[contestant]))
        pytestconfig.stash.setdefault(_ROWS, []).append((work, benchmark.extra_info))

    return run


_ROWS = pytest.StashKey[list[tuple[str, dict[str, Any]]]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print every ratio beside the least that it must reach."""
    for work, facts in config.stash.get(_ROWS, []):
        if "least" in facts:
            missed = "  MISSED" if facts["ratio"] < facts["least"] else ""
            terminalreporter.write_line(
                f"{work + ': ' + facts['contestant'] + ' / ' + facts['own']:<84} {facts['ratio']:>8.2f}"
                f"   at least {facts['least']:.4g}{missed}"
            )
