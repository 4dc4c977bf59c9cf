"""The package as its users get it: its public names, a light import, and what works without the extras."""

import ast
import importlib
import os
import shutil

import pytest
from conftest import ROOT, run_python

import fastinit

PACKAGE = ROOT / "fastinit"
LISTS = {
    ".".join(("fastinit", *stub.parent.relative_to(PACKAGE).parts)): stub for stub in PACKAGE.rglob("__init__.pyi")
}
"""{package: the stub that lists its public names}"""


def imported(package):
    """A package; the test is skipped where the framework that it serves is absent.

    The framework is asked for: of a package whose import failed, pytest's collector leaves an empty module behind.
    """
    if package == "fastinit.torch":
        pytest.importorskip("torch")
    return importlib.import_module(package)


def listed(package):
    """(home, name) of every public name that a package's stub imports, declares or sets, as a parser sees it."""
    for node in ast.parse(LISTS[package].read_text()).body:
        if isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            yield from ((home, alias.name) for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.FunctionDef):
            yield ".functions", node.name
        elif isinstance(node, ast.Assign):
            yield ".functions", node.targets[0].id


def test_every_package_with_public_names_lists_them():
    expected = {"fastinit", "fastinit.lessons", "fastinit.propagation", "fastinit.diagnosis", "fastinit.torch"}
    assert expected <= LISTS.keys()


@pytest.mark.parametrize("package", sorted(LISTS))
def test_the_stub_is_the_list_that_runs(package):
    """A type checker parses the stub and fastinit reads its lines: both must see the same names."""
    module = imported(package)
    names = [name for _, name in listed(package)]
    assert dir(module) == module.__all__ == sorted(names)
    assert len(names) == len(set(names))
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        module.absent  # noqa: B018


@pytest.mark.parametrize("package", sorted(LISTS))
def test_every_public_name_resolves_at_its_home_and_is_documented(package):
    module = imported(package)
    for home, name in listed(package):
        if home == ".":
            value = importlib.import_module(f"{package}.{name}")
        else:
            value = getattr(importlib.import_module(home, package), name)
        assert getattr(module, name) is value, (
            f"{package}.{name}: a module of that name hides it once it is imported"
        )
        assert (value.__doc__ or "").strip(), f"{package}.{name} has no docstring"


def test_import_fastinit_is_light():
    """numpy alone would cost more than everything else; `inspect` is what Cython's code needs."""
    code = "import sys, fastinit; print(*sys.modules)"
    # -S: the finder of an editable install imports modules of its own
    loaded = set(run_python("-S", "-c", code, env={"PYTHONPATH": str(ROOT)}).stdout.split())
    assert not loaded & {"numpy", "hashlib", "json", "argparse", "pathlib", "dataclasses"}
    chosen = {"_core", "_lazy", "_engine", "_engine.levels"}
    assert {name for name in loaded if name.startswith("fastinit.")} == {f"fastinit.{name}" for name in chosen}


@pytest.mark.parametrize("path", ["initializers.Normal", "propagation.propagate", "autodiff.SGD"])
def test_reading_a_module_as_an_attribute_works(path):
    ended = run_python("-c", f"import fastinit; fastinit.{path}")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("module", ["errors", "plan", "checkpoint", "parameters", "policies", "functions"])
def test_a_public_module_is_an_attribute_before_anybody_imported_it(module):
    """`fastinit.errors.CheckpointError` works or not, by what was used before."""
    ended = run_python("-c", f"import fastinit; print(fastinit.{module}.__name__)")
    assert ended.stdout == f"fastinit.{module}\n", ended.stderr


def test_a_package_without_its_stub_says_so(tmp_path):
    """A bundler that drops .pyi files, and a FileNotFoundError that nobody understands."""
    shutil.copytree(PACKAGE, tmp_path / "fastinit", ignore=shutil.ignore_patterns("__pycache__", "__init__.pyi"))
    ended = run_python("-c", "import fastinit", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("ImportError: ")
    assert "ship the .pyi files too" in ended.stderr


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


def test_without_torch_its_package_names_the_extra_and_the_rest_works():
    hide = "import sys; sys.modules['torch'] = None; "
    ended = run_python("-c", hide + "from fastinit import *; import fastinit.torch")
    assert ended.stderr.splitlines()[-1] == (
        "ImportError: fastinit.torch needs torch: pip install 'fastinit-weights[torch]'"
    )
    ended = run_python("-c", hide + "import fastinit; fastinit.zeros(2, out=[1, 2])")
    assert "TypeError: out must be a numpy array" in ended.stderr


def test_without_dask_its_package_names_the_extra():
    ended = run_python("-c", "import sys; sys.modules['dask'] = None; import fastinit.dask")
    assert ended.stderr.splitlines()[-1] == (
        "ImportError: fastinit.dask needs dask: pip install 'fastinit-weights[dask]'"
    )
    hide = "import sys; sys.modules['dask'] = None; from fastinit.cli.main import main; "
    ended = run_python(
        "-c", hide + "sys.exit(main(['init', 'resnet-50', '--seed', '1', '--out', 'x', '--dask', 'y']))"
    )
    assert ended.returncode == 2
    assert ended.stderr == "fastinit: fastinit.dask needs dask: pip install 'fastinit-weights[dask]'\n"


def test_a_torch_that_is_broken_says_so_itself(tmp_path):
    """ "pip install torch" would send the user in a circle."""
    (tmp_path / "torch.py").write_text("import a_library_that_is_gone")
    path = f"{ROOT}{os.pathsep}{tmp_path}"
    ended = run_python("-c", "import fastinit.torch", cwd=tmp_path, env={"PYTHONPATH": path})
    assert ended.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'a_library_that_is_gone'"


def test_without_the_extras_a_whole_model_is_written_verified_and_shown(tmp_path):
    """The main path needs numpy alone: a bare machine of a cluster has nothing else."""
    code = HIDE + (
        "from fastinit.cli.main import main; "
        "sys.exit(any([main(['init', 'specs.json', '--dtype', DTYPE, '--force', '--out', 'w']), "
        "main(['verify', 'w']), "
        "main(['show', 'specs.json']), main(['report'])]))"
    )
    (tmp_path / "specs.json").write_text('{"a.weight": {"dtype": "F32", "shape": [3, 3]}}')
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
