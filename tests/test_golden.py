"""Stored bits and printed bytes against those written down before the code was rearranged."""

import json

import golden
import pytest

WANTED = json.loads(golden.FILE.read_text())


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return golden.everything(tmp_path_factory.mktemp("golden"))


def test_no_entry_is_missing_or_new(found):
    assert found.keys() == WANTED.keys()


@pytest.mark.parametrize("entry", sorted({name.split(" | ")[0] for name in WANTED}))
def test_bits_and_bytes_are_those_of_the_golden_file(found, entry):
    """A rearrangement that moves a weight, a figure or a key of a file."""
    names = [name for name in WANTED if name.split(" | ")[0] == entry]
    assert [name for name in names if found.get(name) != WANTED[name]] == []
