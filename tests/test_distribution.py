"""What is built and shipped: flags that the C core refuses, the wheel, the source distribution."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, run_python

import fastinit

PACKAGE = ROOT / "fastinit"
DATA = ("*.json", "*.css", "*.js", "*.npz", "*.pyi")

UNSAFE = [["-Ofast"], ["-ffast-math"], ["-ffinite-math-only"], ["-mfpmath=387"]]
"""Flags that would change stored bits: each must stop the build."""


@pytest.mark.parametrize("flags", UNSAFE, ids=" ".join)
def test_the_c_core_refuses_flags_that_change_bits(tmp_path, flags):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (portable,) = (ROOT / "csrc").rglob("*portable.c")
    command = [compiler, "-std=c11", "-fsyntax-only", f"-I{ROOT / 'csrc'}", str(portable)]
    plain = subprocess.run(command, capture_output=True, text=True, check=False)
    assert plain.returncode == 0, plain.stderr
    refused = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    if "unrecognized" in refused.stderr or "unsupported option" in refused.stderr:
        pytest.skip(f"this compiler does not know {flags}")
    assert refused.returncode != 0
    assert "fastinit promises bits" in refused.stderr


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """A Python that has what pyproject.toml requires to build: this one, or a new environment."""
    probe = "import setuptools, Cython; assert int(setuptools.__version__.split('.')[0]) >= 77"
    if run_python("-c", probe).returncode == 0:
        return sys.executable
    home = tmp_path_factory.mktemp("builder")
    venv.create(home, with_pip=True)
    python = str(home / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "setuptools>=77", "Cython>=3.1"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the build requirements cannot be installed here: {done.stderr[-300:]}")
    return python


def build(python, kind, folder):
    """Build a wheel or an sdist from a copy of the tree, so that the tree stays clean; return its path."""
    source, target = folder / "source", folder / kind
    ignore = shutil.ignore_patterns(".*", "build", "dist", "run", "*.egg-info", "*.so", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignore)
    target.mkdir()
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(target)!r})"
    environment = {**os.environ, "CFLAGS": "-O0"}
    done = subprocess.run(
        [python, "-c", code], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (found,) = target.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(builder, tmp_path_factory):
    return build(builder, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(builder, tmp_path_factory):
    return build(builder, "sdist", tmp_path_factory.mktemp("sdist"))


def test_the_wheel_is_one_for_every_python_from_3_11(wheel):
    name, version, python, abi, _ = wheel.name.split("-")
    assert (name, version) == ("fastinit_weights", fastinit.__version__)
    if hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled():
        pytest.skip("free-threaded builds get a wheel of their own")
    assert (python, abi) == ("cp311", "abi3")


def test_the_wheel_holds_what_runs_and_nothing_that_builds(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
    data = {path.relative_to(ROOT).as_posix() for pattern in DATA for path in PACKAGE.rglob(pattern)}
    assert sources | data | {"fastinit/py.typed"} <= names
    extra = {name for name in names - sources - data if ".dist-info/" not in name}
    assert {name.split("/")[-1].split(".")[0] for name in extra} == {"py", "_core"}
    assert {Path(name).suffix for name in extra} == {".typed", ".so"}, extra
    assert not [name for name in names if name.startswith(("tests", "bench", "csrc", "build"))]


def test_the_wheels_metadata_asks_for_numpy_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(path).decode().splitlines()
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "fastinit = fastinit.cli.main:main" in archive.read(entry).decode()
    needed = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert needed == ["Requires-Dist: numpy>=2"]
    extra = [line.partition("; ")[0].split(" ")[1] for line in lines if line.endswith('extra == "all"')]
    assert extra == ["fastinit-weights[dtypes,figures,progress,safetensors,zarr]"], (
        "`all` is for users: no linter, no test"
    )
    assert "Requires-Python: >=3.11" in lines
    assert "License-Expression: MIT AND CC-BY-4.0" in lines
    assert [line for line in lines if line.startswith("License-File")] == [
        "License-File: LICENSE",
        "License-File: fastinit/lessons/digits.npz.license",
    ]


def test_the_sdist_holds_all_that_builds_and_tests(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*.[chm]*") if path.is_file()}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    wanted |= {path.relative_to(ROOT).as_posix() for pattern in DATA for path in PACKAGE.rglob(pattern)}
    wanted |= {"fastinit/_core.pyx", "fastinit/py.typed"}
    wanted |= {"pyproject.toml", "setup.py", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "MANIFEST.in"}
    assert wanted <= names, wanted - names
    assert not [name for name in names if name.endswith((".so", ".pyc", "_core.c"))]


def test_an_unpacked_wheel_runs(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    places = [str(tmp_path), str(Path(np.__file__).parent.parent)]
    code = f"""
import sys
sys.path[:0] = {places!r}
import fastinit
assert fastinit.__file__.startswith({str(tmp_path)!r}), fastinit.__file__
print(len(fastinit.Plan.from_layout("resnet-50", 17)), fastinit.xavier_uniform((2, 2), 17)[0, 0])
"""
    ended = run_python("-S", "-c", code, cwd=tmp_path)
    assert ended.stdout.startswith("161 0.00495088373"), ended.stderr
