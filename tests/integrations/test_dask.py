"""fastinit.dask: one tensor, the same bytes at any chunking, on any scheduler, whatever happens to a worker.

The functions of fastinit, which the references judge elsewhere, and numpy's indexing are the judges here.
"""

import ast
import inspect
import os
import pickle
import signal
import tracemalloc

import given_plans
import numpy as np
import pytest
import reference
from bits import DTYPES, assert_bits, patterns, weight
from conftest import ROOT, bits, peer, run_python, unmoved
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fastinit
from fastinit._engine.distributions import Uniform
from fastinit.errors import DistributionError, PlanError
from fastinit.initializers import Orthogonal

dask = peer("dask")
da = peer("dask.array")

import fastinit.dask  # noqa: E402  # after the peers: it refuses to load without them
from fastinit.dask import LazyArray  # noqa: E402

NAMES = sorted(name for name, value in vars(fastinit.functions).items() if hasattr(value, "make"))
OWN = {"constant": (0.1,), "sparse": (0.25,), "initialize": ("xavier_uniform",)}
UNDRAWN = {"constant", "zeros", "ones", "identity", "dirac"}
WHOLE = {"orthogonal", "delta_orthogonal", "sparse"}
SHAPES = {"dirac": (6, 4, 3), "delta_orthogonal": (4, 6, 3)}
LAYOUTS = {"dirac": "oiw", "delta_orthogonal": "iow"}
CHUNKS = ("auto", -1, 2, 5)


def both(name, chunks="auto", **options):
    """A function's dask array, and what fastinit fills with the same arguments."""
    shape = SHAPES.get(name, (12, 9))
    options = {"layout": LAYOUTS.get(name, "io"), "dtype": "float32", **options}
    own, seed = OWN.get(name, ()), () if name in UNDRAWN else (17,)
    lazy = getattr(fastinit.dask, name)(shape, *seed, *own, chunks=chunks, **options)
    return lazy, getattr(fastinit, name)(shape, *seed, *own, **options)


# ---- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in WHOLE])
def test_chunks_change_no_byte(name, chunks):
    lazy, plain = both(name, chunks)
    assert lazy.npartitions == 1 or chunks in (2, 5)
    assert (lazy.shape, lazy.dtype) == (plain.shape, plain.dtype)
    assert bits(lazy.compute()) == bits(plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_are_the_references(dtype):
    """The judge that knows neither numpy's fill nor dask."""
    lazy = fastinit.dask.uniform((5, 7), 17, -0.5, 2.0, name="layer.weight", chunks=3, dtype=dtype)
    state = reference.stream_state(17, "layer.weight")
    draws = (reference.draw(state, i) for i in range(35))
    wanted = patterns([weight(Uniform(-0.5, 2.0), draw, dtype) for draw in draws], dtype, (5, 7))
    assert_bits(lazy.compute(), wanted, dtype)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_schedulers_change_no_byte(scheduler):
    lazy, plain = both("truncated_normal", 4)
    assert bits(lazy.compute(scheduler=scheduler)) == bits(plain)


def test_options_reach_the_fill():
    options = {"gain": 0.5, "fan_in": 40, "fan_out": 3, "layout": "oi", "groups": 3, "dtype": "float16"}
    lazy, plain = both("xavier_normal", 4, **options)
    assert bits(lazy.compute()) == bits(plain)


@pytest.mark.parametrize("chunks", ["auto", "16 B", 3])
@pytest.mark.parametrize("shape", [(), 5, (0,), (3, 0, 2), (1, 1, 1, 1)])
def test_every_shape_computes(shape, chunks):
    found = fastinit.dask.normal(shape, 17, chunks=chunks).compute()
    assert np.shape(found) == fastinit.normal(shape, 17).shape
    assert bits(found) == bits(fastinit.normal(shape, 17))


def test_a_generator_moves_on_as_with_fastinits_own_functions():
    """Two arrays of one generator would be equal, or the second one would start elsewhere than in numpy."""
    ours, theirs = fastinit.SplitMix64(17), fastinit.SplitMix64(17)
    for name in ("normal", "uniform"):
        lazy = getattr(fastinit.dask, name)((3, 4), ours, chunks=2)
        assert bits(lazy.compute()) == bits(getattr(fastinit, name)((3, 4), theirs))
    fastinit.dask.initialize(5, ours, "zeros")
    assert ours.state == theirs.state


# ---- what is asked is what is filled -----------------------------------------------------------------


@st.composite
def cuts(draw):
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))
    chunks = tuple(draw(st.integers(1, max(length, 1))) for length in shape)
    return shape, chunks, draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))


@settings(max_examples=150)
@given(cuts())
def test_an_index_cuts_as_numpy_does(case):
    shape, chunks, index = case
    lazy, plain = LazyArray.of("normal", shape, 17), fastinit.normal(shape, 17)
    for found in (lazy[index], da.from_array(lazy, chunks=chunks)[index].compute()):
        assert np.shape(found) == plain[index].shape
        assert bits(found) == bits(plain[index])


@pytest.mark.parametrize(
    "index",
    [
        np.s_[[3, 9, 5, 3]],
        np.s_[:, [-1, 1]],
        np.s_[2:9:3, None, np.array([4, 0])],
        np.s_[-2, [5, 2]],
        np.s_[..., [[0, 1], [2, 2]]],
        np.s_[[1, 2], [3, 4]],
        np.s_[[0], :, None],
        np.s_[[]],
        np.s_[np.arange(12) % 5 == 2],
        np.s_[1:3, np.arange(9) > 6],
        np.s_[np.arange(108).reshape(12, 9) % 7 == 0],
    ],
    ids=str,
)
def test_lists_and_masks_pick_as_in_numpy(index):
    """da.from_array hands them down, unless it is told not to."""
    lazy, plain = LazyArray.of("normal", (12, 9), 17), fastinit.normal((12, 9), 17)
    assert lazy[index].shape == plain[index].shape
    assert bits(lazy[index]) == bits(plain[index])


@pytest.mark.parametrize(
    "index", [np.s_[[12]], np.s_[[-13]], np.s_[[0], 0, 0], np.s_[np.ones(11, bool)], np.s_[["a"]], 12]
)
def test_a_wrong_index_is_refused_as_by_numpy(index):
    """A mask that is too short, say, would pick elements in silence."""
    with pytest.raises(IndexError):
        np.zeros((12, 9))[index]
    with pytest.raises(IndexError):
        LazyArray.of("normal", (12, 9), 17)[index]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_filled_before_it_is_asked_for(name, monkeypatch):
    """dask asks an array for an empty part, which of an orthogonal matrix costs as much as the whole."""
    fills = []
    monkeypatch.setattr(fastinit.dask.lazy, "fill", lambda *arguments, **options: fills.append(arguments))
    shape = SHAPES.get(name, (12, 9))
    seed = () if name in UNDRAWN else (17,)
    array = getattr(fastinit.dask, name)(shape, *seed, *OWN.get(name, ()), layout=LAYOUTS.get(name, "io"))
    assert array[1:].T.dtype == np.float64
    assert fills == []


def test_a_slice_of_an_endless_array_fills_the_slice():
    """8 PB in all."""
    array = fastinit.dask.normal((1 << 25, 1 << 25), 17, chunks=(1 << 13, 1 << 13))
    tracemalloc.start()
    part = array[1 << 24 : (1 << 24) + 3, 5:9].compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    index = (slice(1 << 24, (1 << 24) + 3), slice(5, 9))
    assert bits(part) == bits(fastinit.normal((1 << 25, 1 << 25), 17, index=index))
    assert peak < 64 << 20, "a chunk has 512 MiB"


def test_a_lazy_array_is_small_and_survives_a_pickle():
    lazy = LazyArray.of("xavier_uniform", (1 << 20, 1 << 20), 17, name="w", dtype="bfloat16")
    copy = pickle.loads(pickle.dumps(lazy))
    assert copy == lazy
    assert len(pickle.dumps(lazy)) < 400
    assert bits(copy[7, :50]) == bits(lazy[7, :50])


def test_numpy_takes_all_of_it():
    lazy = LazyArray.of("normal", (3, 4), 17)
    assert bits(np.asarray(lazy)) == bits(fastinit.normal((3, 4), 17))
    assert np.asarray(lazy, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="no memory to share"):
        np.array(lazy, copy=False)


# ---- tokens ------------------------------------------------------------------------------------------


def test_tokens_are_equal_in_every_process():
    code = "import fastinit.dask as f; print(f.xavier_normal((9, 9), 17, name='w', chunks=4).name)"
    names = {run_python("-c", code, env={"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2")}
    assert names == {fastinit.dask.xavier_normal((9, 9), 17, name="w", chunks=4).name + "\n"}


def test_a_token_says_all_that_the_values_depend_on():
    """dask keeps one of two arrays with one token."""
    others = [
        fastinit.dask.normal((4, 4), 18),
        fastinit.dask.normal((4, 4), 17, name="w"),
        fastinit.dask.normal((2, 8), 17),
        fastinit.dask.normal((4, 4), 17, chunks=2),
        fastinit.dask.normal((4, 4), 17, std=0.5),
        fastinit.dask.normal((4, 4), 17, dtype="float32"),
        fastinit.dask.truncated_normal((4, 4), 17),
    ]
    names = {array.name for array in others}
    assert len(names) == len(others)
    assert fastinit.dask.normal((4, 4), 17).name not in names
    assert fastinit.dask.normal((4, 4), 17, threads=2).name == fastinit.dask.normal((4, 4), 17).name


# ---- threads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [({}, 1), ({"threads": 3}, 3), ({"threads": None}, None)])
def test_a_chunk_is_filled_by_one_thread_unless_more_are_asked_for(asked, given, monkeypatch):
    """Else every thread of dask would start as many of ours."""
    seen = []
    monkeypatch.setattr(fastinit._engine.fill, "run", lambda job, threads: seen.append(threads))
    fastinit.dask.normal((4, 4), 17, chunks=2, **asked).compute(scheduler="sync")
    assert seen == [given] * 4


# ---- fills that need the whole tensor ----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_whole_tensor_is_one_chunk(name):
    with dask.config.set({"array.chunk-size": "100 B"}):
        lazy, plain = both(name)
    assert lazy.npartitions == 1
    assert bits(lazy.compute()) == bits(plain)
    assert bits(lazy[1:3].compute()) == bits(plain[1:3])
    assert bits(lazy.rechunk(3).compute()) == bits(plain)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_whole_tensor_is_not_made_again_for_every_chunk(name):
    with pytest.raises(ValueError, match=rf"^{name} needs the whole tensor.*each of \d+ chunks.*rechunk"):
        both(name, 3)


# ---- a cluster, and a worker that dies ---------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
def test_a_cluster_changes_no_byte(client, chunks):
    lazy, plain = both("normal", chunks)
    assert bits(lazy.compute()) == bits(plain)


def test_a_dead_worker_changes_no_byte(client):
    """Its chunks are filled again by another one."""
    kept = client.persist(fastinit.dask.truncated_normal((4000, 4000), 17, chunks=(100, 4000)))
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    assert bits(kept.compute()) == bits(fastinit.truncated_normal((4000, 4000), 17))
    assert client.run(os.getpid) != pids


# ---- plans -------------------------------------------------------------------------------------------


def test_a_plans_arrays_are_its_tensors():
    plan = given_plans.given_plan().with_given(given_plans.DATA)
    arrays = fastinit.dask.arrays(plan, "16 B")
    assert list(arrays) == list(plan)
    for name, array in arrays.items():
        assert array.dtype == plan.array(name).dtype
        assert bits(array.compute()) == bits(plan.array(name)), name
    assert arrays["embed"].npartitions > 1


def test_a_plans_whole_tensors_are_one_chunk_among_others():
    specs = {"w": {"dtype": "BF16", "shape": [8, 8]}, "ids.position_ids": {"dtype": "I64", "shape": [1, 9]}}
    orthogonal = fastinit.policies.Rule("a matrix", "^w$", range(2, 3), Orthogonal())
    plan = fastinit.Plan.from_specs(specs, 17, [orthogonal, *fastinit.policies.POLICIES["xavier"].rules])
    arrays = fastinit.dask.arrays(plan, 4)
    assert arrays["w"].npartitions == 1
    assert all(bits(array.compute()) == bits(plan.array(name)) for name, array in arrays.items())


def test_a_plan_without_its_data_is_refused():
    with pytest.raises(PlanError, match="with_given"):
        fastinit.dask.arrays(given_plans.given_plan())


# ---- refusals ----------------------------------------------------------------------------------------

REFUSED = [
    (lambda rng: fastinit.dask.normal((2, 2), rng, chunks=(1, 1, 1)), ValueError, "Chunks and shape"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, std=-1), ValueError, "std must be"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, gain=-1), ValueError, "gain must be"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, threads=0), ValueError, "threads must be"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, dtype="int8"), TypeError, "dtype must be one of"),
    (lambda rng: fastinit.dask.normal((1 << 40, 1 << 40), rng), ValueError, "at most 2\\*\\*64 - 1 draws"),
    (lambda rng: fastinit.dask.normal(2, rng, 0, 1e9, dtype="float8_e5m2"), DistributionError, "finite range"),
    (lambda rng: fastinit.dask.xavier_uniform((3,), rng), ValueError, "has no fan_in"),
    (lambda rng: fastinit.dask.sparse((2, 2, 2), rng, 0.5), ValueError, "columns of a matrix"),
    (lambda rng: fastinit.dask.orthogonal((2, 2), rng, chunks=1), ValueError, "needs the whole tensor"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, out=None), TypeError, "normal\\(\\) has no option 'out'"),
    (lambda rng: fastinit.dask.normal((2, 2), rng, name="w"), TypeError, "seed must be an integer"),
    (lambda rng: fastinit.dask.normal((2, 2), 17, name=""), ValueError, "name must not be empty"),
    (lambda rng: fastinit.dask.normal((2, 2), True), TypeError, "seed must be an integer"),
    (lambda rng: fastinit.dask.normal((2, 2), -1), ValueError, "seed"),
    (lambda rng: fastinit.dask.normal((2, 2)), TypeError, "missing a required argument: 'seed'"),
]


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED)
def test_a_refusal_comes_at_the_call_and_moves_no_generator(call, kind, said):
    """Not hours later, on a worker."""
    rng = fastinit.SplitMix64(17)
    with unmoved(rng), pytest.raises(kind, match=said):
        call(rng)


# ---- what the functions say of themselves ------------------------------------------------------------

STUB = ast.parse((ROOT / "fastinit" / "dask" / "__init__.pyi").read_text())
DECLARED = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}


def options_of(kind):
    """The keys of a TypedDict of the stub, and of those that it extends."""
    node = next((node for node in STUB.body if isinstance(node, ast.ClassDef) and node.name == kind), None)
    if node is None:
        return set()
    own = {line.target.id for line in node.body if isinstance(line, ast.AnnAssign)}
    return own.union(*(options_of(base.id) for base in node.bases))


def test_every_function_of_fastinit_is_here():
    assert set(NAMES) <= set(dir(fastinit.dask))
    assert fastinit.dask.he_normal is fastinit.dask.kaiming_normal


@pytest.mark.parametrize("name", DECLARED)
def test_the_stub_and_the_function_have_one_signature(name):
    parameters = inspect.signature(getattr(fastinit.dask, name)).parameters.values()
    node = DECLARED[name]
    plain = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    defaults = [each.default for each in parameters if each.name in plain and each.default is not each.empty]
    assert [argument.arg for argument in node.args.args] == plain
    assert [ast.literal_eval(default) for default in node.args.defaults] == defaults
    options = options_of(node.args.kwarg.annotation.slice.id)
    assert options == {each.name for each in parameters} - set(plain)


@pytest.mark.parametrize("name", NAMES)
def test_help_explains_every_argument(name):
    function = getattr(fastinit.dask, name)
    for argument in inspect.signature(function).parameters:
        assert f"\n{argument} : " in function.__doc__
    assert "dask.array.Array" in function.__doc__
    assert "`out`" not in function.__doc__
