"""The same call in torch, JAX, Keras and mup: the same variance, bounds and fans, or a named difference.

Peers are measured as black boxes; what they are held against is the content fastinit fills with, whose exact
parameters are known before a weight is drawn. The differences are named in docs/parity.md.
"""

import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import peer

from fastinit import dirac as fastinit_dirac
from fastinit import fans, gain, identity, initializers
from fastinit._engine import distributions
from fastinit.initializers import MuP, Normal, Sparse, TruncatedNormal, VarianceScaling, kaiming, lecun, xavier

TRUNCATED_STD = 0.87962566103423978
PAGE = (Path(__file__).parent.parent.parent / "docs" / "parity.md").read_text()

DENSE, CONV, TRANSPOSED = (500, 400), (64, 32, 9, 11), (32, 64, 9, 11)
GROUPED = (64, 8, 19, 21)


def promised(content):
    """(standard deviation, largest magnitude) of the weights of a content."""
    if isinstance(content, distributions.CenteredUniform):
        return content.limit / math.sqrt(3), content.limit
    if isinstance(content, distributions.Normal):
        return content.std, math.inf
    assert (content.lower, content.upper) == (-2.0, 2.0)
    return content.std * TRUNCATED_STD, 2 * content.std


def assert_same(weights, content):
    """Five standard errors of a standard deviation; and a bound that is reached, but not passed."""
    weights = np.asarray(weights, np.float64).ravel()
    std, bound = promised(content)
    error = 1 / math.sqrt(2 * weights.size)
    assert weights.std() / std == pytest.approx(1, abs=5 * error)
    assert abs(weights.mean()) < 5 * std / math.sqrt(weights.size)
    assert np.abs(weights).max() <= bound * (1 + 1e-6)
    if bound < math.inf:
        assert np.abs(weights).max() > bound * (1 - 1e-3)


def assert_different(weights, content, by):
    """A deliberate difference: the peer's standard deviation is `by` times ours."""
    std, _ = promised(content)
    assert np.std(np.asarray(weights, np.float64)) / std == pytest.approx(by, rel=0.02)


def named(difference):
    """The page must name it."""
    assert difference in PAGE, f"docs/parity.md does not say {difference!r}"


# ---- torch.nn.init -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    torch = peer("torch")
    torch.manual_seed(17)
    return torch


TORCH = [
    ("xavier_uniform_", {}, xavier("uniform")),
    ("xavier_normal_", {}, xavier("normal")),
    ("kaiming_uniform_", {}, kaiming("uniform")),
    ("kaiming_normal_", {}, kaiming("normal")),
    ("kaiming_normal_", {"mode": "fan_out"}, kaiming("normal", mode="fan_out")),
    ("kaiming_uniform_", {"a": 0.3}, kaiming("uniform", "leaky_relu", 0.3)),
    ("kaiming_normal_", {"nonlinearity": "tanh"}, kaiming("normal", "tanh")),
    ("kaiming_normal_", {"nonlinearity": "selu"}, kaiming("normal", "selu")),
    ("kaiming_normal_", {"nonlinearity": "linear"}, lecun("normal")),
    ("normal_", {"std": 0.02}, Normal(std=0.02)),
]


@pytest.mark.parametrize(("name", "options", "initializer"), TORCH, ids=str)
@pytest.mark.parametrize(("shape", "layout"), [(DENSE, "oi"), (CONV, "oihw")])
def test_torch(torch, name, options, initializer, shape, layout):
    weights = getattr(torch.nn.init, name)(torch.empty(shape), **options)
    assert_same(weights, initializer.for_shape(shape, layout))


@pytest.mark.parametrize(
    ("name", "param"),
    [
        *[(f"{conv}{n}d", None) for conv in ("conv", "conv_transpose") for n in (1, 2, 3)],
        ("linear", None),
        ("sigmoid", None),
        ("tanh", None),
        ("relu", None),
        ("selu", None),
        ("leaky_relu", None),
        ("leaky_relu", 0.2),
    ],
)
def test_torch_gains(torch, name, param):
    assert gain(name, param) == pytest.approx(torch.nn.init.calculate_gain(name, param), rel=1e-15)


def test_torch_default_layers_are_a_named_scale(torch):
    """nn.Linear and nn.Conv2d start at kaiming_uniform_(a=sqrt(5)): 1 / sqrt(fan_in) as a limit."""
    ours = kaiming("uniform", "leaky_relu", math.sqrt(5))
    assert ours.scale == pytest.approx(1 / 3, rel=1e-15)
    assert_same(torch.nn.Linear(400, 500).weight.detach(), ours.for_shape((500, 400), "oi"))
    conv = torch.nn.Conv2d(64, 64, (19, 21), groups=8)
    assert tuple(conv.weight.shape) == GROUPED
    assert_same(conv.weight.detach(), ours.for_shape(GROUPED, "oihw", groups=8))
    named("1/3")


def test_torch_grouped_fan_out(torch):
    """torch counts the outputs of all groups; an input reaches those of its own."""
    weights = torch.nn.init.kaiming_normal_(torch.empty(GROUPED), mode="fan_out")
    ours = kaiming("normal", mode="fan_out")
    assert_different(weights, ours.for_shape(GROUPED, "oihw", groups=8), 1 / math.sqrt(8))
    assert_same(weights, ours.for_shape(GROUPED, "oihw"))
    assert fans(GROUPED, "oihw", 8)[0] == torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(GROUPED))[0]
    named("fans of a grouped convolution")


def test_torch_transposed_convolution(torch):
    """torch takes axis 1 for the inputs of any kernel; in ConvTranspose2d's it is the outputs."""
    layer = torch.nn.ConvTranspose2d(32, 64, (9, 11))
    assert tuple(layer.weight.shape) == TRANSPOSED
    weights = torch.nn.init.kaiming_normal_(torch.empty(TRANSPOSED))
    assert_same(weights, kaiming("normal").for_shape(TRANSPOSED, "oihw"))
    assert_different(weights, kaiming("normal").for_shape(TRANSPOSED, "iohw"), math.sqrt(32 / 64))
    assert fans(TRANSPOSED, "iohw") == fans(CONV, "oihw")
    named("transposed convolution")


def test_torch_grouped_transposed_convolution(torch):
    """Its inputs' axis holds all groups, so neither fan is torch's."""
    weight = torch.nn.ConvTranspose2d(64, 32, 3, groups=4).weight
    theirs = torch.nn.init._calculate_fan_in_and_fan_out(weight)
    assert theirs == fans(tuple(weight.shape), "oihw") == (72, 576)
    assert fans(tuple(weight.shape), "Iohw", 4) == (64 // 4 * 9, 32 // 4 * 9) == (144, 72)
    named("(72, 576)")
    named("(144, 72)")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_torch_warns_of_empty_tensors_in_kaiming_only(torch, shape):
    for name in ("xavier_uniform_", "xavier_normal_", "orthogonal_", "normal_"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            getattr(torch.nn.init, name)(torch.empty(shape))
    for name in ("kaiming_uniform_", "kaiming_normal_"):
        with pytest.warns(UserWarning, match="zero-element"):
            getattr(torch.nn.init, name)(torch.empty(shape))
    named("warns in `kaiming_*`")


def test_torch_takes_a_slope_of_zero_with_relu(torch):
    weights = torch.nn.init.kaiming_normal_(torch.empty(DENSE), a=0, nonlinearity="relu")
    assert_same(weights, kaiming("normal", "relu", a=0).for_shape(DENSE, "oi"))


def test_torch_leaky_relu_default(torch):
    """kaiming_*'s own default a = 0 makes leaky_relu mean relu; calculate_gain's is 0.01, as ours."""
    weights = torch.nn.init.kaiming_normal_(torch.empty(DENSE), nonlinearity="leaky_relu")
    assert_same(weights, kaiming("normal").for_shape(DENSE, "oi"))
    assert kaiming("normal", "leaky_relu").scale == 2 / (1 + 0.01 * 0.01)
    named("slope of leaky_relu")


def test_torch_truncation_is_in_weight_units(torch):
    """torchtitan#2269, fms#289: std 0.02 with a, b = -2, 2 does not truncate."""
    loose = torch.nn.init.trunc_normal_(torch.empty(DENSE), std=0.02)
    assert float(loose.abs().max()) > 0.04
    tight = torch.nn.init.trunc_normal_(torch.empty(DENSE), std=0.02, a=-0.04, b=0.04)
    assert_same(tight, TruncatedNormal(0.0, 0.02, -2.0, 2.0).for_shape(DENSE))
    named("standard deviations")


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (3, 4, 5, 6), (200, 4, 5, 6)])
def test_torch_orthogonal(torch, shape):
    """The small side of (outputs, everything else) is orthonormal: torch's own matrix passes our test's claim."""
    weights = torch.nn.init.orthogonal_(torch.empty(shape, dtype=torch.float64), gain=1.5).numpy()
    matrix = weights.reshape(shape[0], -1)
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert np.allclose(small @ small.T, 1.5**2 * np.eye(len(small)), atol=1e-12)


@pytest.mark.parametrize(("shape", "groups"), [((4, 4, 3), 1), ((6, 2, 3, 4), 3), ((4, 6, 3, 3, 5), 2)])
def test_torch_dirac(torch, shape, groups):
    weights = torch.nn.init.dirac_(torch.empty(shape), groups)
    assert np.array_equal(fastinit_dirac(shape, groups, layout="oi" + "dhw"[: len(shape) - 2]), weights)


def test_torch_eye_and_constants(torch):
    assert np.array_equal(identity((3, 5)), torch.nn.init.eye_(torch.empty(3, 5)))


def test_torch_sparse(torch):
    weights = torch.nn.init.sparse_(torch.empty(5, 7), sparsity=0.25).numpy()
    assert ((weights == 0).sum(axis=0) == 2).all()
    assert Sparse(0.25).std == 0.01
    large = torch.nn.init.sparse_(torch.empty(500, 400), sparsity=0.5).numpy()
    assert large[large != 0].std() == pytest.approx(0.01, rel=0.02)


# ---- jax.nn.initializers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax():
    return peer("jax")


JAX = [
    ("glorot_uniform", (), {}, xavier("uniform")),
    ("glorot_normal", (), {}, xavier("truncated_normal")),
    ("he_uniform", (), {}, kaiming("uniform")),
    ("he_normal", (), {}, kaiming("truncated_normal")),
    ("lecun_uniform", (), {}, lecun("uniform")),
    ("lecun_normal", (), {}, lecun("truncated_normal")),
    ("truncated_normal", (0.02,), {}, TruncatedNormal(0.0, 0.02)),
    ("normal", (0.02,), {}, Normal(std=0.02)),
    *[
        ("variance_scaling", (0.3, mode, distribution), {}, VarianceScaling(0.3, mode, distribution))
        for mode in initializers.MODES
        for distribution in initializers.DISTRIBUTIONS
    ],
]


@pytest.mark.parametrize(("name", "arguments", "options", "initializer"), JAX, ids=str)
@pytest.mark.parametrize(("shape", "layout"), [(DENSE, "io"), ((9, 11, 32, 64), "hwio")])
def test_jax(jax, name, arguments, options, initializer, shape, layout):
    weights = getattr(jax.nn.initializers, name)(*arguments, **options)(jax.random.key(17), shape)
    assert_same(weights, initializer.for_shape(shape, layout))
    if name in ("glorot_normal", "he_normal", "lecun_normal"):
        named("truncated")


def test_jax_axes_are_our_letters(jax):
    """Its in_axis, out_axis and batch_axis against a layout, experts included."""
    make = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=1, out_axis=2, batch_axis=0)
    weights = make(jax.random.key(17), (8, 200, 300))
    assert_same(weights, lecun("normal").for_shape((8, 200, 300), "eio"))


def test_jax_does_not_know_groups(jax):
    weights = jax.nn.initializers.glorot_uniform()(jax.random.key(17), (19, 21, 8, 64))
    ours = xavier("uniform")
    assert_same(weights, ours.for_shape((19, 21, 8, 64), "hwio"))
    by = math.sqrt((8 + 8) / (8 + 64))
    assert_different(weights, ours.for_shape((19, 21, 8, 64), "hwio", groups=8), by)
    named("groups")


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (3, 4, 5, 6), (1, 1, 4, 9)])
def test_jax_orthogonal(jax, shape):
    matrix = np.asarray(jax.nn.initializers.orthogonal(1.5)(jax.random.key(17), shape)).reshape(-1, shape[-1])
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert np.allclose(small @ small.T, 1.5**2 * np.eye(len(small)), atol=1e-5)


@pytest.mark.parametrize("field", [(3,), (4, 3), (2, 3, 5)])
def test_jax_delta_orthogonal(jax, field):
    """The tap of an even kernel, and no more inputs than outputs."""
    make = jax.nn.initializers.delta_orthogonal()
    weights = np.asarray(make(jax.random.key(17), (*field, 4, 6)))
    middle = tuple((n - 1) // 2 for n in field)
    assert {tuple(int(i) for i in place[: len(field)]) for place in np.argwhere(weights)} == {middle}
    assert np.allclose(weights[middle] @ weights[middle].T, np.eye(4), atol=1e-5)
    with pytest.raises(ValueError, match="fan_in"):
        make(jax.random.key(17), (*field, 6, 4))


# ---- Keras 3 -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keras(jax):
    os.environ.setdefault("KERAS_BACKEND", "jax")
    return peer("keras")


KERAS = [
    ("GlorotUniform", {}, xavier("uniform")),
    ("GlorotNormal", {}, xavier("truncated_normal")),
    ("HeUniform", {}, kaiming("uniform")),
    ("HeNormal", {}, kaiming("truncated_normal")),
    ("LecunUniform", {}, lecun("uniform")),
    ("LecunNormal", {}, lecun("truncated_normal")),
    ("RandomNormal", {"stddev": 0.02}, Normal(std=0.02)),
    ("TruncatedNormal", {"stddev": 0.02}, TruncatedNormal(0.0, 0.02)),
    *[
        (
            "VarianceScaling",
            {"scale": 0.3, "mode": mode, "distribution": theirs},
            VarianceScaling(0.3, mode, distribution),
        )
        for mode in ("fan_in", "fan_out", "fan_avg")
        for theirs, distribution in [
            ("uniform", "uniform"),
            ("untruncated_normal", "normal"),
            ("truncated_normal", "truncated_normal"),
        ]
    ],
]


@pytest.mark.parametrize(("name", "options", "initializer"), KERAS, ids=str)
@pytest.mark.parametrize(("shape", "layout"), [(DENSE, "io"), ((9, 11, 32, 64), "hwio")])
def test_keras(keras, name, options, initializer, shape, layout):
    weights = keras.ops.convert_to_numpy(getattr(keras.initializers, name)(seed=17, **options)(shape))
    assert_same(weights, initializer.for_shape(shape, layout))


def test_keras_counts_a_vector(keras):
    """Keras takes a bias of n for fan_in = fan_out = n; here a vector has no fans."""
    weights = keras.ops.convert_to_numpy(keras.initializers.GlorotUniform(seed=17)((100_000,)))
    ours = xavier("uniform")
    assert_same(weights, ours.for_shape((100_000,), fan_in=100_000, fan_out=100_000))
    with pytest.raises(ValueError, match="1-d"):
        ours.for_shape((100_000,))
    named("vector")


def test_keras_depthwise_fan_in(keras):
    """A depthwise output sees one input; Keras multiplies all of them in."""
    layer = keras.layers.DepthwiseConv2D(3)
    layer.build((None, 8, 8, 64))
    shape = tuple(layer.kernel.shape)
    assert (shape, fans(shape, "hwio"), fans(shape, "hwIo", 64)) == ((3, 3, 64, 1), (576, 9), (9, 9))
    weights = keras.ops.convert_to_numpy(keras.initializers.HeNormal(seed=17)((15, 20, 64, 1)))
    ours = kaiming("truncated_normal")
    assert_same(weights, ours.for_shape((15, 20, 64, 1), "hwio"))
    assert_different(weights, ours.for_shape((15, 20, 64, 1), "hwIo", groups=64), 1 / math.sqrt(64))
    named("(576, 9)")


def test_keras_identity_and_orthogonal(keras):
    found = keras.ops.convert_to_numpy(keras.initializers.Identity(0.5)((3, 5)))
    assert np.array_equal(identity((3, 5), gain=0.5), found)
    matrix = keras.ops.convert_to_numpy(keras.initializers.Orthogonal(1.5, seed=17)((3, 4, 5, 6))).reshape(60, 6)
    assert np.allclose(matrix.T @ matrix, 1.5**2 * np.eye(6), atol=1e-5)


# ---- mup ---------------------------------------------------------------------------------------------

WIDTHS = [
    ((500, 400), (500, 400)),
    ((500, 400), (50, 400)),
    ((500, 400), (500, 50)),
    ((500, 400), (50, 100)),
    ((64, 32, 9, 11), (16, 8, 9, 11)),
]


@pytest.mark.parametrize(("shape", "base_shape"), WIDTHS)
@pytest.mark.parametrize(
    ("name", "options", "base"),
    [
        ("normal_", {"std": 0.02}, Normal(std=0.02)),
        ("xavier_normal_", {}, xavier("normal")),
        ("xavier_uniform_", {}, xavier("uniform")),
        ("kaiming_normal_", {}, kaiming("normal")),
        ("kaiming_uniform_", {}, kaiming("uniform")),
        ("kaiming_normal_", {"mode": "fan_out"}, kaiming("normal", mode="fan_out")),
        ("kaiming_normal_", {"a": 1}, lecun("normal")),
    ],
)
def test_mup(torch, shape, base_shape, name, options, base):
    """The package mup, for neither, one and both axes wide: the standard deviation of every initializer it has."""
    mup = peer("mup")
    tensor = torch.empty(shape)
    tensor.infshape = mup.infshape.zip_infshape(base_shape, shape)
    weights = getattr(mup.init, name)(tensor, **options)
    assert_same(weights, MuP(base_shape, base).for_shape(shape, "oi" + "hw"[: len(shape) - 2]))
