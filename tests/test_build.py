"""The package built by setup.py under a user's flags: the golden bits, and a host process left as it was."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT, run_python

BOTH = """-Ofast -ffast-math -funsafe-math-optimizations -freciprocal-math -fassociative-math -fno-signed-zeros
    -fno-trapping-math -ffinite-math-only -frounding-math -ffp-contract=fast -mrecip -flto -w"""
PERMISSIVE = {
    "gcc": f"{BOTH} -fsingle-precision-constant -fexcess-precision=fast -fcx-limited-range -mfpmath=387 "
    "-fsignaling-nans -mno-ieee-fp",
    "clang": f"{BOTH} -fno-honor-nans -fno-honor-infinities -fapprox-func -ffp-model=fast "
    "-fdenormal-fp-math=preserve-sign",
}
"""Everything that permits other bits, at once."""

ONLY_NAMED = {"gcc": ("-mrecip ",), "clang": ()}
"""Switches that stay on by themselves, and then permit nothing."""

GCC_SWITCHES = [f"--help={kind}" for kind in ("optimizers", "target", "common")]

CODE = """
import json, pathlib, sys
smallest, two = float("5e-324"), float("2")
import fastinit, golden
from fastinit import _core
assert pathlib.Path(fastinit.__file__).is_relative_to(sys.argv[1]), fastinit.__file__
assert smallest * two != 0, "loading the library made the process flush subnormals to zero"
wanted = json.loads(golden.FILE.read_text())
found = golden.everything(pathlib.Path(sys.argv[1]))
print([name for name in wanted | found if wanted.get(name) != found.get(name)])
print(_core.build()[1])
"""


@pytest.fixture(scope="module", params=["gcc", "clang"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A compiler, and what CODE prints of the package that it built under all the flags at once."""
    compiler = request.param
    pytest.importorskip("Cython", reason="the build needs Cython; pip install -e '.[test]'")
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here, so its flags were not tried")
    if compiler == "gcc" and sys.platform == "darwin":
        pytest.skip("gcc is clang on this machine")
    folder = tmp_path_factory.mktemp(compiler)
    flags = " ".join(known(compiler))
    env = {**os.environ, "CC": compiler, "CFLAGS": flags, "PYTHONDONTWRITEBYTECODE": "1"}
    build = [sys.executable, "setup.py", "-q", "build", "--build-base", folder / "base", "--build-lib", folder]
    ended = subprocess.run(build, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    path = os.pathsep.join(map(str, (folder, ROOT / "tests")))
    ended = run_python("-c", CODE, folder, env={"PYTHONPATH": path}, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return compiler, ended.stdout


def test_no_flag_of_a_user_changes_a_bit(built: tuple[str, str]) -> None:
    """CFLAGS of another project: -freciprocal-math moved every fan, and -ffast-math was refused by name alone."""
    _, printed = built
    assert printed.splitlines()[0] == "[]"


def test_every_flag_of_a_user_is_switched_off_again(built: tuple[str, str]) -> None:
    """One that survives the package's own flags, and changes bits in a build or on a compiler not tried here."""
    compiler, printed = built
    strict = printed.splitlines()[1].split()
    plain = state(compiler, strict)
    assert plain != state(compiler, [*strict, "-fno-signed-zeros"]), "the state does not tell"
    survived = {flag: state(compiler, [flag, *strict]) ^ plain for flag in known(compiler)}
    assert {flag: found for flag, found in survived.items() if found} == {}


@pytest.mark.parametrize(("variable", "flag"), [("CFLAGS", "-mpc32"), ("LDFLAGS", "-mpc64")])
def test_what_cannot_be_switched_off_is_refused(variable: str, flag: str) -> None:
    """Code that the linker adds, even with -mpc80 after it: each importing process has a narrower long double."""
    pytest.importorskip("Cython", reason="the build needs Cython; pip install -e '.[test]'")
    ended = run_python("setup.py", "--version", env={variable: f"-O2 {flag}"})
    assert ended.returncode == 1
    assert f"cannot undo {flag}" in ended.stderr
    assert f"remove it from {variable}" in ended.stderr


def known(compiler: str) -> list[str]:
    """Those of its flags that this compiler takes."""
    command = [compiler, "-fsyntax-only", "-x", "c", os.devnull]
    flags = PERMISSIVE[compiler].split()
    answers = {flag: subprocess.run([*command, flag], capture_output=True, check=False) for flag in flags}
    return [flag for flag, answer in answers.items() if answer.returncode == 0]


def state(compiler: str, flags: list[str]) -> set[str]:
    """What a compiler would do under these flags: its switches, or the command of its inner compiler."""
    asked = ["-Q", *GCC_SWITCHES] if compiler == "gcc" else ["-###"]
    command = [compiler, *flags, "-w", *asked, "-S", "-x", "c", os.devnull, "-o", os.devnull]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    words = answer.stdout.splitlines() if compiler == "gcc" else answer.stderr.splitlines()[-1].split()
    return {word for word in words if not word.strip().startswith(ONLY_NAMED[compiler])}
