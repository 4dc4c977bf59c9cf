"""Initializers at their edges: what is refused, what every function takes, and spreads of 0."""

import json
import math
import struct
from fractions import Fraction

import host
import numpy as np
import pytest
import reference
from tables import REFUSED_INTEGERS

import fastinit
from fastinit import DistributionError, initializers
from fastinit._engine import distributions
from fastinit.functions import as_initializer
from fastinit.initializers import (
    ZEROS,
    Constant,
    DepthScaled,
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
    Uniform,
    kaiming,
    xavier,
)

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

    with pytest.raises(TypeError, match="fill a new array"):
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


# ---- distributions asked directly --------------------------------------------------------------------


@pytest.mark.parametrize(
    "initializer",
    [
        Scaled(Scaled(Uniform(-1.0, 1.0), 1e308), 1e-308),
        Residual(Scaled(Uniform(-1.0, 1.0), 1e308), 2),
    ],
)
def test_an_interval_too_wide_on_the_way_gives_no_constant(initializer):
    """high - low overflows between two factors: the bounds have not met, and the weights are not one value."""
    weights = fastinit.initialize(3, 17, initializer)
    assert len(set(weights.tolist())) == 3


@pytest.mark.parametrize("call", [
    lambda rng: fastinit.initialize((2, 2), rng, Scaled(Uniform(-1e300, 1e300), 1e8)),
    lambda rng: fastinit.initialize((2, 2), rng, Uniform(-1.0, 1.0), gain=1e308),
    lambda rng: fastinit.uniform((2, 2), rng, -1e308, 1e308, gain=0.99),
    lambda rng: fastinit.uniform((2, 2), rng, math.inf, 1.0),
    lambda rng: fastinit.uniform((2, 2), rng, math.nan, 1.0),
    lambda rng: fastinit.variance_scaling((2, 2), rng, 1.7e308, "fan_in", "uniform"),
])  # fmt: skip
def test_what_no_float64_holds_is_a_distribution_error(call):
    rng = fastinit.SplitMix64(17)
    with pytest.raises(DistributionError):
        call(rng)
    assert rng.state == 17


def test_a_negative_factor_is_refused():
    for distribution in (Uniform(0.0, 1.0), Normal(), Constant(1.0), Orthogonal()):
        with pytest.raises(ValueError, match="a factor must be >= 0"):
            distribution.rescaled(-1.0)


def test_positions_count_the_axis_they_are_asked_for():
    assert json.dumps(Positions(np.int64(5)).to_json()) == '{"kind": "positions", "length": 5}'
    assert Positions(4).for_shape((2, 4)) == Positions().for_shape((2, 4)) == Positions(4)
    with pytest.raises(ValueError, match="counts 3 positions, but the last axis"):
        Positions(3).for_shape((2, 4))


def test_moments_of_a_whole_tensor_need_its_shape():
    for distribution in (Sparse(0.5), Orthogonal()):
        with pytest.raises(ValueError, match="shape"):
            distribution.variance()
    assert Sparse(0.5, 2.0).variance((4, 4)) == pytest.approx(2.0)
    assert Orthogonal(2.0).variance((8, 4)) == pytest.approx(0.5)
    assert Sparse(1.0, 2.0).support == (0.0, 0.0)


def test_nobody_takes_over_the_kind_of_another():
    """A class of a user's that makes every later plan unreadable."""
    with pytest.raises(TypeError, match="the kind 'normal' is that of Normal; give Mine another"):
        type("Mine", (Initializer,), {"kind": "normal", "__slots__": ()})
    assert Initializer.from_json({"kind": "normal", "mean": 0, "std": 1}) == Normal()


@pytest.mark.parametrize(("call", "error"), [
    (lambda: fastinit.uniform((-3,), 17, 2.0, 1.0), "shape entry"),
    (lambda: fastinit.normal((1.5,), 17, 0.0, -1.0), "shape entry"),
    (lambda: fastinit.normal((-3,), "x", 0.0, -1.0), "rng"),
    (lambda: fastinit.xavier_uniform((3, 3), 17, fan_in=0, gain=-1), "gain"),
])  # fmt: skip
def test_types_and_ranges_come_before_all_else(call, error):
    """C17: the fix of one mistake uncovers the next."""
    with pytest.raises((TypeError, ValueError), match=error):
        call()
