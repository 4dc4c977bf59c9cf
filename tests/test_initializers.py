"""Initializers as data: formulas, worked values, JSON, plans, and refusals. Nothing here needs a normal draw."""

import copy
import dataclasses
import json
import math
import pickle
import struct
from fractions import Fraction

import host
import numpy as np
import pytest
import reference
from bits import assert_bits, patterns
from hypothesis import given
from hypothesis import strategies as st
from tables import REFUSED_INTEGERS

import fastinit
from fastinit import DistributionError, Plan, PlannedTensor, initializers
from fastinit._engine import distributions
from fastinit._engine import initializer as initializer_module
from fastinit._engine.distributions import CenteredUniform
from fastinit._engine.dtypes import BY_NAME
from fastinit._engine.fill import fill
from fastinit.functions import as_initializer
from fastinit.initializers import (
    ONES,
    ZEROS,
    Constant,
    DeltaOrthogonal,
    DepthScaled,
    Diagonal,
    Dirac,
    Identity,
    Initializer,
    MuP,
    Normal,
    Orthogonal,
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
    with pytest.raises(ValueError, match=r"groups=4 contradicts the groups=2 of Diagonal"):
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


# ---- plans -------------------------------------------------------------------------------------------

PLANNABLE = [
    (Constant(0.5), (3,), "io"),
    (ZEROS, (), "io"),
    (ONES, (3,), "io"),
    (Uniform(-0.25, 0.75), (3, 4), "io"),
    (xavier("uniform"), (3, 4), "io"),
    (Identity(0.5), (3, 4), "io"),
    (Dirac(2), (4, 2, 3, 3), "oihw"),
    (Residual(kaiming(), 12), (3, 4), "io"),
    (Scaled(Identity(), 0.5), (3, 4), "io"),
]


def planned(entries, dtype="float32"):
    """A plan of these (initializer, shape, layout), one after the other on one stream."""
    tensors, state = [], 17
    for number, (initializer, shape, layout) in enumerate(entries):
        content = initializer.for_shape(shape, layout)
        name = f"tensor.{number}"
        tensors.append(PlannedTensor(name, shape, BY_NAME[dtype], initializer.name, content, state))
        state = reference.advanced(state, tensors[-1].draws)
    return Plan(17, "own", "sequential", tensors)


def test_a_plan_carries_every_content_and_draws_it_as_the_functions_do():
    plan = planned(PLANNABLE)
    again = Plan.from_json(plan.to_json())
    assert again == plan
    rng = fastinit.SplitMix64(17)
    for name, (initializer, shape, layout) in zip(plan, PLANNABLE, strict=True):
        assert again[name].distribution == plan[name].distribution
        expected = fastinit.initialize(shape, rng, initializer, layout=layout, dtype="float32")
        assert np.array_equal(again.array(name), expected), name
        assert again[name].initializer == initializer.name
    assert rng.state == reference.advanced(17, plan.draws)


def test_constructions_in_a_plan_are_checked_when_it_is_made():
    """A layout that does not fit its tensor, found when a checkpoint is half written."""
    content = Dirac(2).for_shape((4, 2, 3, 3), "oihw")
    for shape in [(4, 2), (3, 2, 3, 3)]:
        tensor = PlannedTensor("conv.weight", shape, BY_NAME["float32"], "dirac", content, 17)
        with pytest.raises(fastinit.PlanError, match=r"conv\.weight"):
            Plan(17, "own", "named", [tensor])
    tensor = PlannedTensor("conv.weight", (4, 2, 3, 3), BY_NAME["int64"], "dirac", content, 17)
    with pytest.raises(fastinit.PlanError, match="int64"):
        Plan(17, "own", "named", [tensor])


@pytest.mark.parametrize(
    "change",
    [
        {"gain": "1"},
        {"gain": -1.0},
        {"gain": None},
        {"layout": "oo"},
        {"layout": 3},
        {"groups": 1.5},
        {"groups": 0},
        {"extra": 1},
        {"kind": "diagonals"},
    ],
    ids=repr,
)
def test_a_plans_json_with_a_broken_construction_is_refused(change):
    data = json.loads(planned([(Dirac(2), (4, 2, 3, 3), "oihw")]).to_json())
    data["tensors"]["tensor.0"]["content"].update(change)
    with pytest.raises(fastinit.PlanError):
        Plan.from_json(json.dumps(data))


def test_a_checkpoint_holds_constructions_and_is_verified(tmp_path):
    """Verification cuts tensors into chunks, flat: a construction must not lose its shape."""
    plan = planned(PLANNABLE)
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    assert not fastinit.verify_checkpoint(path)


def smallest_diagonal(shape, state):
    """min abs(R[j, j]) of the stream's normals, as the contract's bound has it."""
    matrix = fill(shape, distributions.Normal(0.0, 1.0), state)
    return np.abs(np.diag(np.linalg.qr(matrix, mode="r"))).min()


@pytest.mark.parametrize(("factor", "good"), [(0.5, True), (-0.9, True), (1.5, False), (-3.0, False)])
@pytest.mark.parametrize("column", [0, 3])
def test_verification_allows_orthogonal_weights_the_last_bits_of_another_lapack(tmp_path, factor, good, column):
    """The one scheme that is not bit-exact: without the bound no checkpoint could be verified elsewhere."""
    plan = planned([(Orthogonal(2.0), (6, 4), "io")], "float64")
    (tensor,) = plan.values()
    bound = 2.0 * 1e-12 / min(1.0, smallest_diagonal((6, 4), tensor.state))
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (6, 4))
    stored[5, column] += factor * bound
    stored.flush()
    found = fastinit.verify_checkpoint(path)
    assert bool(found) == good
    assert [mismatch.index for mismatch in found.mismatches] == ([] if good else [20 + column])


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("beyond", [False, True])
def test_the_last_weight_that_verification_allows_is_the_bound_itself(tmp_path, side, beyond):
    """A comparison that is off by one step of float64."""
    plan = planned([(Orthogonal(2.0), (6, 4), "io")], "float64")
    (tensor,) = plan.values()
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (6, 4))
    last = stored[2, 1] + side * (2.0 * 1e-12 / min(1.0, smallest_diagonal((6, 4), tensor.state)))
    stored[2, 1] = np.nextafter(last, side * math.inf) if beyond else last
    stored.flush()
    assert bool(fastinit.verify_checkpoint(path)) is not beyond


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2"])
def test_verification_of_narrow_orthogonal_weights_is_of_bits(tmp_path, dtype):
    """A step of a narrow dtype is far more than the bound, but for a weight that lies at a midpoint."""
    plan = planned([(Orthogonal(), (8, 8), "io")], dtype)
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    data = bytearray(path.read_bytes())
    data[-plan["tensor.0"].dtype.itemsize] ^= 1
    path.write_bytes(data)
    assert not fastinit.verify_checkpoint(path)


@pytest.mark.parametrize("content", [DeltaOrthogonal(), Sparse(0.5)])
def test_verification_of_exact_zeros_allows_nothing(tmp_path, content):
    """A delta kernel is zero beside its tap, and a sparse matrix is bit-exact: the bound is not theirs."""
    shape, layout = ((4, 4, 3), "oiw") if isinstance(content, DeltaOrthogonal) else ((4, 4), "io")
    plan = planned([(content, shape, layout)], "float64")
    (tensor,) = plan.values()
    path = tmp_path / "w.safetensors"
    fastinit.write_checkpoint(plan, path)
    stored = np.memmap(path, "<f8", "r+", path.stat().st_size - tensor.nbytes, (tensor.size,))
    stored[int(np.flatnonzero(stored == 0)[0])] = 1e-15
    stored.flush()
    assert not fastinit.verify_checkpoint(path)


# ---- refusals ----------------------------------------------------------------------------------------

NOT_SPREADS = [math.nan, math.inf, -math.inf, -1.0, -5e-324]
NOT_FINITE = [math.nan, math.inf, -math.inf]

REFUSED = [
    *[(lambda x, rng, out: fastinit.normal((2, 2), rng, 0.0, x, out=out), x, "std") for x in NOT_SPREADS],
    *[(lambda x, rng, out: fastinit.normal((2, 2), rng, x, 1.0, out=out), x, "mean") for x in NOT_FINITE],
    *[
        (lambda x, rng, out: fastinit.truncated_normal((2, 2), rng, 0.0, x, out=out), x, "std")
        for x in NOT_SPREADS
    ],
    *[
        (lambda x, rng, out: fastinit.truncated_normal((2, 2), rng, x, 1.0, out=out), x, "mean")
        for x in NOT_FINITE
    ],
    *[
        (lambda x, rng, out: fastinit.truncated_normal((2, 2), rng, 0.0, 1.0, *x, out=out), x, "lower < upper")
        for x in [(1.0, -1.0), (1.0, 1.0), (0.0, -0.0), (math.nan, 1.0), (0.0, math.nan), (math.inf, math.inf)]
    ],
    *[(lambda x, rng, out: fastinit.variance_scaling((2, 2), rng, x, out=out), x, "scale") for x in NOT_SPREADS],
    *[
        (lambda x, rng, out, f=f: getattr(fastinit, f)((2, 2), rng, gain=x, out=out), x, "gain")
        for x in NOT_SPREADS
        for f in ("xavier_normal", "kaiming_uniform", "lecun_truncated_normal", "orthogonal", "delta_orthogonal")
    ],
    *[(lambda x, rng, out: fastinit.sparse((2, 2), rng, 0.5, x, out=out), x, "std") for x in NOT_SPREADS],
    *[
        (lambda x, rng, out: fastinit.sparse((2, 2), rng, x, out=out), x, "fraction")
        for x in [*NOT_SPREADS, 1.5, math.nextafter(1.0, 2.0)]
    ],
    (lambda x, rng, out: fastinit.sparse((4,), rng, 0.5, out=out), None, r"shape \(4,\) has 1 axes"),
    (lambda x, rng, out: fastinit.sparse((2, 2, 1), rng, 0.5, out=out), None, r"has 3 axes"),
    (lambda x, rng, out: fastinit.dirac((2, 2), 3, out=out), None, "groups=3 must divide the 2 outputs"),
    (lambda x, rng, out: fastinit.dirac((2, 2), 0, out=out), None, "groups=0 must divide"),
    (lambda x, rng, out: fastinit.identity((2, 2, 1), layout="oiw", out=out), None, "use dirac"),
    (lambda x, rng, out: fastinit.identity((2,), out=out), None, "1-d tensor"),
    (lambda x, rng, out: fastinit.delta_orthogonal((3, 2), rng, out=out), None, "inputs <= outputs.*3 and 2"),
    (lambda x, rng, out: fastinit.kaiming_normal((2, 2), rng, "relu", mode="fan", out=out), None, "unknown mode"),
    (lambda x, rng, out: fastinit.variance_scaling((2, 2), rng, 1.0, "fan_in", "norm", out=out), None, "'normal'"),
    (
        lambda x, rng, out: fastinit.orthogonal((2, 2), rng, gain=1e10, dtype="float16"),
        None,
        "finite range of float16",
    ),
    (lambda x, rng, out: fastinit.sparse((2, 2), rng, 0.5, 60.0, dtype="float8_e4m3fn"), None, "finite range"),
]


@pytest.mark.parametrize(("call", "value", "message"), REFUSED)
def test_a_refused_request_names_its_fault_and_changes_nothing(call, value, message):
    """numpy#14897, #13189, pytorch#49998: a nan or negative scale that samples silently."""
    rng, out = fastinit.SplitMix64(17), np.full((2, 2), 7.0)
    with pytest.raises(ValueError, match=message):
        call(value, rng, out)
    assert rng.state == 17
    assert (out == 7).all()


@pytest.mark.parametrize("value", [True, "1", None, [1.0], 1j])
def test_numbers_are_numbers(value):
    for call in (Constant, Orthogonal, Identity, lambda x: Normal(0.0, x), lambda x: Scaled(ZEROS, x), Sparse):
        with pytest.raises(TypeError, match="must be a number"):
            call(value)


@pytest.mark.parametrize(("value", "error"), REFUSED_INTEGERS, ids=lambda value: repr(value)[:20])
def test_counts_are_counts(value, error):
    counted = () if value is None else (Dirac,)  # None: the groups of the call
    for call in (*counted, lambda n: Residual(ZEROS, n), lambda n: DepthScaled(ZEROS, n), lambda n: MuP((n, 2))):
        with pytest.raises(error):
            call(value)


@pytest.mark.parametrize("base", [None, "zeros", Normal, Positions()])
def test_a_base_is_an_initializer_of_weights(base):
    for call in (lambda b: Residual(b, 1), lambda b: Scaled(b, 1.0), lambda b: DepthScaled(b, 1)):
        with pytest.raises(TypeError, match="base must be an initializer"):
            call(base)


def test_a_misspelt_option_is_refused():
    with pytest.raises(TypeError, match="thread"):
        fastinit.kaiming_uniform((2, 2), 17, thread=2)


def test_the_reference_scale_of_this_file_is_the_contracts():
    """The formulas above against exact rationals, once."""
    assert Fraction(fan_of("fan_avg", 2**53, 1)) == Fraction(2**53, 2)
    assert fan_of("fan_geo_avg", 4, 9) == 6.0


# ---- what the functions take -------------------------------------------------------------------------

AXES = {"dtype", "out", "index", "layout", "groups", "threads"}
FUNCTIONS = {
    "uniform": (fastinit.uniform, (17,)),
    "random": (fastinit.random, (17,)),
    "normal": (fastinit.normal, (17,)),
    "truncated_normal": (fastinit.truncated_normal, (17,)),
    "constant": (fastinit.constant, (0.5,)),
    "zeros": (fastinit.zeros, ()),
    "ones": (fastinit.ones, ()),
    "sparse": (fastinit.sparse, (17, 0.5)),
    "variance_scaling": (fastinit.variance_scaling, (17,)),
    "identity": (fastinit.identity, ()),
    "orthogonal": (fastinit.orthogonal, (17,)),
    "delta_orthogonal": (fastinit.delta_orthogonal, (17,)),
    "dirac": (fastinit.dirac, ()),
    "initialize": (fastinit.initialize, (17, Normal())),
    **{
        f"{family}_{shape}": (getattr(fastinit, f"{family}_{shape}"), (17,))
        for family in ("xavier", "kaiming", "lecun")
        for shape in initializers.DISTRIBUTIONS
    },
}
FANS = {name for name in FUNCTIONS if name.startswith(("xavier", "kaiming", "lecun"))}
GAINS = FUNCTIONS.keys() - {"constant", "zeros", "ones", "dirac"}
"""All that have a spread, or a diagonal."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_takes_the_same_options(name):
    """layout= refused by one and taken by the next; a gain= that leaks through and scales in silence."""
    function, arguments = FUNCTIONS[name]
    plain = function((4, 4), *arguments)
    out = np.empty((2, 4), np.float32)
    options = {"dtype": "float32", "index": slice(2), "layout": "oi", "groups": 1, "threads": 1}
    assert options.keys() | {"out"} == AXES
    assert function((4, 4), *arguments, out=out, **options) is out
    if name not in FANS | {"variance_scaling", "orthogonal", "delta_orthogonal"}:
        assert np.array_equal(out, plain[:2].astype(np.float32))
    for option, takers in [
        ("gain", GAINS),
        ("fan_in", FANS | {"variance_scaling", "initialize"}),
        ("fan_out", FANS | {"variance_scaling", "initialize"}),
        ("thread", set()),
    ]:
        if name in takers:
            function((4, 4), *arguments, **{option: 2})
        else:
            with pytest.raises(TypeError, match=rf"{name}\(\).*'{option}'"):
                function((4, 4), *arguments, **{option: 2})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_the_axes_mean_is_checked_by_every_function(name):
    function, arguments = FUNCTIONS[name]
    for options, error, message in [
        ({"layout": "oihw"}, ValueError, "names 4 axes"),
        ({"layout": "ix"}, ValueError, "must name each axis once"),
        ({"layout": None}, TypeError, "layout must be a str"),
        ({"groups": 0}, ValueError, "groups=0 must divide"),
        ({"groups": 3}, ValueError, "groups=3 must divide"),
        ({"groups": True}, TypeError, "groups must be an integer"),
        ({"groups": 1.0}, TypeError, "groups must be an integer"),
    ]:
        with pytest.raises(error, match=message):
            function((4, 4), *arguments, **options)
    if name in FANS:
        for options in [{"layout": "oihw"}, {"groups": 0}, {"groups": 3}]:
            with pytest.raises(ValueError, match=r"names 4 axes|must divide"):
                function((4, 4), *arguments, fan_in=3, fan_out=4, **options)
        assert function((4,), *arguments, fan_in=3, fan_out=4).shape == (4,)


@pytest.mark.parametrize(
    ("seed", "error"),
    [(True, TypeError), (None, TypeError), (1.5, TypeError), (-1, ValueError), (2**64, ValueError)],
)
def test_a_seed_is_checked_before_fans_and_shapes(seed, error):
    """A zero fan reported first: the fix of one mistake uncovers the next."""
    for call in [
        lambda: fastinit.xavier_uniform((3, 3), seed, fan_in=0),
        lambda: fastinit.xavier_uniform((2**63, 2**63), seed),
        lambda: fastinit.uniform((2**63, 2**63), seed),
        lambda: fastinit.kaiming_normal((3,), seed),
        lambda: fastinit.orthogonal((3,), seed),
    ]:
        with pytest.raises(error, match="rng"):
            call()


@pytest.mark.parametrize(
    "gain", [True, "1", None, np.array([1.0, 2.0]), np.complex128(1), np.timedelta64(1)], ids=repr
)
def test_a_gain_is_a_number_of_every_function(gain):
    """True taken for 1; numpy's sentence about the truth of an array."""
    for function, arguments in [(fastinit.initialize, (17, Normal())), (fastinit.xavier_normal, (17,))]:
        with pytest.raises(TypeError, match="gain must be a number"):
            function((2, 2), *arguments, gain=gain)


# ---- a spread of 0 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initializer", "value"),
    [
        (Scaled(Uniform(-1.0, 1.0), 0.0), 0.0),
        (Scaled(Uniform(1.0, 2.0), 0.0), 0.0),
        (Scaled(Uniform(1e-200, 2e-200), 1e-200), 0.0),
        (Scaled(Uniform(1.0, math.nextafter(1.0, 2.0)), 1 / 3), 1 / 3),
        (Scaled(Normal(2.0, 0.0), 0.25), 0.5),
        (Scaled(xavier("uniform"), 0.0), 0.0),
    ],
)
def test_bounds_that_meet_give_their_value_and_take_their_draws(initializer, value):
    """A scale of 0 refused as an interval, or draws that are not taken."""
    rng = fastinit.SplitMix64(17)
    weights = fastinit.initialize((4, 2), rng, initializer)
    assert weights.tobytes() == np.full((4, 2), value).tobytes()
    assert rng.state == reference.advanced(17, 8)
    if value == 0:
        assert not fastinit.initialize((4, 2), 17, initializer.base, gain=0).any()


def test_a_host_that_flushes_subnormals_makes_no_bounds_meet():
    scaled = Scaled(Uniform(-1.0, 1.0), 1e-310)
    expected = scaled.for_shape((2, 2))
    with host.flushing():
        found = scaled.for_shape((2, 2))
    assert type(found) is distributions.Uniform
    assert struct.pack("<2d", *found.parameters) == struct.pack("<2d", *expected.parameters)


def test_positive_and_negative_zero_are_two_constants():
    """Two plans that compare equal and store other bits."""
    for cls in (Constant, distributions.Constant):
        assert cls(0.0) != cls(-0.0)
        assert cls(0.5) == cls(0.5) != cls(-0.5)
        assert len({cls(0.5), cls(0.5), cls(1.0)}) == 2
        assert cls(0.0) != 0.0


# ---- mup, positions and text at their edges ----------------------------------------------------------


def test_mup_of_an_empty_tensor_is_an_empty_tensor():
    rng = fastinit.SplitMix64(17)
    for shape in [(0, 64), (64, 0), (0, 0), (0,)]:
        base_shape = (64,) * len(shape)
        assert fastinit.initialize(shape, rng, MuP(base_shape, Normal())).shape == shape
    assert rng.state == 17


def test_mup_of_groups():
    """The base's groups are not the wide tensor's where a kernel is depthwise."""
    depthwise = MuP((64, 1, 3, 3)).for_shape((256, 1, 3, 3), "oihw", groups=256)
    assert depthwise.std == pytest.approx(math.sqrt(2 / 9), rel=1e-15)
    grouped = MuP((64, 16, 3, 3)).for_shape((128, 32, 3, 3), "oihw", groups=4)
    assert grouped.std == pytest.approx(math.sqrt(2 / (16 * 9)) / math.sqrt(2), rel=1e-15)
    with pytest.raises(ValueError, match=r"groups=64 must divide the 32 channels of base_shape"):
        MuP((32, 4, 3, 3)).for_shape((128, 2, 3, 3), "oihw", groups=64)
    with pytest.raises(ValueError, match="differ in their number of axes"):
        MuP((64, 1)).for_shape((256, 1, 3, 3), "oihw", groups=256)


def test_positions_are_no_weights():
    with pytest.raises(ValueError, match="not weights"):
        fastinit.initialize((3,), 17, Positions(), gain=2)
    with pytest.raises(ValueError, match="0-d"):
        Positions().for_shape(())
    with pytest.raises(TypeError, match="base must be an initializer of weights"):
        MuP((3,), Positions())


def test_text_that_is_no_initializer_is_refused_in_words():
    deep = '{"kind": "residual", "residual_layers": 1, "base": ' * 100_000
    nested = {"kind": "zeros"}
    for _ in range(100_000):
        nested = {"kind": "scaled", "factor": 1.0, "base": nested}
    for text in (5, None, b"zeros"):
        with pytest.raises(TypeError, match="initializer must be one of"):
            as_initializer(text)
    with pytest.raises(ValueError, match="JSON"):
        as_initializer(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        Initializer.from_json(nested)
    with pytest.raises(ValueError, match="'std' occurs twice"):
        as_initializer('{"kind": "normal", "mean": 0, "std": 1, "std": 2}')
    with pytest.raises(ValueError, match="NaN is not JSON"):
        as_initializer('{"kind": "constant", "value": NaN}')


# ---- what an error advises ---------------------------------------------------------------------------


def test_errors_say_what_helps():
    """Advice to pass options that the function refuses; words that are not the caller's."""
    for function, arguments in [(fastinit.orthogonal, (17,)), (fastinit.identity, ()), (fastinit.dirac, ())]:
        with pytest.raises(ValueError, match="1-d tensor") as caught:
            function((3,), *arguments)
        assert "fan_in=" not in str(caught.value)
    with pytest.raises(ValueError, match="both fan_in= and fan_out="):
        fastinit.xavier_uniform((3,), 17)
    with pytest.raises(ValueError, match="at most 64 axes"):
        fastinit.normal((1,) * 65, 17)
    with pytest.raises(ValueError, match=r'relu has no parameter, but a=0.3.*activation="leaky_relu"'):
        fastinit.kaiming_uniform((3, 3), 17, a=0.3)
    assert kaiming("normal", "relu", a=0) == kaiming("normal")
    with pytest.raises(ValueError, match=r"out has shape \(4,\), but the tensor has shape \(3,\)"):
        fastinit.normal((3,), 17, out=np.empty(4))
    with pytest.raises(ValueError, match=r"fraction must lie in \[0, 1\], got -0.1"):
        fastinit.sparse((3, 3), 17, -0.1)

    class Tensor:
        def numpy(self):
            raise AssertionError

    with pytest.raises(TypeError, match=r"\.numpy\(\)"):
        fastinit.normal((3,), 17, out=Tensor())


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (Fraction(10**400), ValueError),
        (10**400, ValueError),
        (np.complex64(1), TypeError),
        (np.array(1j), TypeError),
        (np.timedelta64(3), TypeError),
        (np.datetime64(3, "s"), TypeError),
        (np.array("1.5"), TypeError),
        (np.array(True), TypeError),
    ],
    ids=repr,
)
def test_what_is_no_float64_is_refused(value, error):
    """float() of them discards a part, or a unit; or an error about operator.index."""
    with pytest.raises(error, match=r"mean (must be a number|is too large)"):
        Normal(value, 1.0)
