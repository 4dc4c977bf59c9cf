"""A diagnosis accuses no model that starts as its own code starts it, and misses no fault that is put into one.

Without torch the tests are skipped, and without another library those of its models. Set FASTINIT_REQUIRE_PEERS=1
to make a missing library a failure.
"""

import importlib
import itertools
import math
import os
import re
import sys
import warnings
import zlib
from pathlib import Path

import pytest

from fastinit.diagnosis import diagnose

REQUIRED = bool(os.environ.get("FASTINIT_REQUIRE_PEERS"))


def library(name):
    """Import a library, or skip; a library that is there and broken is absent too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:
        if REQUIRED:
            raise
        pytest.skip(f"{name} cannot be imported: {error}")


if REQUIRED:
    import torch
else:
    torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parent))
import small_models  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
small_models.complete_torchvision()


@pytest.fixture(params=small_models.NAMES)
def state(request):
    """The tensors of a fresh model, by name."""
    torch.manual_seed(zlib.crc32(request.param.encode()))
    return small_models.state_of(small_models.built(request.param, library))


def findings(state, path):
    save_file(state, path)
    return {finding.kind: finding.tensors for finding in diagnose(path).findings}


SPOILT = re.compile(
    r"(proj|fc1|qkv|c_attn|c_fc|query|key|to_q|in_conv|wi|dense|weight_hh_l0|linear1|\.q)(\.weight)?$"
)  # no convolutions before a batch norm, which an unscaled start does no harm


def spoilt(state):
    """Names of projections that the model's code draws at random: the first, one in the middle and the last."""
    found = [
        name
        for name, tensor in state.items()
        if SPOILT.search(name) and tensor.dim() in (2, 4) and min(tensor.shape[:2]) > 16 and tensor.std() > 0
    ]
    return sorted({found[0], found[len(found) // 2], found[-1]}) if found else []


def test_a_fresh_model_is_not_accused(state, tmp_path):
    """One in four was: of zero factors, tokens, tables, gains, masks and heads."""
    save_file(state, tmp_path / "w.safetensors")
    found = diagnose(tmp_path / "w.safetensors")
    assert not found.findings, "\n".join(map(str, found.findings))
    assert found.passed


def faults(weights):
    """Each fault by its kind: weights skipped, filled, lost, drawn alike by two ranks, and not scaled."""
    half = weights[: len(weights) // 2]
    return {
        "all zero": torch.zeros_like(weights),
        "constant": torch.full_like(weights, 0.02),
        "not finite": weights.index_fill(0, torch.tensor([1]), math.nan),
        "repeated": torch.cat([half, half]) if 2 * len(half) == len(weights) else None,
        "spread": torch.randn(weights.shape, generator=torch.Generator().manual_seed(3)),
    }


def test_a_fault_in_a_model_is_found(state, tmp_path):
    """A reason for one tensor must not become a reason for all."""
    for name in spoilt(state):
        for kind, weights in faults(state[name]).items():
            if weights is not None:
                found = findings(state | {name: weights}, tmp_path / "w.safetensors")
                assert name in found.get(kind, ()), f"{name} {list(weights.shape)}: {kind}"


def test_an_infinite_row_and_a_second_use_of_a_seed_are_found(state, tmp_path):
    """Minus infinity is a mask's; two layers of one seed are equal, as two masks are."""
    names = spoilt(state)
    for name in names:
        weights = state[name].index_fill(0, torch.tensor([1]), -math.inf)
        assert name in findings(state | {name: weights}, tmp_path / "w.safetensors")["not finite"]
    for name, other in itertools.pairwise(names):
        if state[name].shape == state[other].shape:
            found = findings(state | {other: state[name].clone()}, tmp_path / "w.safetensors")
            assert set(found["equal"]) == {name, other}
