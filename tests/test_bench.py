"""The harness of bench/: contestants in turn, their ratio, and saved runs that no other run replaces."""

import json
import re
import shutil

import pytest
from conftest import ROOT, peer, run_python

BENCH = ROOT / "bench"
CASES = """
import pytest

LOG = []
SECONDS = {"own": [9.0, 1.0, 2.0, 3.0], "slow": [9.0, 8.0, 6.0, 4.0], "absent": None}

def entrant(name):
    if SECONDS[name] is None:
        return None
    def call():
        LOG.append(name)
        return SECONDS[name].pop(0)
    return call

@pytest.mark.parametrize("contestant", ["slow", "own", "absent"])
def bench_work(race, contestant):
    race("a work", contestant, lambda: {name: entrant(name) for name in SECONDS}, least={"slow": 4},
         earlier=1.5, weights=10**9, seconds_of=lambda run: run(), bound="sleep")
    assert LOG == ["own", "slow"] * 4
"""


@pytest.fixture
def bench(tmp_path):
    """A copy of the harness with one file of cases, and a function that runs it."""
    peer("pytest_benchmark")
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(BENCH / name, tmp_path)
    (tmp_path / "bench_case.py").write_text(CASES)

    def ran(*arguments, folder=tmp_path):
        plain = {"PYTEST_ADDOPTS": "", "PYTEST_XDIST_WORKER": "", "PYTHONPATH": str(ROOT)}
        result = run_python("-m", "pytest", str(folder), *arguments, env=plain, cwd=tmp_path)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return ran


def saved(folder):
    return sorted(path for path in folder.rglob("*.json") if path.parent != folder)


def test_contestants_are_timed_in_turn_and_each_keeps_its_own_rounds(bench, tmp_path):
    """A B A B: a machine that slows down half way is not taken for a slow contestant."""
    told = bench("--benchmark-min-rounds=3", f"--benchmark-json={tmp_path / 'run.json'}")
    assert re.search(r"a work: slow / own +3\.00   at least 4  MISSED", told), told
    assert "2 passed, 1 skipped" in told
    cases = {
        case["params"]["contestant"]: case
        for case in json.loads((tmp_path / "run.json").read_text())["benchmarks"]
    }
    assert cases["own"]["stats"]["data"] == pytest.approx([1, 2, 3])
    assert cases["slow"]["stats"]["data"] == pytest.approx([8, 6, 4])
    assert cases["slow"]["extra_info"] == {
        "contestant": "slow", "own": "own", "ratio": 3.0, "least": 4, "weights": 10**9, "ns_a_weight": 6.0,
        "bound": "sleep",
    }  # fmt: skip
    assert {case["group"] for case in cases.values()} == {"a work"}


def test_no_run_replaces_a_saved_one(bench, tmp_path):
    """A run of one case took the place of the committed figures of all."""
    bench("--benchmark-min-rounds=3")
    assert saved(tmp_path) == []
    bench("--benchmark-min-rounds=3", "--benchmark-autosave")
    (first,) = saved(tmp_path / "results")
    before = first.read_bytes()
    told = bench("--benchmark-min-rounds=3", "--benchmark-autosave", "--benchmark-compare", "-k", "own")
    assert len(saved(tmp_path / "results")) == 2
    assert first.read_bytes() == before
    assert "bench_work[own] (0001" in told


def test_the_table_and_the_picture_are_made_of_a_saved_run(bench, tmp_path):
    """Figures of a document that somebody typed."""
    bench("--benchmark-min-rounds=3", f"--benchmark-json={tmp_path / 'run.json'}")
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n")
    run = str(tmp_path / "run.json")
    made = run_python(str(BENCH / "table.py"), run, run, "--into", str(page), env={"PYTHONPATH": str(ROOT)})
    assert made.returncode == 0, made.stderr
    text = page.read_text()
    assert "| a work | 2 ns |  | slow 6 ns (3 x, at least 4) | sleep | 1 x, at least 1.5 |\n" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text


def test_every_file_of_the_folder_is_in_its_table():
    table = (BENCH / "README.md").read_text()
    assert [path.name for path in BENCH.glob("*.py") if f"`{path.name}`" not in table] == []


def test_a_clone_collects_the_cases(bench):
    """pytest's settings for the tests are none for the benchmarks: nothing was collected."""
    told = bench("--collect-only", "-q", folder=BENCH)
    assert "bench_fill.py::bench_fill[normal-bfloat16-portable-fastinit]" in told
    assert "bench_small.py::bench_into_out" in told
    assert "error" not in told


def test_the_picture_of_dtypes_has_the_limit_and_the_contestants(bench, tmp_path):
    peer("matplotlib")
    run, picture = str(tmp_path / "run.json"), tmp_path / "speed.svg"
    small = ("--mib=1", "--benchmark-min-rounds=1", "-k", "bfloat16 and not truncated and not portable")
    bench(*small, f"--benchmark-json={run}", folder=BENCH / "bench_fill.py")
    made = run_python(str(BENCH / "plot_dtypes.py"), run, str(picture), env={"PYTHONPATH": str(ROOT)})
    assert made.returncode == 0, made.stderr
    drawn = picture.read_text()
    assert [
        word for word in ("bfloat16", "fastinit", "limit: stores or mix", "uniform", "normal") if word not in drawn
    ] == []


def test_the_picture_of_sizes_is_of_gigabytes_a_second_and_names_the_machine(bench, tmp_path):
    """Seconds on a logarithmic axis show only that more takes longer; and of which machine?"""
    peer("matplotlib")
    run, picture = tmp_path / "run.json", tmp_path / "sizes.svg"
    bench("--mib=1", "--benchmark-min-rounds=1", "-k", "sizes and (10 or 12)", f"--benchmark-json={run}",
          folder=BENCH / "bench_memory.py")  # fmt: skip
    content = json.loads(run.read_text())
    for case in content["benchmarks"]:  # 2 GB/s at 2**10, 4 at 2**12, twice as fast with two threads
        nbytes = int(case["group"].removeprefix("size "))
        speed = (2 if nbytes == 2**10 else 4) * (2 if "2 threads" in case["extra_info"]["contestant"] else 1)
        case["stats"]["median"] = nbytes / speed / 1e9
    run.write_text(json.dumps(content))
    made = run_python(str(BENCH / "plot_sizes.py"), str(run), str(picture), env={"PYTHONPATH": str(ROOT)})
    assert made.returncode == 0, made.stderr
    drawn = re.sub(r"\s+", " ", picture.read_text())
    machine = content["machine_info"]["fastinit"]
    for words in ("at most 8 GB/s, resident, 2 threads, at 4 KiB", "GB/s of a whole call", "fresh, default",
                  "libc memset", machine["cpu"], f"{machine['cpus']} CPUs"):  # fmt: skip
        assert words in drawn, words


def test_a_file_without_sizes_says_how_to_measure_them(bench, tmp_path):
    peer("matplotlib")
    bench("--benchmark-min-rounds=3", f"--benchmark-json={tmp_path / 'run.json'}")
    made = run_python(
        str(BENCH / "plot_sizes.py"), str(tmp_path / "run.json"), "x.svg", env={"PYTHONPATH": str(ROOT)}
    )
    assert made.returncode == 1
    assert "-k sizes --benchmark-json" in made.stderr
