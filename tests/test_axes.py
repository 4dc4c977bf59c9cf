"""Fans of grouped, transposed and stacked kernels, overridden fans, gains, and what is recommended for them."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import host
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from tables import REFUSED_INTEGERS

import fastinit
from fastinit import _core, initializers
from fastinit._engine.axes import Axes, fans
from fastinit._engine.gains import ACTIVATION_NAMES, squared_gain


@pytest.mark.parametrize(
    ("shape", "layout", "groups", "expected"),
    [
        ((128, 64, 3), "oiw", 1, (192, 384)),
        ((128, 16, 3), "oiw", 4, (48, 96)),
        ((3, 16, 128), "wio", 4, (48, 96)),
        ((64, 1, 3, 3), "oihw", 64, (9, 9)),
        ((128, 1, 3, 3), "oihw", 64, (9, 18)),
        ((3, 3, 64, 2), "hwIo", 64, (9, 18)),
        ((64, 128, 3, 3), "iohw", 1, (576, 1152)),
        ((64, 32, 3, 3), "Iohw", 4, (144, 288)),
        ((64, 32, 3, 3), "oihw", 1, (288, 576)),
        ((2, 3, 4, 8, 16), "dhwio", 2, (192, 192)),
        ((8, 4, 2), "eio", 1, (4, 2)),
        ((8, 2, 4, 5), "eoiw", 2, (20, 5)),
        ((0, 4, 3), "oiw", 4, (12, 0)),
        ((64, 8, 3, 3), "Iohw", 4, (144, 72)),
        ((64, 8, 3, 3), "iOhw", 4, (576, 18)),
        ((64, 8, 3), "iow", 1, (192, 24)),
        ((3, 3, 16, 32), "hwio", 4, (144, 72)),
        ((16, 32), "io", 4, (16, 8)),
        ((512, 8, 64), "ioo", 1, (512, 512)),
        ((768, 12, 64), "ioo", 1, (768, 768)),
        ((12, 64, 768), "iio", 1, (768, 768)),
        ((5, 6, 8, 2, 3), "eeioo", 1, (8, 6)),
    ],
)
def test_fans_count_the_connections_a_unit_really_has(shape, layout, groups, expected):
    """mlx#4536: the inputs of all groups counted. Experts, or the stride of a stack, counted as inputs."""
    assert fans(shape, layout, groups) == expected


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((64, 8, 3, 3), "iohw"), ((64, 8, 3), "iow"), ((64, 8, 1, 3, 3), "iodhw"), ((5, 64, 8, 3), "eiow")],
)
def test_a_grouped_transposed_convolution_must_say_which_axis_holds_the_groups(shape, layout):
    """torch's ConvTranspose2d(64, 32, 3, groups=4) was counted as (576, 18), where it is (144, 72)."""
    inputs, outputs = layout.replace("i", "I"), layout.replace("o", "O")
    rng = fastinit.SplitMix64(17)
    for ask in (
        lambda: fans(shape, layout, 4),
        lambda: fastinit.xavier_uniform(shape, rng, layout=layout, groups=4),
    ):
        with pytest.raises(ValueError, match=f"write '{inputs}' where the inputs do .*, else '{outputs}'"):
            ask()
    assert rng.state == 17
    assert fans(shape, inputs, 4) != fans(shape, outputs, 4)
    assert fans(shape, layout)


@pytest.mark.parametrize("groups", [1, 2, 4, 8, 16, 32, 64])
def test_the_bound_of_a_grouped_convolution(groups):
    """mlx#4536, Conv1d 64 -> 64, k = 3: a bound of 1/sqrt(64 * 3) whatever the groups is sqrt(g) too narrow."""
    smallest = fastinit.variance_scaling(
        (64, 64 // groups, 3), reference.state_before(0), 1 / 3, "fan_in", "uniform", layout="oiw", groups=groups
    ).flat[0]
    assert smallest == pytest.approx(-1 / math.sqrt(64 / groups * 3), rel=1e-15)
    if groups == 1:
        assert round(-smallest, 4) == 0.0722


@given(
    st.permutations("iohwe"),
    st.integers(1, 4),
    st.tuples(*[st.integers(1, 5)] * 5),
    st.sampled_from("io"),
)
def test_blocks_put_every_weight_where_its_letters_say(letters, groups, lengths, holder):
    """A reshape that mixes axes: looked up element by element."""
    layout = "".join(letters).replace(holder, holder.upper())
    sizes = dict(zip("iohwe", lengths, strict=True))
    sizes[holder] *= groups
    shape = tuple(sizes[letter] for letter in letters)
    whole = np.arange(math.prod(shape)).reshape(shape)
    blocks = Axes(shape, layout, groups).blocks(whole)
    assert np.shares_memory(blocks, whole), "a copy cannot be written through"
    for index in np.ndindex(blocks.shape):
        place = dict(zip("egoi" + "".join(letter for letter in letters if letter in "hw"), index, strict=True))
        share = sizes[holder] // groups
        place[holder] += place["g"] * share
        assert blocks[index] == whole[tuple(place[letter] for letter in letters)]
    for first in ("egoi", "ego"):
        axes = Axes(shape, layout, groups)
        assert np.array_equal(axes.whole(axes.blocks(whole, first).copy(), first), whole)


@pytest.mark.parametrize(
    ("shape", "layout", "groups", "message"),
    [
        ((6, 4, 3), "oiw", 4, "groups=4 must divide the 6 outputs"),
        ((6, 4, 3), "Iow", 4, "groups=4 must divide the 6 inputs"),
        ((6, 4), "io", 0, "groups=0 must divide the 4 outputs"),
    ],
)
def test_groups_that_do_not_divide_are_refused(shape, layout, groups, message):
    with pytest.raises(ValueError, match=message):
        fans(shape, layout, groups)


@pytest.mark.parametrize("layout", ["IO", "iI", "Oo", "Hio", "hWio", "Eio", "Iio", "IIo", "ioO", "hhio", "oio"])
def test_one_upper_case_letter_and_only_of_inputs_or_outputs(layout):
    with pytest.raises(ValueError, match="must name each axis once"):
        fans((2,) * len(layout), layout)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        (name, *refused)
        for name in ("groups", "fan_in", "fan_out")
        for refused in REFUSED_INTEGERS
        if refused[0] is not None or name == "groups"  # None stands for a counted fan
    ],
    ids=lambda value: repr(value)[:20],
)
def test_groups_and_fans_are_integers(name, value, error):
    """True is 1 to a cache."""
    fastinit.xavier_uniform((2, 2), 17, **{name: 1})
    with pytest.raises(error, match=f"{name} must be"):
        fastinit.xavier_uniform((2, 2), 17, **{name: value})


def test_groups_need_one_axis_that_holds_them_all():
    with pytest.raises(ValueError, match=r"groups=2 need one axis that holds them all, not layout 'ioo'"):
        fans((4, 2, 2), "ioo", 2)


def test_neighbouring_axes_of_outputs_are_one_of_a_matrix():
    """An orthogonal projection to heads is that of the merged axes, reshaped."""
    for whole, layout, merged, plain in (
        ((8, 2, 3), "ioo", (8, 6), "io"),
        ((2, 3, 8), "iio", (6, 8), "io"),
        ((2, 2, 6, 8), "eeoi", (4, 6, 8), "eoi"),
    ):
        expected = fastinit.orthogonal(merged, 17, layout=plain).reshape(whole)
        assert np.array_equal(fastinit.orthogonal(whole, 17, layout=layout), expected)


def test_mup_measures_widths_over_all_axes_of_a_letter():
    mup = initializers.MuP((4, 2, 3), initializers.Normal(0.0, 1.0))
    assert mup.for_shape((16, 2, 3), "ioo").std == 1.0, "inputs alone are wide"
    assert mup.for_shape((16, 4, 3), "ioo").std == 0.5


def limit_of(shape, **options):
    """The limit of Xavier uniform weights, through the public door: k = 0 gives it exactly."""
    return -float(fastinit.xavier_uniform(shape, reference.state_before(0), **options).flat[0])


def test_overridden_fans():
    """The 3x3 convolution from 1 to 32 channels, counted as 9 and 32: standard deviation 0.2209."""
    limit = limit_of((3, 3, 1, 32), layout="hwio", fan_out=32)
    assert limit == reference.xavier_scale(9, 32)[2]
    assert round(limit / math.sqrt(3), 4) == 0.2209
    assert limit_of((3, 3, 1, 32), layout="hwio") == reference.xavier_scale(9, 288)[2]
    assert limit_of((4, 2), fan_in=9, fan_out=32) == limit
    assert limit_of((5,), fan_in=9, fan_out=32) == limit, "with both fans given, a vector has a scale"
    with pytest.raises(ValueError, match=r"1-d tensor.*both fan_in= and fan_out="):
        limit_of((5,), fan_in=9)
    with pytest.raises(fastinit.ZeroFanIn):
        limit_of((4, 2), fan_in=0)
    with pytest.raises(fastinit.FanSumOverflow):
        limit_of((4, 2), fan_out=2**64 - 1)
    with pytest.raises(ValueError, match="must name each axis once"):
        limit_of((4, 2), fan_in=9, fan_out=32, layout="no")


@pytest.mark.parametrize("shape", [(), (5,), (0,)])
@pytest.mark.parametrize(
    "name", ["xavier_uniform", "kaiming_uniform", "lecun_uniform", "variance_scaling", "orthogonal"]
)
def test_tensors_without_fans_are_refused_by_rank(name, shape):
    rng = fastinit.SplitMix64(17)
    out = np.full(shape, 7.0)
    with pytest.raises(ValueError, match=f"{len(shape)}-d tensor"):
        getattr(fastinit, name)(shape, rng, out=out)
    assert rng.state == 17
    assert (out == 7).all()


@pytest.mark.parametrize("shape", [(1, 0), (0, 7), (0, 0), (3, 0, 2), (0, 3, 2)])
@pytest.mark.parametrize(
    "name", ["xavier_uniform", "kaiming_uniform", "lecun_uniform", "variance_scaling", "orthogonal"]
)
def test_empty_tensors_have_nothing_to_scale(name, shape):
    """pytorch PR#56505, jax#35096: a division by zero."""
    layout = "io" if len(shape) == 2 else "oiw"
    rng = fastinit.SplitMix64(17)
    assert getattr(fastinit, name)(shape, rng, layout=layout).shape == shape
    assert rng.state == 17


def test_a_dense_layer_has_no_factor_for_its_rank():
    """dynet#659: sqrt(3 * ndims) / sqrt(sum of dims)."""
    assert limit_of((3, 4, 5), layout="eio") == reference.xavier_scale(4, 5)[2]


# ---- gains -------------------------------------------------------------------------------------------

getcontext().prec = 40


def phi(x):
    """The normal distribution function at x <= 0, by its series; to 30 digits."""
    x = Decimal(x)
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -38:
        n += 1
        term *= -x * x / (2 * n)
        total += term / (2 * n + 1)
    pi = Decimal("3.14159265358979323846264338327950288419717")
    return Decimal("0.5") + total / (2 * pi).sqrt()


def second_moment(f):
    """E[f(z)**2] of a standard normal z, by the trapezoidal rule, which converges exponentially here."""
    step = 1 / 512
    points = [n * step for n in range(-12 * 512, 12 * 512 + 1)]
    return math.fsum(f(z) ** 2 * math.exp(-z * z / 2) for z in points) * step / math.sqrt(2 * math.pi)


SQUARED_GAINS = {
    "linear": Fraction(1),
    "sigmoid": Fraction(1),
    "tanh": Fraction(25, 9),
    "relu": Fraction(2),
    "gelu": Fraction(2),
    "silu": Fraction(2),
    "swish": Fraction(2),
    "selu": Fraction(9, 16),
    **{f"{conv}{n}d": Fraction(1) for conv in ("conv", "conv_transpose") for n in (1, 2, 3)},
}


@pytest.mark.parametrize("name", SQUARED_GAINS)
def test_squared_gains_are_the_contracts(name):
    """A gain where a squared gain is due, or the other way round."""
    scale = reference.nearest(SQUARED_GAINS[name], reference.FLOAT64)
    assert squared_gain(name) == scale
    assert fastinit.gain(name) == math.sqrt(scale)


@pytest.mark.parametrize("slope", [0.0, 0.01, 0.2, 0.25, 1.0, -0.3, math.sqrt(5), 1e-200, 1e200])
def test_the_leaky_gain_has_the_formulas_roundings(slope):
    assert squared_gain("leaky_relu", slope) == 2 / (1 + slope * slope)
    assert squared_gain("leaky_relu", 0) == squared_gain("relu")
    assert squared_gain("leaky_relu") == squared_gain("leaky_relu", 0.01)


def test_the_elu_gain_keeps_the_second_moment():
    """He et al.'s equation 10, in closed form and by quadrature, for alphas other than 1 too."""
    moment = 2 * (Decimal(2).exp() * phi(-2) - 2 * Decimal("0.5").exp() * phi(-1)) + 1
    assert squared_gain("elu") == pytest.approx(float(2 / (1 + moment)), rel=1e-15)
    for alpha in (0.5, 1.0, 1.6732632423543772):
        measured = second_moment(lambda z, alpha=alpha: z if z > 0 else alpha * math.expm1(z))
        assert squared_gain("elu", alpha) * measured == pytest.approx(1, abs=1e-5)


def test_the_softplus_gain_keeps_the_second_moment():
    assert squared_gain("softplus") * second_moment(lambda z: math.log1p(math.exp(z))) == pytest.approx(
        1, rel=1e-13
    )


def test_what_the_equation_would_give_gelu_and_silu():
    """The figures the docstring names beside the conventional 2."""
    gelu = second_moment(lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2)
    silu = second_moment(lambda z: z / (1 + math.exp(-z)))
    assert (round(1 / gelu, 4), round(1 / silu, 4)) == (2.3517, 2.8108)
    assert "2.3517 and 2.8108" in fastinit.gain.__doc__


@pytest.mark.parametrize(
    ("given", "meant"),
    [("rleu", "relu"), ("ReLU", "relu"), ("leakyrelu", "leaky_relu"), ("sigmiod", "sigmoid"), ("conv2", "conv2d")],
)
def test_an_unknown_nonlinearity_is_answered_with_the_nearest(given, meant):
    rng = fastinit.SplitMix64(17)
    for call in (fastinit.gain, fastinit.recommend, lambda name: fastinit.kaiming_uniform((2, 2), rng, name)):
        with pytest.raises(ValueError, match=f"unknown activation '{given}'; did you mean '{meant}'"):
            call(given)
    assert rng.state == 17
    with pytest.raises(ValueError, match="unknown activation 'xyzzyx'; expected one of linear"):
        fastinit.gain("xyzzyx")
    with pytest.raises(TypeError, match="activation must be a str"):
        fastinit.gain(None)


def test_a_parameter_is_finite_and_only_where_there_is_one():
    with pytest.raises(ValueError, match="relu has no parameter"):
        fastinit.gain("relu", 0.1)
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="a must be finite"):
            fastinit.gain("leaky_relu", bad)
    with pytest.raises(TypeError, match="a must be a number"):
        fastinit.gain("leaky_relu", "0.1")


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_moves_no_gain_and_no_spread(mode):
    """Python arithmetic on the way from a slope to a weight: most values would change in their last bit."""

    def found():
        slopes = [0.1, 0.2, 0.3, 0.7]
        spreads = [
            initializers.Residual(initializers.xavier(), 3),
            initializers.DepthScaled(initializers.xavier(), 6),
            initializers.MuP((3, 4), initializers.xavier()),
            initializers.Scaled(initializers.xavier(), 0.1),
        ]
        return [
            *[fastinit.gain("leaky_relu", slope) for slope in slopes],
            *[_core.scale(1.0, 11.0, kind, 0.3) for kind in (_core.FAN, _core.FAN_SUM, _core.FAN_PRODUCT)],
            *[spread.for_shape((7, 9)) for spread in spreads],
        ]

    expected = found()
    with host.rounding(mode):
        moved = found()
    assert moved == expected


# ---- recommendations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "scheme"),
    [
        ("sigmoid", "xavier_uniform"),
        ("tanh", "xavier_uniform"),
        ("linear", "xavier_uniform"),
        ("relu", "kaiming_normal"),
        ("gelu", "kaiming_normal"),
        ("silu", "kaiming_normal"),
        ("swish", "kaiming_normal"),
    ],
)
def test_recommendations_are_the_seeds(activation, scheme):
    """Sigmoid and tanh Xavier; ReLU, GELU and Swish Kaiming."""
    advice = fastinit.recommend(activation)
    assert advice.initializer.name == scheme
    assert activation in advice.reason


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_every_nonlinearity_has_a_recommendation_for_residual_layers_too(activation):
    residual = fastinit.recommend(activation, residual_layers=126)
    said = fastinit.recommend(activation).trials[0].stack.initializer
    assert residual.initializer == initializers.Residual(said, 126)
    assert "sqrt(2 * 126)" in residual.reason
    assert residual is fastinit.recommend(activation, 126), "it is measured once"


@pytest.mark.parametrize(
    ("layers", "error"), [*REFUSED_INTEGERS, (0, ValueError)], ids=lambda value: repr(value)[:20]
)
def test_residual_layers_are_counted(layers, error):
    if layers is None:
        return
    with pytest.raises(error):
        fastinit.recommend("relu", layers)
