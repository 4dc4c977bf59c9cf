"""The package as others get it: its floors, its public names, its files, and what it does without its extras."""

import ast
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
DATA = ("*.json", "*.css", "*.js", "*.npz")

# Top first; a module imports only from floors below its own. A new module must be given its floor here.
FLOORS = [
    {"__main__"},
    {"cli"},
    {"diagnostics", "diagnostics.pages"},
    {"diagnostics.html"},
    {"diagnostics.figures"},
    {"diagnostics.claims"},
    {"diagnostics.diagnosis"},
    {"diagnostics.expectations", "diagnostics.stored"},
    {"diagnostics.report", "diagnostics.trace", "diagnostics.training", "dask"},
    {"diagnostics.digits", "diagnostics.populations", "diagnostics.propagation", "diagnostics.symmetry"},
    {"bench", "checkpoint", "jax", "torch", "parameters", "diagnostics.mean_field"},
    {"arrays", "plan"},
    {"presets"},
    {"splitmix64", "initializers"},
    {"fill", "layout"},
    {"dtypes", "distributions", "autodiff", "threads"},
    {"autodiff.check", "autodiff.optim", "constructions"},
    {"autodiff.tape", "names", "scale"},
    {"autodiff.vjps"},
    {"autodiff.tensor"},
    {"levels", "arguments", "layouts", "truncation", "tables"},
    {"_core"},
    {"errors"},
]
FLOOR = {module: height for height, modules in enumerate(reversed(FLOORS)) for module in modules}


def modules():
    """{dotted name inside fastinit: source file}, the package itself left out: it only forwards."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            found[name] = path
    return found


def imports(name, path):
    """The modules of fastinit that a module's source imports, at its top or inside a function."""
    package = [*name.split(".")] if path.name == "__init__.py" else name.split(".")[:-1]
    known = {*modules(), "_core"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names if alias.name.split(".")[0] == "fastinit"]
            yield from (target.removeprefix("fastinit.") for target in targets)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            elif (node.module or "").split(".")[0] == "fastinit":
                base = node.module.split(".")[1:]
            else:
                continue
            home = ".".join(part for part in base if part)
            for alias in node.names:
                inner = f"{home}.{alias.name}" if home else alias.name
                if inner in known:
                    yield inner
                elif home:
                    yield home


def test_every_module_has_a_floor():
    assert {*modules(), "_core"} <= FLOOR.keys(), "give the new module its place in FLOORS"


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_from_floors_below(name):
    """An arrow upwards is where a circle, and a slow `import fastinit`, begins."""
    for imported in imports(name, modules()[name]):
        if imported == "__version__":
            continue
        assert FLOOR[imported] < FLOOR[name], f"fastinit.{name} must not import fastinit.{imported}"


def test_the_floors_are_really_looked_at():
    found = {name: set(imports(name, path)) for name, path in modules().items()}
    assert {"plan", "fill", "layout", "errors"} <= found["checkpoint"]
    assert {"parameters", "scale", "splitmix64"} <= found["diagnostics.report"]
    assert found["autodiff"] == {f"autodiff.{part}" for part in ("check", "optim", "tape", "tensor")}
    assert found["autodiff.vjps"] == set()
    assert {"_core", "plan", "checkpoint", "diagnostics.report"} <= found["cli"]
    assert found["errors"] == set()


def test_the_cython_module_imports_nothing_of_fastinit():
    source = (PACKAGE / "_core.pyx").read_text()
    assert not [line for line in source.splitlines() if line.lstrip().startswith(("from .", "import fastinit"))]


def test_every_public_name_resolves_and_the_list_is_sorted():
    assert all(getattr(fastinit, name) is not None for name in fastinit.__all__)
    assert fastinit.__all__ == sorted(fastinit.__all__)
    assert set(fastinit.__all__) <= set(dir(fastinit))
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        fastinit.absent  # noqa: B018


def test_type_checkers_see_the_names_that_run():
    """Public names are loaded lazily, so they stand in three lists; a difference is a name that does not exist."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert set(seen) | {"__version__"} == set(fastinit.__all__)
    assert seen == fastinit._HOME
    for name, home in seen.items():
        assert getattr(fastinit, name).__module__.startswith(f"fastinit.{home}")


@pytest.mark.parametrize("module", ["numpy", "hashlib", "json", "argparse", "fastinit.splitmix64"])
def test_import_fastinit_is_light(module):
    ended = run_python("-c", f"import sys, fastinit; sys.exit({module!r} in sys.modules)")
    assert ended.returncode == 0, f"`import fastinit` loads {module}: {ended.stderr}"


def test_reading_a_module_as_an_attribute_works():
    assert run_python("-c", "import fastinit; fastinit.checkpoint.verify_checkpoint").returncode == 0
    assert run_python("-c", "import fastinit; fastinit.diagnostics.propagate").returncode == 0


def test_the_experiments_resolve_and_their_three_lists_agree():
    from fastinit import diagnostics  # noqa: PLC0415

    tree = ast.parse((PACKAGE / "diagnostics" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == diagnostics._HOME
    assert diagnostics.__all__ == sorted(seen)
    for name, home in seen.items():
        assert getattr(diagnostics, name).__module__ == f"fastinit.diagnostics.{home}"
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        diagnostics.absent  # noqa: B018


def test_the_version_is_the_distributions():
    assert f'version = "{fastinit.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## {fastinit.__version__}" in (ROOT / "CHANGELOG.md").read_text()


HIDE = "import sys; sys.modules.update(dict.fromkeys(['ml_dtypes', 'safetensors'])); "


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_without_ml_dtypes_a_narrow_array_names_the_extra(dtype):
    ended = run_python("-c", f"{HIDE}import fastinit; fastinit.xavier_uniform((2, 2), 17, dtype={dtype!r})")
    assert ended.returncode == 1
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("ImportError")
    assert dtype in message
    assert "pip install 'fastinit-weights[dtypes]'" in message
    assert "out=" in message


def test_without_the_extras_a_whole_model_is_written_verified_and_shown(tmp_path):
    """The main path needs numpy alone: a bare machine of a cluster has nothing else."""
    code = HIDE + (
        "from fastinit.cli import main; "
        "sys.exit(any([main(['init', 'layout.json', '--dtype', DTYPE, '--out', 'w']), main(['verify', 'w']), "
        "main(['show', 'layout.json']), main(['report'])]))"
    )
    (tmp_path / "layout.json").write_text('{"a.weight": {"dtype": "F32", "shape": [3, 3]}}')
    for dtype in ("f32", "bf16", "f8_e5m2"):
        ended = run_python("-c", code.replace("DTYPE", repr(dtype)), cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
        assert ended.returncode == 0, ended.stderr


def test_an_unknown_level_is_refused_with_the_levels_there_are():
    ended = run_python("-c", "import fastinit", env={"FASTINIT_LEVEL": "bogus"})
    assert ended.returncode == 1
    message = ended.stderr.splitlines()[-1]
    assert message.startswith("ImportError: FASTINIT_LEVEL=bogus is not a level")
    assert "portable" in message


def test_a_level_can_be_chosen():
    code = "import fastinit._core as core; print(core.simd_level())"
    assert run_python("-c", code, env={"FASTINIT_LEVEL": "portable"}).stdout == "portable\n"
    assert run_python("-c", code, env={"FASTINIT_LEVEL": ""}).returncode == 0


# What a compiler may be asked for that would change stored bits: each must stop the build.
UNSAFE = [["-Ofast"], ["-ffast-math"], ["-ffinite-math-only"], ["-mfpmath=387"]]


@pytest.mark.parametrize("flags", UNSAFE, ids=" ".join)
def test_the_c_core_refuses_flags_that_change_bits(tmp_path, flags):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    command = [compiler, "-std=c11", "-fsyntax-only", str(ROOT / "csrc" / "levels" / "portable.c")]
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
    assert sources | data | {"fastinit/py.typed", "fastinit/_core.pyi"} <= names
    extra = {name for name in names - sources - data if ".dist-info/" not in name}
    assert {name.split("/")[-1].split(".")[0] for name in extra} == {"py", "_core"}
    assert {Path(name).suffix for name in extra} == {".typed", ".pyi", ".so"}, extra
    assert not [name for name in names if name.startswith(("tests", "bench", "csrc", "build"))]


def test_the_wheels_metadata_asks_for_numpy_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        lines = archive.read(path).decode().splitlines()
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "fastinit = fastinit.cli:main" in archive.read(entry).decode()
    needed = [line for line in lines if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert needed == ["Requires-Dist: numpy>=2"]
    assert "Requires-Python: >=3.11" in lines
    assert "License-Expression: MIT AND CC-BY-4.0" in lines
    assert [line for line in lines if line.startswith("License-File")] == [
        "License-File: LICENSE",
        "License-File: fastinit/diagnostics/digits.npz.license",
    ]


def test_the_sdist_holds_all_that_builds_and_tests(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*.[chm]*") if path.is_file()}
    wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    wanted |= {path.relative_to(ROOT).as_posix() for pattern in DATA for path in PACKAGE.rglob(pattern)}
    wanted |= {"fastinit/_core.pyx", "fastinit/_core.pyi", "fastinit/py.typed"}
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
