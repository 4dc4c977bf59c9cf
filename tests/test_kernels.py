"""Names and axes of Flax, Keras and Haiku: a kernel read the wrong way round gets a wrong spread, in silence.

Shapes are those that the libraries print; tests/integrations starts their real models.
"""

import math

import numpy as np
import pytest
from conftest import bits

import fastinit
from fastinit.errors import TensorsRefused
from fastinit.policies import UserRule, customized

F32 = "F32"


def planned(shapes, policy="kaiming", **options):
    specs = {name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in shapes.items()}
    return fastinit.Plan.from_specs(specs, 17, policy, **options)


# name, shape, fan_in; beside it, tensors that its reading needs
KERNELS = [
    ("params.Dense_0.kernel", (8, 6), 8, {}),
    ("layers.0.weight", (6, 8), 8, {}),
    ("mlp/~/linear_0.w", (8, 6), 8, {}),
    ("params.Conv_0.kernel", (3, 8, 6), 24, {}),
    ("conv1.kernel", (3, 5, 8, 6), 120, {}),
    ("backbone.conv.0.kernel", (2, 3, 5, 8, 6), 240, {}),
    ("conv1_d.w", (3, 8, 6), 24, {}),
    ("params.ConvTranspose_0.kernel", (3, 5, 8, 6), 120, {}),
    ("up/conv2d_transpose_1/kernel", (3, 5, 6, 8), 120, {}),
    ("up/conv2_d_transpose.w", (3, 5, 6, 8), 120, {}),
    ("mystery.kernel", (3, 5, 8, 6), 120, {}),
    ("b/depthwise_conv2d_3/kernel", (3, 3, 8, 2), 9, {}),
    ("b/depthwise_conv2d/kernel", (3, 3, 1, 4), 9, {}),
    ("separable/depthwise_kernel", (3, 8, 2), 3, {}),
    ("separable/pointwise_kernel", (1, 16, 6), 16, {}),
    ("b/depthwise_conv2_d.w", (3, 3, 1, 8), 9, {}),
    ("b.depthwise.kernel", (3, 3, 1, 8), 9, {}),
    ("attn.query.kernel", (8, 2, 3), 8, {}),
    ("Attention_0.value.kernel", (8, 2, 3), 8, {"Attention_0.query.kernel": (8, 2, 3)}),
    ("attn.out.kernel", (2, 3, 8), 6, {"attn.query.kernel": (8, 2, 3)}),
    ("mha/attention_output/kernel", (2, 3, 8), 6, {"mha/query/kernel": (8, 2, 3)}),
    ("layers.attn.out.kernel", (4, 2, 3, 8), 6, {"layers.attn.query.kernel": (4, 8, 2, 3)}),
    ("layers.attn.query.kernel", (4, 8, 2, 3), 8, {}),
    ("lstm/lstm_cell/kernel", (8, 24), 8, {"lstm/lstm_cell/recurrent_kernel": (6, 24)}),
    ("gru_cell.recurrent_kernel", (6, 18), 6, {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "fan_in", "beside"), KERNELS, ids=[kernel[0] for kernel in KERNELS])
def test_the_inputs_of_a_kernel_are_counted_on_its_own_axes(name, shape, fan_in, beside):
    plan = planned({name: (F32, shape), **{other: (F32, there) for other, there in beside.items()}})
    assert plan[name].distribution.std == math.sqrt(2.0 / fan_in)


GATED = [("kernel", (8, 24), 8 + 6), ("recurrent_kernel", (6, 24), 6 + 6), ("kernel", (3, 3, 8, 24), 9 * (8 + 6))]


@pytest.mark.parametrize(("name", "shape", "fan_sum"), GATED)
def test_each_gate_of_keras_is_a_matrix_of_its_own(name, shape, fan_sum):
    recurrent = (*shape[:-2], 6, 24)
    plan = planned({"cell/recurrent_kernel": (F32, recurrent), f"cell/{name}": (F32, shape)}, "xavier")
    assert plan[f"cell/{name}"].distribution.limit == math.sqrt(6.0 / fan_sum)


VALUES = {
    "params.LayerNorm_0.scale": ((6,), 1.0),
    "anything.scale": ((6,), 1.0),
    "anything.bias": ((6,), 0.0),
    "WeightNorm_0.Dense_1/kernel/scale": ((6,), 1.0),
    "batch_stats.BatchNorm_0.mean": ((6,), 0.0),
    "batch_stats.BatchNorm_0.var": ((6,), 1.0),
    "bn.mean": ((6,), 0.0),
    "bn.var": ((6,), 1.0),
    "batch_normalization_1/gamma": ((6,), 1.0),
    "batch_normalization_1/beta": ((6,), 0.0),
    "batch_normalization_1/moving_mean": ((6,), 0.0),
    "batch_normalization_1/moving_variance": ((6,), 1.0),
    "rms_normalization/scale": ((6,), 1.0),
    "gru_cell/bias": ((2, 18), 0.0),
    "attn.query.bias": ((2, 3), 0.0),
    "batch_norm.scale": ((1, 1, 1, 6), 1.0),
    "batch_norm.offset": ((1, 1, 1, 6), 0.0),
    "batch_norm/~/mean_ema.average": ((1, 6), 0.0),
    "batch_norm/~/var_ema.hidden": ((1, 6), 0.0),
    "linear.w": ((6, 6), None),
    "linear.b": ((6,), 0.0),
    "lora.lora_a": ((6, 2), None),
    "lora.lora_b": ((2, 6), 0.0),
    "conv.bias": ((6, 1, 1, 1), 0.0),
}


@pytest.mark.parametrize("policy", ["xavier", "kaiming", "torch-default", "bert"])
def test_gains_offsets_and_statistics_start_as_their_libraries_start_them(policy):
    """A running variance of zero, or a norm's gain drawn at random."""
    shapes = {name: (F32, shape) for name, (shape, _) in VALUES.items()}
    if policy == "torch-default":  # it has no default for a bias without a `weight` beside it
        shapes = {name: entry for name, entry in shapes.items() if not name.endswith("bias")}
        del shapes["anything.scale"]
    plan = planned({**shapes, "batch_norm/~/mean_ema.counter": ("I32", ())}, policy)
    for name in shapes:
        if VALUES[name][1] is not None:
            assert bits(plan.array(name)) == bits(np.full(*VALUES[name], np.float32)), name
    assert plan.array("batch_norm/~/mean_ema.counter") == 0


REFUSED = {
    "dense.kernel": ((4, 8, 6), "stack of matrices .layout=eio.*--rule 'dense.kernel=xavier_uniform layout=eio'"),
    "out.kernel": ((2, 3, 8), "stack of matrices"),
    "Conv_0.kernel": ((3, 3, 1, 8), "depthwise one.*xavier_uniform layout=hwio groups=depthwise'"),
    "bn.mean": ((6,), "no rule"),
    "x.b": ((6,), "no rule"),
    "x.offset": ((6,), "no rule"),
    "x.scale": ((6,), "no rule"),
    "attn.bias": ((1, 1, 8, 8), "attention mask"),
    "ls1.scale": ((6,), "LayerScale"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_name_does_not_say_is_refused(name):
    shape, message = REFUSED[name]
    with pytest.raises(TensorsRefused, match=message):
        planned({name: (F32, shape)}, "xavier")


@pytest.mark.parametrize(
    ("shape", "layout", "fan_sum"), [((3, 3, 1, 8), "hwio", 18), ((8, 1, 3, 3), "oihw", 18), ((3, 8, 2), "wIo", 9)]
)
def test_a_rules_depthwise_groups_are_counted_on_the_axis_that_holds_them(shape, layout, fan_sum):
    """Axis 0 of a kernel of Flax is its height."""
    rule = UserRule("*", "xavier_uniform", layout, "depthwise")
    plan = planned({"k": (F32, shape)}, customized(rules=[rule]))
    assert plan["k"].distribution.limit == math.sqrt(6.0 / fan_sum)


class Described:
    """Like an array, to those who ask for its shape and dtype alone."""

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype


def test_anything_with_a_shape_and_a_dtype_is_a_spec():
    import ml_dtypes  # noqa: PLC0415

    described = {
        "a.kernel": np.zeros((2, 3), np.float16),
        "b.kernel": Described([2, 3], "bfloat16"),
        "c.kernel": np.broadcast_to(np.zeros((), ml_dtypes.bfloat16), (1 << 30, 1 << 20)),
        "d.kernel": {"dtype": "F32", "shape": [2, 3]},
    }
    plan = fastinit.Plan.from_specs(described, 17)
    facts = [(tensor.shape, tensor.dtype.name) for tensor in plan.values()]
    assert facts == [
        ((2, 3), "float16"),
        ((2, 3), "bfloat16"),
        ((1 << 30, 1 << 20), "bfloat16"),
        ((2, 3), "float32"),
    ]


@pytest.mark.parametrize(
    "entry", [Described((2, None), "float32"), Described((2, 3), "float33"), Described((-1,), "float32")]
)
def test_what_is_no_shape_or_dtype_is_refused_by_name(entry):
    with pytest.raises(fastinit.CheckpointError, match=r"tensor 'a.kernel'"):
        fastinit.Plan.from_specs({"a.kernel": entry}, 17)
