"""fastinit.jax beside jax.nn.initializers: signatures, conventions, bits, and what a trace, a vmap and a loop see.

Bits are judged by SplitMix64 in numpy alone (`xavier_weights`), conventions by what JAX itself draws.
"""

import doctest
import importlib
import inspect

import numpy as np
import pytest
import reference
from bits import assert_bits, patterns
from conftest import ROOT, bits, peer, run_python, xavier_weights
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit.initializers import Initializer

jax = peer("jax")
fj = pytest.importorskip("fastinit.jax")

import jax.numpy as jnp  # noqa: E402
from jax._src.nn.initializers import _compute_fans  # noqa: E402

from fastinit.jax import arrays  # noqa: E402
from fastinit.jax.bound import Fans, as_axes  # noqa: E402

theirs = jax.nn.initializers
NAMES = sorted(name for name in dir(theirs) if name.islower() and not name.startswith("_"))
PLAIN = {"zeros", "ones", "constant"}
SCALED = [name for name in NAMES if name.partition("_")[0] in ("glorot", "he", "kaiming", "lecun", "xavier")]
KEY = jax.random.key(0)
STATE = reference.stream_state(17, "w")


def bound(name, *arguments, **options):
    return getattr(fj, name)(*arguments, seed=17, name="w", **options)


def weights(shape, fan_sum, dtype="float32"):
    return xavier_weights(STATE, shape, fan_sum).astype(dtype)


def same(array, expected):
    return array.shape == expected.shape and bits(np.asarray(array)) == bits(expected)


# ---- names, signatures, conventions ------------------------------------------------------------------


def test_every_initializer_of_jax_has_its_counterpart():
    assert set(NAMES) <= set(fj.__all__)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_signatures_are_those_of_jax(name):
    """An argument in another place scales by another axis, in silence."""
    own = inspect.signature(getattr(fj, name)).parameters.values()
    facts = [(p.name, p.default) for p in own if p.name not in ("seed", "name")]
    assert facts == [(p.name, p.default) for p in inspect.signature(getattr(theirs, name)).parameters.values()]
    assert [p.name for p in own if p.kind is p.KEYWORD_ONLY] == ["seed", "name"]


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_what_draws_nothing_is_jaxs_own(name):
    assert getattr(fj, name) is getattr(theirs, name)


CONVENTIONS = [(name, {}) for name in SCALED] + [
    ("uniform", {"scale": 0.3}),
    ("normal", {"stddev": 0.3}),
    ("truncated_normal", {"stddev": 0.3}),
    ("truncated_normal", {"stddev": 0.3, "lower": -0.5, "upper": 3.0}),
    ("variance_scaling", {"scale": 0.7, "mode": "fan_out", "distribution": "normal"}),
    ("variance_scaling", {"scale": 0.7, "mode": "fan_geo_avg", "distribution": "truncated_normal"}),
]


@pytest.mark.parametrize(("name", "options"), CONVENTIONS, ids=str)
def test_mean_spread_and_support_are_those_of_jax(name, options):
    """jax's glorot_normal is truncated and corrected by 0.8796; its truncated_normal is not corrected."""
    shape = (400, 900)
    own = np.asarray(bound(name, **options)(KEY, shape), np.float64)
    peers = np.asarray(getattr(theirs, name)(**options)(KEY, shape), np.float64)
    error = 5 * peers.std() / np.sqrt(own.size)
    assert abs(own.mean() - peers.mean()) < 2 * error
    assert own.std() == pytest.approx(peers.std(), rel=0.01)
    if options.get("distribution", name) != "normal":  # it has bounds
        assert [own.min(), own.max()] == pytest.approx([peers.min(), peers.max()], abs=0.01 * np.abs(peers).max())


AXES = st.lists(st.integers(-4, 3), min_size=0, max_size=4, unique_by=lambda axis: axis % 4)


@settings(max_examples=200)
@given(AXES, st.tuples(*[st.integers(1, 6)] * 4), st.data())
def test_fans_are_those_of_jax(axes, shape, data):
    cuts = sorted(data.draw(st.tuples(*[st.integers(0, len(axes))] * 2)))
    inputs, outputs, batch = (tuple(part) for part in (axes[: cuts[0]], axes[cuts[0] : cuts[1]], axes[cuts[1] :]))
    fans = Fans(inputs, outputs, batch).options(shape, ())
    assert (fans["fan_in"], fans["fan_out"]) == pytest.approx(_compute_fans(shape, inputs, outputs, batch))


def test_axes_are_one_or_several():
    assert [as_axes(axes) for axes in (-2, [0, 1], (0,), range(2))] == [(-2,), (0, 1), (0,), (0, 1)]


# ---- bits --------------------------------------------------------------------------------------------

CALLS = {
    "at once": lambda init, shape: init(KEY, shape),
    "no key": lambda init, shape: init(None, shape),
    "old key": lambda init, shape: init(jax.random.PRNGKey(3), shape),
    "haiku": lambda init, shape: init(list(shape), jnp.float32),
    "jit": lambda init, shape: jax.jit(lambda key: init(key, shape))(KEY),
    "jit, no key": lambda init, shape: jax.jit(lambda: init(None, shape))(),
    "grad": lambda init, shape: jax.grad(lambda x: (init(KEY, shape) * x).sum())(jnp.ones(shape)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_weights_are_those_of_seed_name_and_index(call):
    assert same(call(bound("glorot_uniform"), (5, 7)), weights((5, 7), 12))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("compile_", [lambda f: f, jax.jit], ids=["at once", "jit"])
def test_every_dtype_is_the_rounded_float64_weight(dtype, compile_):
    limit, form = reference.xavier_scale(64, 33)[2], reference.FORMATS[dtype]
    draws = (reference.draw(STATE, i) for i in range(64 * 33))
    expected = patterns((reference.centered_weight(draw, limit, form) for draw in draws), dtype, (64, 33))
    for init, asked in (
        (bound("xavier_uniform"), getattr(jnp, dtype)),
        (bound("xavier_uniform", dtype=dtype), None),
    ):
        made = compile_(lambda init=init, asked=asked: init(None, (64, 33), asked))()
        assert_bits(np.asarray(made), expected, f"{dtype}, seed 17")


def test_the_truncated_normal_is_that_of_numpy():
    """C10; numpy's own fill is judged by tests/test_truncated.py."""
    expected = fastinit.glorot_truncated_normal((9, 4), STATE, dtype="float32")
    assert same(bound("glorot_normal")(KEY, (9, 4)), expected)
    expected = fastinit.truncated_normal((9, 4), STATE, 0.0, 0.5, -1.0, 3.0, dtype="float32")
    assert same(bound("truncated_normal", 0.5, lower=-1.0, upper=3.0)(KEY, (9, 4)), expected)


def test_equinox_stores_outputs_first():
    assert same(
        bound("lecun_uniform", in_axis=1, out_axis=0)(KEY, (4, 9)), drawn((4, 9), "lecun_uniform", layout="oi")
    )


def test_any_initializer_of_fastinit_comes_with_a_layout():
    init = bound("initializer", "kaiming_normal('gelu')", "oihw", 2)
    assert same(init(KEY, (8, 3, 2, 2)), drawn((8, 3, 2, 2), "kaiming_normal('gelu')", layout="oihw", groups=2))


def drawn(shape, initializer, **options):
    return fastinit.initialize(shape, STATE, initializer, dtype="float32", **options)


@pytest.mark.parametrize(("column", "layout"), [(-1, "wio"), (0, "owi"), (1, "woi")])
def test_orthogonal_columns_stand_on_the_axis_that_was_named(column, layout):
    made = bound("orthogonal", 2.0, column)(KEY, (6, 3, 4))
    assert same(made, drawn((6, 3, 4), "orthogonal", layout=layout) * np.float32(2))
    matrix = np.moveaxis(np.asarray(made, np.float64), column, -1).reshape(-1, (6, 3, 4)[column])
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    assert np.allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_the_tap_of_delta_orthogonal_is_jaxs():
    own, peers = (
        of.delta_orthogonal(**options) for of, options in ((fj, {"seed": 17, "name": "w"}), (theirs, {}))
    )
    for shape in ((4, 2, 3), (2, 3, 2, 3)):
        assert np.array_equal(
            np.asarray(own(KEY, shape)).any(axis=(-1, -2)), np.asarray(peers(KEY, shape)).any(axis=(-1, -2))
        )


def test_64_bits_are_drawn_where_jax_has_them():
    with jax.enable_x64(True):
        for dtype in ("float64", None, float):
            assert same(bound("glorot_uniform")(None, (5, 7), dtype), weights((5, 7), 12, "float64"))
        assert same(jax.jit(lambda: bound("glorot_uniform")(None, (5, 7)))(), weights((5, 7), 12, "float64"))
        assert same(bound("glorot_uniform")(None, (5, 7), "float32"), weights((5, 7), 12))


# ---- traces ------------------------------------------------------------------------------------------


def nested(init, shape):
    return jax.vmap(jax.vmap(lambda key: init(key, shape)))(jax.random.split(KEY, (2, 3)))


@pytest.mark.parametrize("compile_", [lambda f: f, jax.jit], ids=["at once", "jit"])
def test_a_copy_under_vmap_is_its_place_in_the_stack(compile_):
    """equinox's filter_vmap(make)(keys): an initializer that ignores keys would make every layer alike."""
    made = compile_(lambda: nested(bound("glorot_uniform"), (5, 7)))()
    assert same(made, weights((2, 3, 5, 7), 12))
    stacked = bound("glorot_uniform", batch_axis=(0, 1))(KEY, (2, 3, 5, 7))
    assert same(made, np.asarray(stacked))


def test_a_stack_of_orthogonal_matrices_has_one_each():
    made = np.asarray(nested(bound("orthogonal"), (5, 7)))
    assert same(made, drawn((2, 3, 5, 7), "orthogonal", layout="eeio"))
    assert np.allclose(made @ made.swapaxes(-1, -2), np.eye(5), atol=1e-5)


def test_vmap_over_something_else_changes_nothing():
    made = jax.vmap(lambda x: bound("glorot_uniform")(KEY, (5, 7)) * x)(jnp.ones(3))
    assert same(made[2], weights((5, 7), 12))


LOOPS = {
    "scan": lambda init, keys: jax.lax.scan(lambda carry, key: (carry, init(key, (2, 3))), 0, keys),
    "map": lambda init, keys: jax.lax.map(lambda key: init(key, (2, 3)), keys),
    "scan under jit": lambda init, keys: jax.jit(lambda: jax.lax.map(lambda key: init(key, (2, 3)), keys))(),
    "fori_loop": lambda init, keys: jax.lax.fori_loop(
        0, 4, lambda i, x: x + init(keys[i], (2, 3)), jnp.zeros((2, 3))
    ),
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_a_loop_is_refused(loop):
    """flax's nn.scan traces one layer for all: they would start alike, and nobody would notice."""
    with pytest.raises(TypeError, match=r"same weights 'w'; make the stack outside"):
        loop(bound("glorot_uniform"), jax.random.split(KEY, 4))


@pytest.fixture
def no_fill(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("something was drawn")

    monkeypatch.setattr(arrays, "fill", refuse)


def test_shapes_are_told_without_a_draw(no_fill):
    """A model of a trillion weights is planned on a laptop."""
    made = jax.eval_shape(lambda key: bound("glorot_uniform")(key, (1 << 20, 1 << 20)), KEY)
    assert (made.shape, made.dtype) == ((1 << 20, 1 << 20), jnp.float32)
    made = jax.eval_shape(lambda: nested(bound("he_normal"), (5, 7)))
    assert made.shape == (2, 3, 5, 7)
    jax.jit(lambda: bound("glorot_uniform")(None, (5, 7))).lower().compile()


# ---- memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_the_array_is_the_memory_that_was_filled(monkeypatch, dtype, is_sharded):
    """A copy would double the memory of a model and its time."""
    held, allocate = [], arrays.aligned

    def aligned(*arguments):
        held.append(allocate(*arguments))
        return held[-1]

    monkeypatch.setattr(arrays, "aligned", aligned)
    mesh = jax.make_mesh((1,), ("x",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")) if is_sharded else None
    made = bound("normal")(KEY, (31, 77), dtype, place)
    (memory,) = held
    assert made.addressable_shards[0].data.unsafe_buffer_pointer() == memory.ctypes.data
    assert memory.ctypes.data % 64 == 0


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
@pytest.mark.parametrize("given", [{}, {"seed": 17}, {"name": "w"}], ids=str)
def test_without_seed_or_name_the_error_says_what_to_type(name, given):
    arguments = (1.0, "fan_in", "normal") if name == "variance_scaling" else ()
    with pytest.raises(TypeError, match=rf'{name}\(\.\.\., seed=17, name="Dense_0.kernel"\)'):
        getattr(fj, name)(*arguments, **given)


def test_a_function_in_place_of_its_initializer_says_so():
    """``kernel_init=glorot_uniform``, not called: JAX would call it with (key, shape, dtype)."""
    with pytest.raises(TypeError, match="needs a seed and a name"):
        fj.glorot_uniform(KEY, (2, 3), jnp.float32)


@pytest.mark.parametrize("dtype", ["float64", np.float64, jnp.float64])
def test_float64_without_64_bits_is_refused(dtype):
    """JAX stores float32, and says so in a warning at best."""
    with pytest.raises(TypeError, match=r"would store float64 as float32; allow 64 bits by jax\.config\.update"):
        bound("glorot_uniform")(KEY, (2, 3), dtype)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.complex64, bool, "float33"])
def test_a_dtype_that_holds_no_weights_is_refused(dtype):
    with pytest.raises(TypeError, match="dtype must be one of float64"):
        bound("glorot_uniform")(KEY, (2, 3), dtype)


def test_a_seed_follows_one_rule():
    """jax#4745, jax#27282: PRNGKey(-1000) depends on the type of the number, and -1 equals 2**32 - 1."""
    for seed in (-1000, np.int32(-1000), -1, 2**64):
        with pytest.raises(ValueError, match="seed must be between 0 and"):
            fj.normal(seed=seed, name="w")
    assert fj.normal(seed=np.int32(1000), name="w") == fj.normal(seed=1000, name="w")


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (3, 0, 8)])
@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "orthogonal"])
def test_an_empty_array_has_nothing_to_scale(name, shape):
    """jax#35096: ZeroDivisionError."""
    assert bound(name)(KEY, shape).shape == shape


def test_bounds_that_cut_nothing_give_no_infinity():
    """jax#4559: truncated at 100 standard deviations, one weight of 320,000 was -inf."""
    made = np.asarray(bound("truncated_normal", 1.0, lower=-100, upper=100)(KEY, (10000, 32)))
    assert np.isfinite(made).all()
    assert same(made, drawn((10000, 32), "normal(0, 1)"))


def test_a_vector_has_no_fans():
    with pytest.raises(ValueError, match=r"shape \(3,\) has no axis -2; name its own by in_axis"):
        bound("glorot_uniform")(KEY, (3,))


def test_a_partition_spec_needs_a_mesh():
    with pytest.raises(ValueError, match=r"none is set; call it inside `with jax.set_mesh"):
        bound("glorot_uniform")(KEY, (8, 8), None, jax.sharding.PartitionSpec("x"))


def test_what_is_no_sharding_is_refused():
    with pytest.raises(TypeError, match=r"jax\.sharding\.Sharding or a PartitionSpec, got 'x'"):
        bound("glorot_uniform")(KEY, (8, 8), None, "x")


def test_an_initializer_is_a_value():
    """Modules of Flax are compared and hashed with their fields."""
    one, other = bound("glorot_uniform", [0], [1]), bound("xavier_uniform", (0,), (1,))
    assert one == other
    assert hash(one) == hash(other)
    assert one != fj.glorot_uniform([0], [1], seed=18, name="w")
    assert isinstance(one.initializer, Initializer)


# ---- examples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["initializers", "trees"])
def test_the_examples_of_the_docstrings_run(module):
    tried = doctest.testmod(importlib.import_module(f"fastinit.jax.{module}"))
    assert tried.attempted > 3
    assert not tried.failed


def test_the_examples_of_the_page_run():
    for library in ("flax", "equinox"):
        peer(library)
    ended = run_python("-m", "doctest", "docs/jax.md", env={"PYTHONPATH": str(ROOT)}, timeout=600)
    assert (ended.returncode, ended.stdout) == (0, "")
