"""A plan with given data of every kind of dtype, a tensor of two parts, and a copy of it in another dtype."""

import ml_dtypes
import numpy as np

from fastinit import Plan, PlannedTensor
from fastinit._engine.streams import stream_state
from fastinit.initializers import Constant, Given, Normal, digest_of, painted

MASK = np.tri(5, dtype=bool)
TABLE = np.sin(np.arange(600.0)).reshape(200, 3).astype(np.float32)
DATA = {
    "h.0.mask": MASK,
    "h.1.mask": MASK,
    "table": TABLE,
    "angles": np.exp(1j * np.arange(4)).astype(np.complex64),
    "brain": TABLE.astype(ml_dtypes.bfloat16),
    "ids": np.arange(7, dtype=np.int64),
    "scale": np.array(3, np.uint8),
    "four": np.arange(12, dtype=np.uint8),
    "six": np.arange(15, dtype=np.uint8),
    "none": np.zeros((0, 3), np.float32),
}
DTYPES = {"scale": "float8_e8m0fnu", "four": "float4_e2m1fn", "six": "float6_e3m2fn"}
SHAPES = {"four": (4, 6), "six": (4, 5)}


def planned(name, array):
    shape, dtype = SHAPES.get(name, array.shape), DTYPES.get(name, array.dtype.name)
    return PlannedTensor(name, shape, dtype, "given", Given(digest_of(array)), state=0)


def drawn(name, content, shape=(6, 4), dtype="float32", **options):
    return PlannedTensor(name, shape, dtype, content.name, content, stream_state(17, name), **options)


EMBEDDING = painted((6, 4), [(((0, 6, 1), (0, 4, 1)), Normal(0.0, 0.02)), (((0, 1, 1), (0, 4, 1)), Constant(0.0))])
WEIGHT = drawn("embed", EMBEDDING)
TIED = PlannedTensor("head", (6, 4), "bfloat16", "parts", EMBEDDING, WEIGHT.state, copy_of="embed")


def given_plan():
    """The plan, without its data."""
    return Plan(17, "mine", "named", [TIED, WEIGHT, *(planned(*item) for item in DATA.items())])
