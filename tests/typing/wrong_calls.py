"""Calls that type checkers must refuse, one a line; nobody runs them."""

import numpy as np

import fastinit
from fastinit.initializers import Normal, Residual

rng = fastinit.SplitMix64(17)
plan = fastinit.Plan.from_specs("gpt2-124m", 17)

# names that do not exist
fastinit.xavier_unifrom((2, 2), 17)
fastinit.initializers.Nrmal(0.0, 0.02)
fastinit.autodiff.addd(1.0, 2.0)
fastinit.lessons.nothing()
fastinit.propagation.nothing()
fastinit.diagnosis.nothing()
fastinit.policies.nothing()
rng.standard_norml()
plan.arrray("w")

# arguments of other libraries, misspelled, missing and too many
fastinit.normal(size=(2, 2), rng=17)
fastinit.normal((2, 2), 17, loc=1.0)
fastinit.normal((2, 2), 17, scale=0.02)
fastinit.normal((2, 2), seed=17)
fastinit.normal((2, 2))
fastinit.xavier_uniform((2, 2), 17, std=0.02)
fastinit.xavier_uniform((2, 2), 17, lyout="oi")
fastinit.xavier_uniform((2, 2), 17, 1.0)
fastinit.zeros((2, 2), rng=17)
fastinit.constant((2, 2))
rng.normal(mean=0.0)

# wrong types
fastinit.normal((2.5, 2), 17)
fastinit.normal("2, 2", 17)
fastinit.normal((2, 2), 17.5)
fastinit.normal((2, 2), None)
fastinit.normal((2, 2), np.random.default_rng(17))
fastinit.normal((2, 2), 17, "0")
fastinit.normal((2, 2), 17, threads=2.5)
fastinit.normal((2, 2), 17, index=[0, 1])
fastinit.normal((2, 2), 17, layout=("i", "o"))
fastinit.SplitMix64("17")
fastinit.stream_for("w", 17)
rng.advance(1.5)
Residual(0.02, 12)

# memory and dtypes
fastinit.normal((2, 2), 17, out=[1.0])
fastinit.normal((2, 2), 17, out=1.0)
fastinit.normal((2, 2), 17, dtype="float33")
fastinit.normal((2, 2), 17, dtype="int8")
fastinit.normal((2, 2), 17, dtype=32)
fastinit.initialize((2, 2), 17, "normal", dtype="float33")
Normal()((2, 2), 17, dtype="float33")
Normal()((2, 2), 17, out=[1.0])
rng.random(dtype="float33")
rng.random(out=[1.0])
rng.standard_normal(3, dtype="float33")
fastinit.Plan.from_specs("gpt2-124m", 17, dtype="float33")

# results taken for something else
text: str = fastinit.normal((2, 2), 17)
many: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = rng.random()
number: float = rng.random(3)
number_of_normals: float = rng.normal(size=3)
