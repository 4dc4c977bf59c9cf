"""The long checks of tools/: what they name exists, so that none of them checks less than it says."""

import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import sanitize


def test_the_sanitizers_run_programs_and_tests_that_exist():
    """A renamed test that is left out, or run, without a word."""
    programs = {path.stem for path in (ROOT / "tests" / "native").glob("*.c")}
    assert sanitize.PROGRAMS.keys() == programs - {"intervals"}  # which includes one level's file
    texts = {name: (ROOT / "tests" / f"test_{name}.py").read_text() for name in sanitize.TESTS}
    for sanitizer in sanitize.SANITIZERS.values():
        for test, reason in sanitizer.unfit.items():
            assert any(f"def {test}(" in text for text in texts.values()), test
            assert reason


def test_a_sanitizer_that_finds_something_is_not_called_clean(tmp_path):
    """A run that goes on after a finding, and ends well."""
    with pytest.raises(sanitize.Failed, match="broken: status 1"):
        sanitize.step("broken", [sys.executable, "-c", "raise SystemExit(1)"])


@pytest.mark.parametrize("target", ["fuzz", "sanitize"])
def test_make_runs_the_long_checks(target):
    """A command of the documents that is no target of the Makefile."""
    command = ["make", "-n", target, "MINUTES=3"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert f"tools/{target}.py" in told.stdout
    assert ("--minutes 3" in told.stdout) == (target == "fuzz")


@pytest.mark.parametrize("developed", [False, True])
def test_make_run_installs_nothing_editable_and_says_what_it_does(developed, tmp_path):
    """setuptools warns of every editable installation: the first thing that a newcomer read."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    if developed:
        (venv / ".built").touch()
    told = subprocess.run(
        ["make", "-n", "run", f"VENV={venv}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "--editable" not in told.stdout
    assert ("the C core is compiled" in told.stdout) == (not developed)
