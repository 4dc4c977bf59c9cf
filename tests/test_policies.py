"""Policies: what each tensor of a real model gets. A tensor filled by guesswork trains, badly, in silence."""

import json
import math
import re
from collections import Counter

import numpy as np
import pytest
from conftest import ROOT

import fastinit
from fastinit import bundled_models
from fastinit.errors import PlanError
from fastinit.policies import customized

# Tensors by kind, counted from the architectures: per layer, then what stands once; and the parameter counts
# their publishers state.
MODELS = {
    "all-minilm-l6-v2": (
        {"xavier_uniform": 6 * 6 + 3 + 1, "ones": 6 * 2 + 1, "zeros": 6 * 8 + 1 + 1, "positions": 1},
        22_713_216 + 512,
    ),
    "gpt2-124m": ({"xavier_uniform": 12 * 4 + 2, "ones": 12 * 2 + 1, "zeros": 12 * 6 + 1}, 124_439_808),
    "llama-3-8b": ({"xavier_uniform": 32 * 7 + 2, "ones": 32 * 2 + 1}, 8_030_261_248),
    "llama-3.1-405b": ({"xavier_uniform": 126 * 7 + 2, "ones": 126 * 2 + 1}, 405_853_388_800),
    "llama-3.2-1b": ({"xavier_uniform": 16 * 7 + 1, "ones": 16 * 2 + 1}, 1_235_814_400),
    "resnet-50": ({"xavier_uniform": 53 + 1, "ones": 53, "zeros": 53 + 1}, 25_557_032),
    "vit-b16": ({"xavier_uniform": 12 * 6 + 4, "ones": 12 * 2 + 1, "zeros": 12 * 8 + 3}, 86_567_656),
    "whisper-small": (
        {"xavier_uniform": 12 * (6 + 10) + 4, "ones": 12 * (2 + 3) + 2, "zeros": 12 * (7 + 11) + 4},
        241_734_912 - 1500 * 768,
    ),
}
SKIPPED = {"whisper-small": ["model.encoder.embed_positions.weight"]}
"""Whisper's sines, which its code computes and never trains (transformers#25989): noise would stay noise."""
DTYPES = {"llama-3-8b": "bfloat16", "llama-3.1-405b": "bfloat16", "llama-3.2-1b": "bfloat16"}


def plan_of(**tensors):
    """Plan tensors given as name=(dtype, *shape); a double underscore stands for a dot."""
    layout = {
        name.replace("__", "."): {"dtype": dtype, "shape": shape} for name, (dtype, *shape) in tensors.items()
    }
    return fastinit.Plan.from_specs(layout, 17)


def test_every_bundled_layout_is_tested():
    assert set(bundled_models()) == set(MODELS)


@pytest.mark.parametrize("order", ["named", "sequential"])
@pytest.mark.parametrize("model", MODELS)
def test_every_tensor_of_a_bundled_model_is_planned_as_its_kind(model, order):
    counts, parameters = MODELS[model]
    source = json.loads((ROOT / "fastinit" / "_files" / "models" / f"{model}.json").read_text())
    plan = fastinit.Plan.from_specs(model, 17, customized(skip=SKIPPED.get(model, ())), order=order)
    for name in SKIPPED.get(model, ()):
        del source[name]
    assert list(plan) == list(source), "the plan keeps the layout's order"
    assert {name: list(tensor.shape) for name, tensor in plan.items()} == {
        name: entry["shape"] for name, entry in source.items()
    }
    assert Counter(tensor.initializer for tensor in plan.values()) == counts
    assert sum(tensor.size for tensor in plan.values()) == parameters
    floats = {tensor.dtype.name for tensor in plan.values() if tensor.dtype.is_float}
    assert floats == {DTYPES.get(model, "float32")}
    sampled = [tensor for tensor in plan.values() if tensor.initializer == "xavier_uniform"]
    assert plan.draws == sum(tensor.size for tensor in sampled)
    for tensor in plan.values():
        assert (len(tensor.shape) >= 2) == (tensor.initializer in ("xavier_uniform", "positions")), tensor.name
        assert (tensor.initializer == "zeros") == tensor.name.endswith("bias"), tensor.name


LIMITS = [
    # Matrices and embeddings by their two axes, whichever way round.
    ("gpt2-124m", "transformer.wte.weight", 50257 + 768),
    ("llama-3.1-405b", "model.layers.125.mlp.down_proj.weight", 16384 + 53248),
    ("resnet-50", "classifier.1.weight", 1000 + 2048),
    # Convolutions are (out, in, *kernel); the receptive field multiplies both fans.
    ("resnet-50", "resnet.embedder.embedder.convolution.weight", (64 + 3) * 7 * 7),
    ("resnet-50", "resnet.encoder.stages.0.layers.0.shortcut.convolution.weight", 256 + 64),
    ("vit-b16", "vit.embeddings.patch_embeddings.projection.weight", (768 + 3) * 16 * 16),
    ("whisper-small", "model.encoder.conv1.weight", (768 + 80) * 3),
    # Rank-3 tokens and positions by their last two axes: the first is a batch of one.
    ("vit-b16", "vit.embeddings.cls_token", 1 + 768),
    ("vit-b16", "vit.embeddings.position_embeddings", 197 + 768),
]


@pytest.mark.parametrize(("model", "name", "fan_sum"), LIMITS)
def test_the_limit_follows_from_the_fans(model, name, fan_sum):
    """C13, C14: a receptive field forgotten, or counted for a batch axis, is a factor of up to 16 in spread."""
    tensor = fastinit.Plan.from_specs(model, 17, customized(skip=SKIPPED.get(model, ())))[name]
    assert tensor.distribution.limit == math.sqrt(6.0 / fan_sum)


@pytest.mark.parametrize(
    ("shape", "fan_sum"),
    [((8, 4, 3), (8 + 4) * 3), ((8, 4, 3, 5), (8 + 4) * 15), ((8, 4, 3, 5, 7), (8 + 4) * 105)],
)
@pytest.mark.parametrize("name", ["conv1.weight", "stem.conv.weight", "stem.conv.0.weight", "projection.weight"])
def test_convolution_kernels_of_one_to_three_dimensions(name, shape, fan_sum):
    plan = fastinit.Plan.from_specs({name: {"dtype": "F32", "shape": shape}}, 17)
    assert plan[name].distribution.limit == math.sqrt(6.0 / fan_sum)


def test_stacked_experts_are_matrices_side_by_side():
    plan = plan_of(experts__gate_up_proj=("F32", 8, 6, 4))
    assert plan["experts.gate_up_proj"].distribution.limit == math.sqrt(6.0 / (6 + 4))


@pytest.mark.parametrize("shape", [(7,), (1, 7), (3, 7)])
@pytest.mark.parametrize("dtype", ["I64", "I32", "U8"])
def test_position_ids_count_from_zero_along_the_last_axis(shape, dtype):
    """Random position indices read outside the table, or inside it, wrongly."""
    plan = fastinit.Plan.from_specs({"text.position_ids": {"dtype": dtype, "shape": shape}}, 17)
    array = plan.array("text.position_ids")
    assert np.array_equal(array, np.broadcast_to(np.arange(7), shape))
    assert array.dtype.itemsize == {"I64": 8, "I32": 4, "U8": 1}[dtype]
    assert plan.draws == 0
    for index in (..., slice(None), (..., slice(None, None, -2)), (..., 3)):
        assert np.array_equal(plan.array("text.position_ids", index=index), array[index])


def test_position_ids_that_the_dtype_cannot_count_are_refused():
    assert plan_of(position_ids=("U8", 256)).array("position_ids")[255] == 255
    with pytest.raises(PlanError, match="position_ids"):
        plan_of(position_ids=("U8", 257))


def test_the_buffers_of_batch_norm():
    """A running variance of zero divides by epsilon: the first forward pass explodes."""
    plan = plan_of(
        bn1__weight=("F32", 4),
        bn1__bias=("F32", 4),
        bn1__running_mean=("F32", 4),
        bn1__running_var=("F32", 4),
        bn1__num_batches_tracked=("I64",),
    )
    values = {name.removeprefix("bn1."): plan.array(name).tolist() for name in plan}
    assert values == {
        "weight": [1.0] * 4,
        "bias": [0.0] * 4,
        "running_mean": [0.0] * 4,
        "running_var": [1.0] * 4,
        "num_batches_tracked": 0,
    }


def test_gamma_and_beta_are_a_gain_and_an_offset():
    plan = plan_of(LayerNorm__gamma=("F32", 3), LayerNorm__beta=("F32", 3), token_type_ids=("I64", 1, 3))
    assert [plan.array(name).ravel().tolist() for name in plan] == [[1.0] * 3, [0.0] * 3, [0] * 3]


UNMATCHED = [
    ("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", [64]),
    ("logit_scale", "F32", []),
    ("relative_position_index", "I64", [49, 49]),
    ("embeddings.weight", "I64", [4, 4]),
    ("transformer.h.0.attn.bias", "F32", [1, 1, 1024, 1024]),
    ("layer_scale.lambda1", "F32", [768]),
    ("mystery.kernel", "F32", [2, 2, 2]),
    ("mystery.weight", "F32", [2, 2, 2, 2, 2, 2]),
    ("weight", "F32", []),
    ("notposition_ids", "I64", [4]),
    ("position_ids", "F32", [4]),
    ("position_ids", "I64", []),
    ("unbias", "F32", [4]),
]


@pytest.mark.parametrize(("name", "dtype", "shape"), UNMATCHED)
def test_a_tensor_that_no_rule_knows_is_refused_by_name_shape_and_dtype(name, dtype, shape):
    """Random rotary frequencies or a random causal mask give a model that runs and never learns."""
    layout = {"good.weight": {"dtype": "F32", "shape": [2, 2]}, name: {"dtype": dtype, "shape": shape}}
    with pytest.raises(PlanError, match=re.escape(repr(name))) as caught:
        fastinit.Plan.from_specs(layout, 17)
    assert str(shape) in str(caught.value)
    assert dtype in str(caught.value)


def test_the_mask_called_bias_is_refused_for_what_it_is():
    with pytest.raises(PlanError, match="attention mask"):
        plan_of(h__0__attn__bias=("F32", 1, 1, 8, 8))


@pytest.mark.parametrize("policy", ["", "Xavier", "kaimin", "rules.toml", None])
def test_an_unknown_policy_is_refused_with_the_known_ones(policy):
    with pytest.raises(PlanError, match="xavier"):
        fastinit.Plan.from_specs("gpt2-124m", 17, policy)


@pytest.mark.parametrize("order", ["", "Named", "random", None])
def test_an_unknown_order_is_refused_with_the_known_ones(order):
    with pytest.raises(PlanError, match="named, sequential"):
        fastinit.Plan.from_specs("gpt2-124m", 17, order=order)
