"""docs/dask.md and the docstrings of fastinit.dask, run."""

import doctest
import importlib

import pytest
from conftest import ROOT, peer, run_python


def test_every_example_of_the_page_runs():
    peer("dask.array")
    ran = doctest.testfile(str(ROOT / "docs" / "dask.md"), module_relative=False)
    assert ran.attempted > 15
    assert ran.failed == 0


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "fastinit" / "dask").glob("[a-z]*.py")))
def test_every_example_of_a_docstring_runs(name):
    peer("dask.array")
    assert doctest.testmod(importlib.import_module(f"fastinit.dask.{name}")).failed == 0


def test_arrays_do_without_distributed_and_a_cluster_names_the_extra():
    peer("dask.array")
    hide = "import sys; sys.modules['distributed'] = None; import fastinit, fastinit.dask; "
    ended = run_python("-c", hide + "print(fastinit.dask.ones(3).sum().compute())")
    assert ended.stdout == "3.0\n", ended.stderr
    plan = "fastinit.Plan.from_specs('resnet-50', 17)"
    ended = run_python("-c", f"{hide}fastinit.dask.write_checkpoint({plan}, 'x')")
    assert ended.stderr.splitlines()[-1] == (
        "ImportError: writing by a cluster needs distributed: pip install 'fastinit-weights[dask]'"
    )
