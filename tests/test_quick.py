"""The quick way of small fills beside the long one: the same rules, whatever the arguments.

The quick way may leave any call to the long one. What it does itself must be what the long way does: result,
memory, generator, and no error that is not the long way's.
"""

import inspect
import itertools
import threading
from functools import partial

import numpy as np
import pytest

import fastinit
from fastinit import _core, functions

NAMES = [
    name for name, value in vars(functions).items() if hasattr(value, "make") and value is not functions.initialize
]
OWN = {
    "constant": [{}, {"value": 0.1}, {"value": -0.0}, {"value": 0.0}, {"value": True}, {"value": "x"}],
    "uniform": [{}, {"low": -1.0, "high": 1.0}, {"low": 1, "high": 1}, {"high": float("nan")}],
    "normal": [
        {},
        {"std": 0.02},
        {"std": 0.0},
        {"mean": 1, "std": True},
        {"std": -1.0},
        {"mean": 1e308},
        {"std": []},
    ],
    "truncated_normal": [{}, {"std": 0.02}, {"lower": 1.0, "upper": -1.0}, {"lower": None}],
    "kaiming_normal": [{}, {"activation": "tanh"}, {"activation": "nope"}, {"a": 0.2}, {"mode": "fan_out"}],
    "variance_scaling": [{}, {"scale": 2.0, "mode": "fan_geo_avg"}, {"distribution": "normal"}, {"scale": -1}],
}
SHAPES = [
    (4, 4),
    None,
    (3,),
    (2, 3, 4),
    (),
    (0, 3),
    [4, 4],
    5,
    (True, 2),
    (-1, 2),
    (4, 4.0),
    "44",
    (1 << 40, 4),
    (3, 5),
]
SEEDS = [17, 0, (1 << 64) - 1, 1 << 64, -1, 1.5, True, None, np.int64(3)]
THREADS = [None, 1, 2, 1024, 0, 1025, True, 1.0, np.int64(2), "1"]
DTYPES = [None, "float32", "float64", np.float32, "float16", "bfloat16", "nope", 3]


def outs():
    """Memory of many kinds: what the quick way takes, and what it must leave."""
    read_only = np.ones((4, 4))
    read_only.flags.writeable = False
    return [
        None,
        np.ones((4, 4)),
        np.ones((4, 4), np.float32),
        np.ones((4, 4), np.float16),
        np.ones((4, 4), np.uint16),
        np.ones((4, 4), ">f8"),
        np.ones((4, 4), order="F"),
        np.ones((8, 8))[::2, ::2],
        np.ones((4, 4))[::-1],
        np.ones((2, 3, 4)),
        np.ones(3),
        np.ones(()),
        np.ones((0, 3)),
        read_only,
        np.broadcast_to(np.ones(4), (4, 4)),
        np.frombuffer(bytearray(8 * 16 + 1), np.float64, 16, 1).reshape(4, 4),
        bytearray(128),
        [[1.0] * 4] * 4,
    ]


def outcome(call, generator, out):
    """What a call did: its result or its error, the memory it was given, and where the generator is."""
    try:
        result = call()
        told = (type(result), result is out, result.dtype, result.shape, result.tobytes())
    except Exception as error:  # of any kind: both ways must raise the same
        told = (type(error), str(error))
    memory = np.array(out).tobytes() if out is not None else None
    return told, memory, None if generator is None else generator.state


def both(monkeypatch, name, shape, seed, kind, options):
    """The outcomes of the quick way, which may hand on, and of the long way alone."""
    found = []
    for allowed in (True, False):
        generator = fastinit.SplitMix64(5) if seed == "generator" else None
        out = outs()[kind]
        given = {**options, **({} if out is None else {"out": out})}
        leading = [shape, seed if generator is None else generator]
        leading = leading[: 2 if "rng" in inspect.signature(getattr(functions, name)).parameters else 1]
        with monkeypatch.context() as patch:
            if not allowed:
                patch.setattr(_core, "fill_quickly", lambda *_: None)
            found.append(outcome(partial(getattr(functions, name), *leading, **given), generator, out))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_ends_as_on_the_long_way(name, monkeypatch):
    """A second set of rules: other weights, an error that is missing, a generator that moved too far or not."""
    rare = NAMES.index(name) % 5
    cases = itertools.product(SHAPES, [*SEEDS, "generator"], range(len(outs())), DTYPES, OWN.get(name, [{}]))
    for i, (shape, seed, kind, dtype, own) in enumerate(cases):
        if i % 11 != rare and not (shape in ((4, 4), None) and seed in (17, "generator") and dtype in DTYPES[:2]):
            continue
        options = {**own, **({} if dtype is None else {"dtype": dtype})}
        if i % 3 == 0:
            options["threads"] = THREADS[i % len(THREADS)]
        quick, long = both(monkeypatch, name, shape, seed, kind, options)
        assert quick == long, (name, shape, seed, kind, options)


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("xavier_uniform", ((4, 4), 17), {}),
        ("xavier_normal", ((4, 4), 17), {"dtype": "float32"}),
        ("kaiming_normal", ((64, 32), 17), {}),
        ("lecun_truncated_normal", ((4, 4), 17), {}),
        ("normal", ((4, 4), 17, 0.0, 0.02), {}),
        ("normal", ((2, 3, 4), 17), {"std": 0.02}),
        ("uniform", ((4,), 17, -1.0, 1.0), {}),
        ("zeros", ((4, 4),), {}),
    ],
)
def test_common_calls_take_the_quick_way(name, given, options):
    """A quick way that hands everything on: right, and as slow as before."""
    function = getattr(functions, name)
    own = tuple(p for p in inspect.signature(function.make).parameters)
    quick = _core.Quick(function.make, own, 2 if "rng" in inspect.signature(function).parameters else 1)
    for _ in range(2):
        assert _core.fill_quickly(quick, given, options).tobytes() == function(*given, **options).tobytes()
    out = np.empty(given[0], options.get("dtype", "float64"))
    assert _core.fill_quickly(quick, (None, *given[1:]), {"out": out}) is out


def test_no_draw_is_shared_with_whoever_holds_the_generator():
    """A quick fill that does not wait its turn gets draws that another thread's fill uses too."""
    rng, done = fastinit.SplitMix64(17), threading.Event()
    with rng.lock:
        thread = threading.Thread(target=lambda: (fastinit.xavier_uniform((4, 4), rng), done.set()))
        thread.start()
        assert not done.wait(0.2)
        assert rng.state == 17
    assert done.wait(10)
    thread.join()
    assert rng.state == fastinit.SplitMix64(17).advance(16).state


def test_a_nested_draw_is_refused():
    """A callback inside a fill of the generator draws the fill's own numbers again."""
    rng = fastinit.SplitMix64(17)
    with pytest.raises(RuntimeError, match="in the middle of a fill"):
        rng.transact(1, lambda state: fastinit.xavier_uniform((4, 4), rng))
    assert rng.state == 17


def test_other_zeros_and_truths_are_other_arguments():
    """0.0, -0.0 and False are one key of a dictionary; 1, 1.0 and True too."""
    for _ in range(3):
        assert not np.signbit(fastinit.constant((2, 2), 0.0)).any()
        assert np.signbit(fastinit.constant((2, 2), -0.0)).all()
        assert fastinit.normal((2, 2), 17, 0.0, 1.0).tobytes() == fastinit.normal((2, 2), 17, 0, 1).tobytes()
        for wrong in (True, False):
            with pytest.raises(TypeError):
                fastinit.normal((2, 2), 17, 0.0, wrong)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("normal", {"std": 0.02}, ("std", 0.02)),
        ("normal", {"mean": 1.0, "std": 0.02}, ("mean", 1.0, "std", 0.02)),
        ("uniform", {"low": -1.0}, ("low", -1.0)),
        ("kaiming_normal", {"mode": "fan_out"}, ("mode", "fan_out")),
    ],
)
def test_a_refused_call_is_refused_after_a_good_one_too(name, right, wrong):
    """An argument's name given as its value: the same key of a dictionary, if keys are only strung together."""
    getattr(fastinit, name)((4, 4), 17, **right)
    with pytest.raises((TypeError, ValueError)):
        getattr(fastinit, name)((4, 4), 17, *wrong)


def test_an_initializer_of_a_user_is_called():
    """Numbers of the parent class, where a class of a user's changes them."""

    class Half(fastinit.initializers.VarianceScaling):
        kind = "half_for_test_quick"

        def at(self, axes):
            return fastinit.initializers.VarianceScaling.at(self, axes).rescaled(0.5)

    whole = fastinit.initialize((4, 4), 17, fastinit.initializers.VarianceScaling(1.0, "fan_in", "normal"))
    assert Half(1.0, "fan_in", "normal").recipe() is None
    text = '{"kind": "half_for_test_quick", "scale": 1.0, "mode": "fan_in", "distribution": "normal"}'
    for _ in range(2):
        assert np.allclose(fastinit.initialize((4, 4), 17, text), whole / 2, rtol=1e-15, atol=0)


def test_no_memory_is_the_long_ways_to_say():
    """An error of numpy's own from inside the quick way."""
    quick = _core.Quick(functions.normal.make, ("mean", "std"), 2)

    def refuse(shape):
        raise MemoryError

    _core.recognize(empties={None: refuse})
    try:
        assert _core.fill_quickly(quick, ((4, 4), 17), {}) is None
    finally:
        _core.recognize(empties={None: np.empty})
