"""The package built by setup.py under a user's flags: the golden bits, and a host process left as it was."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, run_python

BOTH = """-Ofast -ffast-math -funsafe-math-optimizations -freciprocal-math -fassociative-math -fno-signed-zeros
    -fno-trapping-math -ffinite-math-only -frounding-math -ffp-contract=fast -mrecip -flto -w"""
PERMISSIVE = {
    "gcc": f"{BOTH} -fsingle-precision-constant -fexcess-precision=fast -fcx-limited-range -mfpmath=387",
    "clang": f"{BOTH} -fno-honor-nans -fno-honor-infinities -fapprox-func -ffp-model=fast "
    "-fdenormal-fp-math=preserve-sign",
}
"""Everything that permits other bits, at once."""

CODE = """
import json, pathlib, sys
smallest, two = float("5e-324"), float("2")
import fastinit, golden
assert pathlib.Path(fastinit.__file__).is_relative_to(sys.argv[1]), fastinit.__file__
assert smallest * two != 0, "loading the library made the process flush subnormals to zero"
wanted = json.loads(golden.FILE.read_text())
found = golden.everything(pathlib.Path(sys.argv[1]))
print([name for name in wanted | found if wanted.get(name) != found.get(name)])
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_flag_of_a_user_changes_a_bit(compiler: str, tmp_path: Path) -> None:
    """CFLAGS of another project: -freciprocal-math moved every fan, and -ffast-math was refused by name alone."""
    pytest.importorskip("Cython", reason="the build needs Cython; pip install -e '.[test]'")
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here, so its flags were not tried")
    if compiler == "gcc" and sys.platform == "darwin":
        pytest.skip("gcc is clang on this machine")
    flags = " ".join(known(compiler, PERMISSIVE[compiler].split()))
    env = {**os.environ, "CC": compiler, "CFLAGS": flags, "PYTHONDONTWRITEBYTECODE": "1"}
    build = [sys.executable, "setup.py", "-q", "build", "--build-base", tmp_path / "base", "--build-lib", tmp_path]
    built = subprocess.run(build, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "tests")))
    ended = run_python("-c", CODE, tmp_path, env={"PYTHONPATH": path}, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


def known(compiler: str, flags: list[str]) -> list[str]:
    """Those that this compiler takes."""
    command = [compiler, "-fsyntax-only", "-x", "c", os.devnull]
    answers = {flag: subprocess.run([*command, flag], capture_output=True, check=False) for flag in flags}
    return [flag for flag, answer in answers.items() if answer.returncode == 0]
