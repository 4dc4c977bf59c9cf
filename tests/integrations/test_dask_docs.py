"""docs/dask.md and the docstrings of fastinit.dask, run."""

import doctest
import importlib

import pytest
from conftest import ROOT, peer


def test_every_example_of_the_page_runs():
    peer("dask.array")
    ran = doctest.testfile(str(ROOT / "docs" / "dask.md"), module_relative=False)
    assert ran.attempted > 15
    assert ran.failed == 0


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "fastinit" / "dask").glob("[a-z]*.py")))
def test_every_example_of_a_docstring_runs(name):
    peer("dask.array")
    assert doctest.testmod(importlib.import_module(f"fastinit.dask.{name}")).failed == 0
