"""Initializers as data: formulas, worked values, JSON, plans, and refusals. Nothing here needs a normal draw."""

import copy
import dataclasses
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import reference
from bits import assert_bits, patterns
from hypothesis import given
from hypothesis import strategies as st

import fastinit
from fastinit import DistributionError, initializers
from fastinit._engine import distributions
from fastinit._engine import initializer as initializer_module
from fastinit._engine.distributions import CenteredUniform
from fastinit.initializers import (
    ONES,
    ZEROS,
    Constant,
    DeltaOrthogonal,
    DepthScaled,
    Diagonal,
    Dirac,
    Given,
    Identity,
    Initializer,
    MuP,
    Normal,
    Orthogonal,
    Parts,
    Positions,
    Residual,
    Scaled,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    kaiming,
    lecun,
    xavier,
)

TRUNCATED_STD = 0.87962566103423978

EVERY = [
    Constant(0.5),
    ZEROS,
    ONES,
    Uniform(-0.25, 0.75),
    Normal(0.125, 0.02),
    TruncatedNormal(0.0, 0.02),
    TruncatedNormal(0.0, 0.02, -math.inf, 3.0),
    xavier("uniform"),
    xavier("normal"),
    kaiming("truncated_normal", "leaky_relu", 0.2, "fan_out"),
    VarianceScaling(0.3, "fan_geo_avg", "normal"),
    Identity(0.5),
    Dirac(2),
    Dirac(),
    CenteredUniform(0.5),
    Diagonal(2.0, "oi", 2),
    Orthogonal(1.5),
    Orthogonal(1.5, "oi"),
    DeltaOrthogonal(),
    Sparse(0.25, 0.1),
    Scaled(lecun(), 0.1),
    Residual(Normal(std=0.02), 12),
    DepthScaled(kaiming(), 3),
    MuP((8, 4), xavier("normal")),
    Residual(Scaled(MuP((8, 4)), 2.0), 1),
    Positions(),
    Parts(((((0, 1, 1),), ZEROS), (((1, 9, 1),), Normal(0.0, 0.02)))),
    Given("0f" * 32),
]
ids = [f"{initializer.name}-{number}" for number, initializer in enumerate(EVERY)]


# ---- data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initializer", EVERY, ids=ids)
def test_every_initializer_is_frozen_comparable_hashable_data(initializer):
    """An initializer used as a key, a default or a field of a config."""
    for field in dataclasses.fields(initializer):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(initializer, field.name, 1)
    assert not hasattr(initializer, "__dict__"), "a misspelt field would be accepted"
    for twin in (copy.deepcopy(initializer), pickle.loads(pickle.dumps(initializer))):
        assert twin == initializer
        assert hash(twin) == hash(initializer)
    assert [other for other in EVERY if other == initializer] == [initializer]


@pytest.mark.parametrize("initializer", EVERY, ids=ids)
def test_every_initializer_travels_as_json(initializer):
    """A config file that loads as something else; NaN and Infinity, which no JSON parser need take."""
    text = json.dumps(initializer.to_json(), allow_nan=False)
    assert Initializer.from_json(json.loads(text)) == initializer
    assert json.loads(text)["kind"] == initializer.kind


def test_every_kind_is_in_the_list_above():
    assert {initializer.kind for initializer in EVERY} == set(initializer_module._KINDS)


def test_every_class_of_the_module_can_be_read_back():
    classes = {
        cls for cls in vars(initializers).values() if isinstance(cls, type) and issubclass(cls, Initializer)
    }
    assert {cls for cls in classes if hasattr(cls, "kind")} == set(initializer_module._KINDS.values())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "needs a kind"),
        ({"kind": 3}, "needs a kind"),
        ({"kind": ["zeros"]}, "needs a kind"),
        ({"kind": "constnt"}, "did you mean 'constant'"),
        ({"kind": "constant", "value": 1, "std": 1}, "'constant' takes"),
        ({"kind": "constant"}, "'constant' takes"),
        ({"kind": "constant", "value": "1"}, "value must be a number"),
        ({"kind": "constant", "value": True}, "value must be a number"),
        ({"kind": "constant", "value": None}, "value must be a number"),
        ({"kind": "variance_scaling", "scale": -1, "mode": "fan_in", "distribution": "normal"}, "scale"),
        ({"kind": "variance_scaling", "scale": 1, "mode": "fanin", "distribution": "normal"}, "'fan_in'"),
        ({"kind": "variance_scaling", "scale": 1, "mode": "fan_in", "distribution": "norm"}, "'normal'"),
        ({"kind": "residual", "base": "zeros", "residual_layers": 1}, "base must be an initializer"),
        ({"kind": "residual", "base": {"kind": "positions"}, "residual_layers": 1}, "base must be an initializer"),
        (
            {"kind": "residual", "base": {"kind": "normal", "mean": 0, "std": 1}, "residual_layers": 1.5},
            "layers must be an integer",
        ),
        ({"kind": "mup", "base": {"kind": "normal", "mean": 0, "std": 1}, "base_shape": [0]}, "base_shape"),
        ("zeros", "JSON object"),
        ([], "JSON object"),
        (None, "JSON object"),
    ],
    ids=repr,
)
def test_other_json_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Initializer.from_json(data)


def test_numbers_are_kept_as_floats_and_minus_zero_as_zero():
    """An int from JSON that is another key than the float; -0.0 that is another constant than 0.0."""
    assert type(VarianceScaling(2, "fan_in", "normal").scale) is float
    assert repr(Normal(0, -0.0).std) == repr(Orthogonal(-0.0).gain) == repr(Sparse(-0.0, -0.0).fraction) == "0.0"
    assert Residual(ZEROS, np.int64(3)) == Residual(ZEROS, 3)


# ---- formulas ----------------------------------------------------------------------------------------


def fan_of(mode, fan_in, fan_out):
    """C13's fan, in float64: integers added and multiplied exactly, converted once."""
    return {
        "fan_in": lambda: float(fan_in),
        "fan_out": lambda: float(fan_out),
        "fan_avg": lambda: float(fan_in + fan_out) / 2,
        "fan_geo_avg": lambda: math.sqrt(float(fan_in * fan_out)),
    }[mode]()


@given(
    st.floats(1e-6, 1e6),
    st.sampled_from(initializers.MODES),
    st.integers(1, 2**40),
    st.integers(1, 2**23),
)
def test_variance_scaling_has_the_formulas_bits(scale, mode, fan_in, fan_out):
    """A fan converted before it is added; a variance rounded before it is scaled; 0.8796 multiplied."""
    fan = fan_of(mode, fan_in, fan_out)
    std = math.sqrt(scale / fan)
    shape = (fan_in, fan_out)
    assert VarianceScaling(scale, mode, "uniform").for_shape(shape) == CenteredUniform(math.sqrt(3 * scale / fan))
    assert VarianceScaling(scale, mode, "normal").for_shape(shape) == distributions.Normal(0.0, std)
    assert VarianceScaling(scale, mode, "truncated_normal").for_shape(shape) == distributions.TruncatedNormal(
        0.0, std / TRUNCATED_STD, -2.0, 2.0
    )


def test_the_truncated_standard_deviation():
    """Var = 1 - 4 phi(2) / (Phi(2) - Phi(-2)), against the constant."""
    inside = math.erf(math.sqrt(2))
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    assert math.sqrt(1 - 4 * density / inside) == pytest.approx(TRUNCATED_STD, rel=1e-15)


@pytest.mark.parametrize(
    ("initializer", "shape", "std"),
    [
        (xavier("normal"), (784, 10), 0.0502),
        (xavier("normal"), (10, 10), 0.3162),
        (kaiming("normal"), (784, 10), 0.0505),
        (kaiming("normal"), (10, 10), 0.4472),
        (Normal(std=0.02), (768, 768), 0.02),
        (lecun("normal"), (400, 3), 0.05),
    ],
)
def test_standard_deviations_of_known_layers(initializer, shape, std):
    """The second text's layers W1 and W2, with Xavier and with He."""
    assert round(initializer.for_shape(shape).std, 4) == std


def test_gpt2s_residual_projection():
    """transformers#47458: 0.02 / sqrt(2 * 12) = 0.0040825, not 0.02."""
    content = Residual(Normal(std=0.02), residual_layers=12).for_shape((768, 768))
    assert content == distributions.Normal(0.0, 0.02 / math.sqrt(24))
    assert round(content.std, 7) == 0.0040825


def test_famous_names_are_specialisations():
    for distribution in initializers.DISTRIBUTIONS:
        assert xavier(distribution) == VarianceScaling(1.0, "fan_avg", distribution)
        assert kaiming(distribution) == VarianceScaling(2.0, "fan_in", distribution)
        assert lecun(distribution) == VarianceScaling(1.0, "fan_in", distribution)
        assert xavier(distribution).name == f"xavier_{distribution}"
        assert (
            kaiming(distribution, "gelu").name == kaiming(distribution, "silu").name == f"kaiming_{distribution}"
        )
        assert lecun(distribution).name == f"lecun_{distribution}"
    assert kaiming("normal", "leaky_relu", 0.2) == VarianceScaling(2 / (1 + 0.2 * 0.2), "fan_in", "normal")
    assert initializers.glorot is xavier
    assert initializers.he is kaiming
    for famous, alias in [("xavier", "glorot"), ("kaiming", "he")]:
        for distribution in initializers.DISTRIBUTIONS:
            assert getattr(fastinit, f"{alias}_{distribution}") is getattr(fastinit, f"{famous}_{distribution}")


def test_the_reference_scale_of_this_file_is_the_contracts():
    """The formulas above against exact rationals, once."""
    assert Fraction(fan_of("fan_avg", 2**53, 1)) == Fraction(2**53, 2)
    assert fan_of("fan_geo_avg", 4, 9) == 6.0


CHANGES = [
    (lambda base: Scaled(base, 0.3), lambda x: x * 0.3),
    (lambda base: Residual(base, 3), lambda x: x / math.sqrt(6.0)),
    (lambda base: DepthScaled(base, 0), lambda x: x / math.sqrt(2.0)),
    (lambda base: DepthScaled(base, 4), lambda x: x / math.sqrt(10.0)),
    (lambda base: Scaled(Residual(base, 5), 0.7), lambda x: x / math.sqrt(10.0) * 0.7),
]


@pytest.mark.parametrize(("change", "formula"), CHANGES)
def test_a_change_of_spread_comes_last(change, formula):
    """Divided as C13 says, once, after everything else; the mean moves along, the bounds in sigmas do not."""
    for base in (xavier(), kaiming("normal"), lecun("truncated_normal"), Uniform(-1.0, 3.0), Normal(0.5, 0.25)):
        before, after = base.for_shape((7, 9)), change(base).for_shape((7, 9))
        assert type(after) is type(before)
        for name, value in dataclasses.asdict(before).items():
            fixed = name in ("lower", "upper")
            assert getattr(after, name) == (value if fixed else formula(value)), (base, name)
    assert change(Constant(2.0)).for_shape((3,)).value == formula(2.0)
    assert change(Orthogonal(2.0)).for_shape((3, 4)).gain == formula(2.0)
    assert change(DeltaOrthogonal(2.0)).for_shape((3, 4)).gain == formula(2.0)
    assert change(Identity(2.0)).for_shape((3, 4)).gain == formula(2.0)
    assert change(Sparse(0.5, 2.0)).for_shape((3, 4)).std == formula(2.0)


def test_gain_multiplies_last():
    """gain * sqrt(x) is not sqrt(gain**2 * x) in float64: the contract's order."""
    state = reference.state_before(0)
    for gain in (0.1, 5 / 3, math.sqrt(2)):
        limit = math.sqrt(3 * 2.0 / 7.0) * gain
        assert -fastinit.kaiming_uniform((7, 3), state, gain=gain).flat[0] == limit
        limit = math.sqrt(3 * 1.0 / 7.0) / math.sqrt(6.0) * gain
        assert -fastinit.initialize((7, 3), state, Residual(lecun(), 3), gain=gain).flat[0] == limit


@pytest.mark.parametrize(
    ("name", "arguments", "options", "limit"),
    [
        ("kaiming_uniform", (), {}, math.sqrt(6.0 / 5)),
        ("kaiming_uniform", ("relu", None, "fan_out"), {}, math.sqrt(6.0 / 7)),
        ("kaiming_uniform", ("tanh",), {}, math.sqrt(3 * (25 / 9) / 5)),
        ("kaiming_uniform", ("leaky_relu",), {"a": 0.2}, math.sqrt(3 * (2 / (1 + 0.2 * 0.2)) / 5)),
        ("kaiming_uniform", ("linear",), {"mode": "fan_geo_avg"}, math.sqrt(3.0 / math.sqrt(35.0))),
        ("lecun_uniform", (), {}, math.sqrt(3.0 / 5)),
        ("xavier_uniform", (), {}, math.sqrt(6.0 / 12)),
        ("variance_scaling", (0.3, "fan_out", "uniform"), {}, math.sqrt(3 * 0.3 / 7)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float8_e4m3fn"])
def test_uniform_schemes_draw_their_limits(name, arguments, options, limit, dtype):
    """The whole way to stored bits, for every scheme that needs no normal."""
    rng = fastinit.SplitMix64(17)
    weights = getattr(fastinit, name)((5, 7), rng, *arguments, dtype=dtype, **options)
    form = reference.FORMATS[dtype]
    expected = [reference.centered_weight(reference.draw(17, i), limit, form) for i in range(35)]
    assert_bits(weights, patterns(expected, dtype, (5, 7)), f"{name}{arguments} {options} {dtype}")
    assert rng.state == reference.advanced(17, 35)


def test_constants_take_no_draws_and_no_generator():
    for call, value in [(fastinit.zeros, 0.0), (fastinit.ones, 1.0)]:
        assert (call((2, 3), dtype="float32") == np.full((2, 3), value, np.float32)).all()
    rng = fastinit.SplitMix64(17)
    for initializer in (ZEROS, ONES, Constant(3.0), Identity(), Dirac(), Positions()):
        if initializer != Positions():
            fastinit.initialize((4, 4), rng, initializer)
    assert rng.state == 17


def test_initialize_takes_an_initializer_its_name_or_its_json():
    """Three spellings of one initializer that give other bits; a typing error taken for JSON."""
    expected = fastinit.xavier_uniform((2, 2), 17)
    for spelled in (xavier(), "xavier_uniform", "glorot_uniform", json.dumps(xavier().to_json())):
        assert np.array_equal(fastinit.initialize((2, 2), 17, spelled), expected)
    for wrong in (None, 3, Normal, xavier):
        with pytest.raises(TypeError, match=r"one of fastinit\.initializers"):
            fastinit.initialize((2, 2), 17, wrong)
    with pytest.raises(ValueError, match="did you mean 'xavier_uniform'"):
        fastinit.initialize((2, 2), 17, "xavier_unifrm")


def test_groups_said_twice_must_agree():
    """Two meanings of the groups, of which one is taken in silence."""
    shape = (8, 2, 3, 3)
    with pytest.raises(ValueError, match=r"groups=4 contradicts the groups=2 of Dirac"):
        fastinit.initialize(shape, 17, Dirac(2), layout="oihw", groups=4)
    expected = fastinit.dirac(shape, 4, layout="oihw")
    assert expected.sum() == 8
    for initializer, groups in ((Dirac(), 4), (Dirac(4), 4), (Dirac(4), 1)):
        assert np.array_equal(fastinit.initialize(shape, 17, initializer, layout="oihw", groups=groups), expected)
    with pytest.raises(ValueError, match=r"layout='oihw' contradicts the layout='hwio' of Orthogonal"):
        fastinit.initialize(shape, 17, Orthogonal(1.0, "hwio"), layout="oihw")


# ---- muP ---------------------------------------------------------------------------------------------

STD0 = math.sqrt(2 / 64)  # kaiming at 64 inputs


@pytest.mark.parametrize(
    ("shape", "base_shape", "std"),
    [
        ((64, 64), (64, 64), STD0),
        ((64, 256), (64, 64), STD0),
        ((256, 10), (64, 10), STD0),
        ((256, 256), (64, 64), STD0 / 2),
        ((128, 512), (64, 64), STD0 / math.sqrt(2)),
        ((32, 32), (64, 64), STD0 / math.sqrt(0.5)),
    ],
)
def test_mup_for_every_kind_of_tensor(shape, base_shape, std):
    """Table 8 of Tensor Programs V: only hidden weights shrink, by 1/sqrt(width)."""
    assert MuP(base_shape).for_shape(shape).std == pytest.approx(std, rel=1e-15)
    assert MuP(base_shape[::-1]).for_shape(shape[::-1], "oi").std == pytest.approx(std, rel=1e-15)


def test_mup_of_convolutions_vectors_and_misuse():
    conv = MuP((64, 64, 3, 3)).for_shape((128, 256, 3, 3), "oihw")
    assert conv.std == pytest.approx(math.sqrt(2 / (64 * 9)) / 2, rel=1e-15)
    assert MuP((64,), Normal(std=0.1)).for_shape((256,)) == distributions.Normal(0.0, 0.1)
    with pytest.raises(ValueError, match=r"only inputs and outputs have a width.* in h"):
        MuP((64, 64, 3, 3)).for_shape((64, 64, 5, 3), "oihw")
    with pytest.raises(ValueError, match="differ in their number of axes"):
        MuP((64, 64), ZEROS).for_shape((64, 64, 3), "oiw")
    with pytest.raises(DistributionError, match="not orthogonal"):
        MuP((64, 64), Orthogonal()).for_shape((64, 64))
    with pytest.raises(ValueError, match="base_shape must have no zero"):
        MuP((64, 0))
