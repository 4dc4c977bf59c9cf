"""`xavier_uniform` as a caller meets it: values, targets, parts, refusals, and the generator it leaves behind."""

import math
import signal
import threading
import time
from decimal import Decimal
from fractions import Fraction

import host
import numpy as np
import pytest
import reference
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns
from tables import EDGE_DRAWS, REFUSED_INTEGERS, STATES

import fastinit
from fastinit import (
    AllocationFailed,
    DistributionError,
    FanSumOverflow,
    ShapeProductOverflow,
    SplitMix64,
    initializers,
)
from fastinit import xavier_uniform as xavier
from fastinit.functions import as_initializer, as_text


def expected_bits(shape, state, dtype="float64", gain=1.0):
    """The whole tensor by the reference; the last two axes are rows and columns, the first ones a stack."""
    form = reference.FORMATS[dtype]
    limit = reference.xavier_scale(*shape[-2:])[2] * gain
    weights = [reference.centered_weight(reference.draw(state, i), limit, form) for i in range(math.prod(shape))]
    return patterns(weights, dtype, shape)


# ---- values ------------------------------------------------------------------------------------------


def test_worked_values_of_seed_17():
    weights = xavier((2, 2), 17)
    assert weights.round(12).tolist() == [[0.004950883736, -0.265932089217], [-0.420504358848, -0.676313443233]]
    assert xavier((2, 2), 17).tobytes() == weights.tobytes(), "a replay differs"
    assert not (xavier((2, 2), 18) == weights).any(), "seed 18 repeats a weight of seed 17"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("state", STATES)
def test_bits_for_every_dtype_and_state(state, dtype):
    """The whole path: scale, gain, kernel, rounding, interval."""
    for shape, gain in [((5, 7), 1.0), ((2, 3), 5 / 3), ((4, 4), math.sqrt(2)), ((16, 1), 0.1)]:
        assert_bits(
            xavier(shape, SplitMix64(state), gain=gain, dtype=dtype),
            expected_bits(shape, state, dtype, gain),
            f"xavier_uniform({shape}, state {state:#x}, gain={gain}, dtype={dtype})",
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gain", [1.0, 0.1, 1 / 3, 5 / 3, 1e-2])
def test_the_interval_holds_as_a_user_tests_it(gain, dtype):
    """w < limit in float64, and w < limit converted to the dtype: at both ends of the draws."""
    limit = reference.xavier_scale(3, 4)[2] * gain
    in_dtype = reference.narrowed(limit, reference.FORMATS[dtype])
    for draw in EDGE_DRAWS:
        w = float(xavier((3, 4), reference.state_before(draw), gain=gain, dtype=dtype)[0, 0])
        assert -limit <= w < limit, f"draw {draw:#x}"
        assert w < in_dtype, f"draw {draw:#x}"


@pytest.mark.parametrize("gain", [1e-291, 1e-292, 1e-293, 1e-300, 1e-308, 1e-310, 5e-324])
def test_tiny_gains_keep_the_bits_of_the_formula(gain):
    """A limit below 2**-970, where one multiply by limit * 2**-52 would round twice."""
    limit = reference.xavier_scale(3, 4)[2] * gain
    for state in (17, *map(reference.state_before, EDGE_DRAWS)):
        weights = xavier((3, 4), state, gain=gain)
        assert_bits(weights, expected_bits((3, 4), state, gain=gain), f"gain {gain}, state {state:#x}")
        assert (weights >= -limit).all()
        assert (weights < limit).all()


def test_layout_changes_the_limit_and_not_the_draws():
    """The order of weights must not depend on what the axes are called."""
    matrix, conv = xavier((9, 32), 17), xavier((3, 3, 1, 32), 17, layout="hwio")
    scale = reference.xavier_scale(9, 288)[2] / reference.xavier_scale(9, 32)[2]
    assert np.allclose(conv.reshape(9, 32), matrix * scale, rtol=1e-15, atol=0)
    assert (xavier((9, 32), 17, layout="oi") == matrix).all()


@pytest.mark.parametrize("mode", host.ROUNDING)
def test_a_hosts_rounding_mode_changes_no_weight(mode):
    """From the fans to the stored bits, with a gain that needs rounding."""
    shapes = [(3, 4), (2, 5), (7, 9), (10, 1)]
    with host.rounding(mode):
        found = [xavier(shape, 17, gain=5 / 3, dtype="float32") for shape in shapes]
    for shape, weights in zip(shapes, found, strict=True):
        assert_bits(weights, expected_bits(shape, 17, "float32", 5 / 3), f"{shape}, rounding {mode}")


def test_a_hosts_flush_to_zero_changes_no_weight():
    """A subnormal gain that is flushed to 0 on its way down."""
    with host.flushing():
        found = xavier((3, 4), 17, gain=1e-310)
    assert_bits(found, expected_bits((3, 4), 17, gain=1e-310), "gain=1e-310, flushing")


# ---- shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (0, 2**20)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_tensors_consume_nothing_and_are_left_alone(shape, dtype):
    """pytorch PR#56505, jax#35096, DeepCTR-Torch#36: a division by a zero fan."""
    rng = SplitMix64(17)
    assert xavier(shape, rng, dtype=dtype).shape == shape
    out = np.zeros(shape, NUMPY[dtype])
    assert xavier(shape, rng, out=out) is out
    assert xavier(None, rng, out=out) is out
    assert rng.state == 17


def test_an_empty_part_still_consumes_the_wholes_draws():
    """A rank without a shard falls out of step."""
    rng = SplitMix64(17)
    assert xavier((3, 4), rng, index=slice(2, 2)).shape == (0, 4)
    assert rng.state == reference.advanced(17, 12)


@pytest.mark.parametrize(("shape", "rank"), [((), 0), ((5,), 1), (5, 1), (0, 1), ([7], 1)])
def test_shapes_without_fans_are_refused_by_rank(shape, rank):
    rng = SplitMix64(17)
    with pytest.raises(ValueError, match=f"{rank}-d tensor"):
        xavier(shape, rng)
    assert rng.state == 17


@pytest.mark.parametrize(
    ("shape", "layout", "error", "facts"),
    [
        ((2**63, 1), "io", AllocationFailed, (2**63,)),
        ((2**32, 2**31), "io", AllocationFailed, (2**63,)),
        ((2**60, 1), "io", AllocationFailed, (2**60,)),
        ((2**62, 2), "io", AllocationFailed, (2**63,)),
        ((2**32 - 1, 2**32 + 1), "io", AllocationFailed, (2**64 - 1,)),
        ((2**32, 2**32), "io", ShapeProductOverflow, (2**32, 2**32)),
        ((2**33, 2**32), "io", ShapeProductOverflow, (2**33, 2**32)),
        ((2**33, 2**32), "oi", ShapeProductOverflow, (2**32, 2**33)),
        ((2**62, 2, 2), "eio", ShapeProductOverflow, (2, 2)),
        ((2**63, 2), "io", ShapeProductOverflow, (2**63, 2)),
        ((2**64 - 1, 1), "io", FanSumOverflow, (2**64 - 1, 1)),
        ((2**63, 2**63), "io", FanSumOverflow, (2**63, 2**63)),
        ((2, 2, 2**63), "iod", FanSumOverflow, (2**64, 2**64)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float8_e5m2"])
def test_huge_shapes_are_refused_in_order_and_never_crash(shape, layout, error, facts, dtype):
    """A product that wraps to something small, memory written past its end, or an OverflowError from numpy."""
    rng = SplitMix64(17)
    with pytest.raises(error) as caught:
        xavier(shape, rng, layout=layout, dtype=dtype, gain=2.0**20)  # a limit that fits every dtype
    assert type(caught.value) is error
    assert caught.value.args == facts
    assert rng.state == 17


def test_overflow_is_the_error_before_storage_is():
    """The first failing check: an out of the wrong shape, and an index, come after the product."""
    for extra in ({"out": np.zeros((2, 2))}, {"index": (0, 0)}):
        with pytest.raises(ShapeProductOverflow):
            xavier((2**32, 2**32), 17, **extra)


def test_a_part_of_a_tensor_no_machine_could_hold():
    """Positions past 2**63; the whole's draws are consumed all the same."""
    rng, shape, index = SplitMix64(2**64 - 1), (2**32 - 1, 2**32 + 1), (slice(-2, None), slice(-1, -4, -2))
    part, positions = reference.cut((1, *shape), (0, -1, slice(-1, -4, -2)))
    found = xavier(shape, rng, index=index)
    limit = reference.xavier_scale(*shape)[2]
    last_row = [reference.centered_weight(reference.draw(2**64 - 1, i), limit) for i in positions]
    assert found.shape == (2, *part)
    assert_bits(found[1], patterns(last_row, "float64"), f"{shape}[{index}]")
    assert rng.state == reference.advanced(2**64 - 1, 2**64 - 1)


@pytest.mark.parametrize(("value", "error"), REFUSED_INTEGERS, ids=lambda value: repr(value)[:20])
def test_shape_entries_are_integers(value, error):
    """(2.0, 2) truncated, (-1, 2) taken as unknown, True as 1, an OverflowError from numpy."""
    rng = SplitMix64(17)
    for shape in [(value, 2), (2, value), [2, value], (0, value)]:
        with pytest.raises(error, match="a shape entry must be"):
            xavier(shape, rng)
    if value is not None and not isinstance(value, (str, bytes)):
        with pytest.raises(error, match="shape must be"):
            xavier(value, rng)
    assert rng.state == 17


@pytest.mark.parametrize("shape", ["22", b"22", 2.5, object()])
def test_shapes_are_integers_or_tuples_of_them(shape):
    with pytest.raises(TypeError, match="shape must be an integer"):
        xavier(shape, 17)


def test_shapes_of_any_integer_type():
    expected = expected_bits((3, 4), 17)
    for shape in [[3, 4], (np.int8(3), np.uint64(4)), np.array([3, 4]), iter((3, 4)), np.zeros((3, 4)).shape]:
        assert_bits(xavier(shape, 17), expected, f"shape {shape!r}")


# ---- rng ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", STATES)
def test_an_int_seed_is_a_new_generator(seed):
    """An int seed that is hashed or moved on, or whose second use continues the first."""
    for kind in (int, np.uint64):
        assert_bits(xavier((3, 4), kind(seed)), expected_bits((3, 4), seed), f"seed {seed}")
    assert_bits(xavier((3, 4), SplitMix64(seed)), expected_bits((3, 4), seed), f"generator {seed}")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *REFUSED_INTEGERS,
        (np.random.default_rng(0), TypeError),
        (np.random.PCG64(0), TypeError),
        (np.random, TypeError),
        ([17], TypeError),
        (np.array([17]), TypeError),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_wrong_generators_and_seeds_are_refused(value, error):
    """A global generator used in silence, or a float seed truncated."""
    out = np.zeros((2, 2))
    with pytest.raises(error, match="rng"):
        xavier((2, 2), value, out=out)
    assert not out.any()


def test_a_numpy_generator_is_refused_and_says_what_to_pass():
    rng = SplitMix64(17)
    with pytest.raises(TypeError, match="pass its bit_generator"):
        xavier((2, 2), np.random.Generator(rng))
    assert rng.state == 17


def test_tensors_drawn_in_a_row_continue_the_stream():
    """Draws lost or repeated between two tensors, a part, and numpy's own use of the generator."""
    rng = SplitMix64(17)
    xavier((2, 3), rng)
    xavier((4, 5), rng, index=(0, 0))
    xavier((0, 9), rng)
    assert rng.state == reference.advanced(17, 26)
    assert np.random.Generator(rng).random() == reference.unit(reference.draw(17, 26))
    assert_bits(xavier((3, 3), rng), expected_bits((3, 3), reference.advanced(17, 27)), "after a numpy draw")


def test_threads_that_share_a_generator_get_different_draws():
    """Two fills that read the state before either commits: equal tensors."""
    rng, shape, count = SplitMix64(17), (600, 500), 6
    found = [None] * count
    start = threading.Barrier(count)

    def work(i):
        start.wait()
        found[i] = xavier(shape, rng)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    size = math.prod(shape)
    in_turn = {xavier(shape, reference.advanced(17, i * size)).tobytes() for i in range(count)}
    assert {weights.tobytes() for weights in found} == in_turn
    assert rng.state == reference.advanced(17, count * size)


# ---- gain --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", [0, 0.0, -0.0, np.float32(0)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_gain_of_zero_gives_zeros_and_consumes_its_draws(gain, dtype):
    """-0.0 refused as negative, or -0.0 weights, or the next tensor moved."""
    rng = SplitMix64(17)
    assert not bits_of(xavier((3, 4), rng, gain=gain, dtype=dtype)).any()
    assert rng.state == reference.advanced(17, 12)


@pytest.mark.parametrize("gain", [2, np.int64(2), np.float32(2), np.array(2.0), Fraction(2), Decimal(2)])
def test_gains_of_any_number_type(gain):
    assert_bits(xavier((3, 4), 17, gain=gain), expected_bits((3, 4), 17, gain=2.0), f"gain {gain!r}")


@pytest.mark.parametrize(
    ("gain", "error"),
    [
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-math.inf, ValueError),
        (-1.0, ValueError),
        (-5e-324, ValueError),
        (np.float32("nan"), ValueError),
        (True, TypeError),
        (np.True_, TypeError),
        ("1", TypeError),
        (b"1", TypeError),
        (None, TypeError),
        (1j, TypeError),
        ([1.0], TypeError),
        (np.array([1.0, 2.0]), TypeError),
        (10**400, ValueError),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shape", [(2, 2), (0, 2)])
def test_gains_no_spread_can_have_are_refused(gain, error, shape):
    """numpy#14897, pytorch#49998: nan or a negative scale sampled in silence; also for an empty tensor."""
    rng, out = SplitMix64(17), np.zeros(shape)
    with pytest.raises(error):
        xavier(shape, rng, gain=gain, out=out)
    assert rng.state == 17
    assert not out.any()


def test_no_error_asks_for_a_dtype_wider_than_the_widest():
    with pytest.raises(DistributionError, match="no dtype is wider: change the parameters"):
        fastinit.normal(2, 17, 0.0, 1e308)
    with pytest.raises(DistributionError, match="use a wider dtype"):
        fastinit.normal(2, 17, 0.0, 1e308, dtype="float32")


@pytest.mark.parametrize(
    ("gain", "dtype", "reason"),
    [
        (1e308, "float64", None),
        (1.7e308, "float64", "finite range of float64"),
        (1e39, "float32", "finite range of float32; use a wider dtype"),
        (60000, "float16", "finite range of float16"),
        (400, "float8_e4m3fn", "finite range of float8_e4m3fn"),
        (50000, "float8_e5m2", "finite range of float8_e5m2"),
        (1e-60, "float32", "no float32 value"),
        (1e-60, "bfloat16", "no bfloat16 value"),
        (1e-9, "float16", "no float16 value"),
        (1e-4, "float8_e4m3fn", "no float8_e4m3fn value"),
    ],
)
def test_limits_a_dtype_cannot_hold_are_refused(gain, dtype, reason):
    """inf weights, or a tensor of zeros in place of an error."""
    rng = SplitMix64(17)
    if reason is None:
        assert np.isfinite(xavier((2, 2), rng, gain=gain, dtype=dtype)).all()
        return
    with pytest.raises(DistributionError, match=reason):
        xavier((2, 2), rng, gain=gain, dtype=dtype)
    assert rng.state == 17


# ---- interruption ------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs a signal sent to the main thread")
def test_an_interrupted_fill_leaves_the_generator_as_it_was():
    """Ctrl-C in a long fill: ignored until its end, or half of the draws consumed."""
    untouched = 0xFF  # a NaN's bits, which no weight has
    out = np.full((2**13, 2**13), untouched, np.uint8)
    rng = SplitMix64(17)
    main = threading.main_thread().ident

    def interrupt_once_it_has_begun():
        deadline = time.monotonic() + 30
        while out[0, 0] == untouched and time.monotonic() < deadline:
            time.sleep(0)
        signal.pthread_kill(main, signal.SIGINT)

    def fill_and_wait():
        thread.start()
        fastinit.normal(out.shape, rng, out=out, dtype="float8_e5m2", threads=1)  # long enough on any machine
        thread.join()  # a signal that the fill did not notice comes here, and the lines below say so

    thread = threading.Thread(target=interrupt_once_it_has_begun)
    with pytest.raises(KeyboardInterrupt):
        fill_and_wait()
    thread.join()
    assert out[0, 0] != untouched
    assert out[-1, -1] == untouched, "the fill ran to its end"
    assert rng.state == 17, "an interrupted fill consumed draws"
    small = xavier((2, 2), rng)
    assert_bits(small, expected_bits((2, 2), 17), "the corrected request, which reuses its intended draws")


def test_exported_where_users_look():
    assert fastinit.xavier_uniform is xavier


@pytest.mark.parametrize("draw", [fastinit.uniform, fastinit.random])
def test_a_shape_of_more_draws_than_the_cycle_is_refused_before_any_write(draw):
    """One element of a 2**80 tensor that is written, and then an OverflowError from C."""
    rng, out = fastinit.SplitMix64(17), np.full((), 7.0)
    for source in (rng, 17):
        with pytest.raises(ValueError, match=r"2\*\*64 - 1 draws"):
            draw((2**40, 2**40), source, index=(0, 0), out=out)
    assert (rng.state, float(out)) == (17, 7.0)
    draw((2**32, 2**32 - 1), rng, index=(0, 0), out=out)
    assert rng == fastinit.SplitMix64(17).advance(2**32 * (2**32 - 1))


@pytest.mark.parametrize(
    "text",
    [
        "zeros", "ones", "kaiming_normal", "xavier_uniform", "lecun_truncated_normal", "kaiming_normal('mish')",
        "kaiming_uniform('tanh')", "variance_scaling(0.78, 'fan_in', 'normal')", "normal(0.0, 0.02)",
        "residual(kaiming_normal, 12)", "scaled(residual(xavier_normal, 3), 0.5)",
        "normal", "truncated_normal(0.0, 1.0, -3.0, 2.0)", "truncated_normal", "orthogonal", "sparse(0.5, 0.01)",
        "identity", "uniform(-1.0, 1.0)", "depth_scaled(normal, 4)",
    ],
)  # fmt: skip
def test_an_initializer_is_written_as_it_is_typed(text):
    """A name that means another initializer, or none, would be refused or misread by the next command."""
    assert as_text(as_initializer(text)) == text


@pytest.mark.parametrize(
    "initializer",
    [
        initializers.TruncatedNormal(0.0, 1.0, -math.inf, 2.0),
        initializers.CenteredUniform(0.3),
        initializers.POSITIONS,
    ],
)
def test_what_has_no_name_is_written_as_json(initializer):
    text = as_text(initializer)
    assert text.startswith("{")
    assert as_initializer(text) == initializer
