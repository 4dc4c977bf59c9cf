"""Inputs on which every operation is tried, by its own tests and by the comparison with torch.

Inputs are drawn away from kinks (0 for relu and abs, equal elements for max), so that differences exist.
"""

import numpy as np

from fastinit import autodiff as ad


def away_from_zero(rng, shape):
    return np.asarray(rng.uniform(0.1, 2.0, shape) * rng.choice([-1.0, 1.0], shape))


def positive(rng, shape):
    return np.asarray(rng.uniform(0.5, 2.0, shape))


def apart(rng, shape):
    """No two elements within 0.1 of each other."""
    return np.asarray(rng.permutation(np.arange(float(np.prod(shape, dtype=int)))).reshape(shape) / 5 - 1)


# fmt: off
PAIRS = [((), ()), ((3,), (3,)), ((2, 3), ()), ((), (2, 3)), ((2, 1), (1, 3)), ((4, 2, 3), (3,)),
         ((2, 1, 4, 5), (2, 1, 4, 1)), ((0, 3), (1, 3)), ((2, 1), (2, 0))]
SHAPES = [(), (5,), (3, 4), (0, 3), (2, 1, 3)]
PRODUCTS = [((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
            ((2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
            ((5, 1, 2, 3), (4, 3, 2)), ((2, 4, 2, 3), (3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
            ((0,), (0, 2)), ((0, 2, 3), (3, 4)), ((5, 2, 0), (0, 4)), ((5, 2, 0), (0,)), ((5, 2, 3), (3, 0)),
            ((0, 2, 3), (3, 0)), ((0, 2, 0), (0, 0)), ((0,), (5, 0, 2)), ((2, 3), (0, 3, 2))]
AXES = [((), None, False), ((3, 4), None, True), ((3, 4), 0, False), ((3, 4), -1, True),
        ((2, 3, 4), (0, -1), False), ((2, 3, 4), (2, 0), True), ((2, 3), (), False)]
ROWS = [((3, 4), -1), ((3, 4), 0), ((2, 3, 4), 1), ((0, 3), 1), ((1, 1), 1)]
# fmt: on
MASK = np.array([[True, False, False, True], [False, False, False, False], [True, True, True, False]])


def cases():
    """Yield (operation, label, function of nodes, draws of the inputs)."""
    for a, b in PAIRS:
        yield "add", f"{a} {b}", lambda x, y: x + y, [(away_from_zero, a), (away_from_zero, b)]
        yield "subtract", f"{a} {b}", lambda x, y: x - y, [(away_from_zero, a), (away_from_zero, b)]
        yield "multiply", f"{a} {b}", lambda x, y: x * y, [(away_from_zero, a), (away_from_zero, b)]
        yield "divide", f"{a} {b}", lambda x, y: x / y, [(away_from_zero, a), (positive, b)]
        yield "power", f"{a} {b}", lambda x, y: x**y, [(positive, a), (away_from_zero, b)]
        yield (
            "where",
            f"{a} {b}",
            lambda x, y: ad.where(np.indices(np.broadcast_shapes(x.shape, y.shape)).sum(0) % 2 == 0, x, y),
            [(away_from_zero, a), (away_from_zero, b)],
        )
    for a, b in PRODUCTS:
        yield "matmul", f"{a} {b}", lambda x, y: x @ y, [(away_from_zero, a), (away_from_zero, b)]
    for shape in SHAPES:
        for name in (
            "negative",
            "exp",
            "tanh",
            "sigmoid",
            "relu",
            "leaky_relu",
            "gelu",
            "silu",
            "softplus",
            "abs",
        ):
            yield name, str(shape), getattr(ad, name), [(away_from_zero, shape)]
        yield "gelu_tanh", str(shape), lambda x: x.gelu(form="tanh"), [(away_from_zero, shape)]
        yield "log", str(shape), ad.log, [(positive, shape)]
        yield "sqrt", str(shape), ad.sqrt, [(positive, shape)]
        yield "reshape", str(shape), lambda x: x.reshape(x.shape[::-1]), [(away_from_zero, shape)]
        yield "transpose", str(shape), lambda x: x.T, [(away_from_zero, shape)]
        yield "slice", str(shape), lambda x: x[..., None], [(away_from_zero, shape)]
    for shape, axis, keepdims in AXES:
        label = f"{shape} {axis} {keepdims}"
        for name in ("sum", "mean", "max", "norm"):
            yield name, label, lambda x, n=name, a=axis, k=keepdims: getattr(ad, n)(x, a, k), [(apart, shape)]
    yield "sum", "(0, 3) 0", lambda x: x.sum(0), [(away_from_zero, (0, 3))]
    yield "mean", "(3, 0) 0", lambda x: x.mean(0), [(away_from_zero, (3, 0))]
    yield "max", "(3, 0) 0", lambda x: x.max(0), [(away_from_zero, (3, 0))]
    yield "reshape", "-1", lambda x: x.reshape(4, -1), [(away_from_zero, (2, 6))]
    yield "transpose", "axes", lambda x: x.transpose(2, 0, 1), [(away_from_zero, (2, 3, 4))]
    yield "transpose", "negative axes", lambda x: x.transpose((-1, 0, 1)), [(away_from_zero, (2, 3, 4))]
    yield "slice", "ints and steps", lambda x: x[1, ::-2, None, 1:], [(away_from_zero, (2, 5, 3))]
    yield "slice", "empty", lambda x: x[2:2], [(away_from_zero, (3, 2))]
    yield "gather", "repeated", lambda x: x.gather([[2, 0], [2, 2]]), [(away_from_zero, (4, 3))]
    yield "gather", "one", lambda x: x.gather(1), [(away_from_zero, (4, 3))]
    yield "gather", "none", lambda x: x.gather([]), [(away_from_zero, (4, 3))]
    yield (
        "concatenate",
        "axis 0",
        lambda x, y: ad.concatenate([x, y, x]),
        [(away_from_zero, (2, 3)), (away_from_zero, (0, 3))],
    )
    yield (
        "concatenate",
        "axis -1",
        lambda x, y: x.concatenate(y, axis=-1),
        [(away_from_zero, (2, 3)), (away_from_zero, (2, 1))],
    )
    for shape, axis in ROWS:
        label = f"{shape} {axis}"
        yield "softmax", label, lambda x, a=axis: x.softmax(a), [(away_from_zero, shape)]
        yield "log_softmax", label, lambda x, a=axis: x.log_softmax(a), [(away_from_zero, shape)]
        yield "layer_norm", label, lambda x, a=axis: x.layer_norm(a), [(apart, shape)]
        yield "rms_norm", label, lambda x, a=axis: x.rms_norm(a), [(apart, shape)]
    yield "softmax", "masked", lambda x: x.softmax(mask=MASK), [(away_from_zero, (3, 4))]
    yield "layer_norm", "two axes", lambda x: x.layer_norm((-2, -1), epsilon=0.1), [(apart, (2, 3, 4))]
    yield "rms_norm", "two axes", lambda x: x.rms_norm((-2, -1), epsilon=0.1), [(apart, (2, 3, 4))]
    yield "cross_entropy", "rows", lambda x: x.cross_entropy([0, 3, 3]), [(away_from_zero, (3, 4))]
    yield (
        "cross_entropy",
        "axis 1",
        lambda x: x.cross_entropy([[0, 2], [1, 1]], axis=1),
        [(away_from_zero, (2, 3, 2))],
    )
    yield "cross_entropy", "one", lambda x: x.cross_entropy(2), [(away_from_zero, (3,))]


CASES = list(cases())
IDS = [f"{name} {label}" for name, label, *_ in CASES]


def drawn(draws, seed=17):
    """The inputs of a case, as arrays."""
    rng = np.random.default_rng(seed)
    return [make(rng, shape) for make, shape in draws]
