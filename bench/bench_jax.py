"""JAX's initializers against those of fastinit.jax, and these against the fill that they end in.

All make a new float32 array of an eighth of the large buffer on all threads: JAX's number of threads cannot be
set. Compiled and not; compilation is not counted.
"""

import pytest
from peers import needs

import fastinit

pytestmark = needs("jax")
PAUSE = 0.2  # JAX's threads spin for a while after their work
KINDS = {
    "glorot_uniform": (lambda of, **bound: of.glorot_uniform(**bound), "glorot_uniform"),
    "truncated_normal": (
        lambda of, **bound: of.truncated_normal(0.02, **bound),
        "truncated_normal(0, 0.02, -2, 2)",
    ),
}


def calls(kind, shape):
    """Every contestant, compiled and not."""
    import jax  # noqa: PLC0415

    from fastinit import jax as ours  # noqa: PLC0415

    make, text = KINDS[kind]
    own, theirs = make(ours, seed=17, name="w"), make(jax.nn.initializers)
    own_jit, their_jit = (jax.jit(init, static_argnums=1) for init in (own, theirs))
    key, state = jax.random.key(17), fastinit.stream_for(17, "w").state
    return {
        "fastinit.jax": lambda: own(key, shape).block_until_ready(),
        "fill alone": lambda: fastinit.initialize(shape, state, text, dtype="float32"),
        "fastinit.jax, jit": lambda: own_jit(key, shape).block_until_ready(),
        "jax": lambda: theirs(key, shape).block_until_ready(),
        "jax, jit": lambda: their_jit(key, shape).block_until_ready(),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("contestant", ["fastinit.jax", "fill alone", "jax", "jax, jit"])
def bench_initializer(race, large, kind, contestant):
    """At once; the fill alone is the limit."""
    shape = (4096, large // 8 // 4 // 4096)
    race(
        f"jax {kind} float32",
        contestant,
        lambda: {name: run for name, run in calls(kind, shape).items() if name != "fastinit.jax, jit"},
        least={"fill alone": 1 / 1.3, "jax": 8, "jax, jit": 8},
        pause=PAUSE,
        most_rounds=5,
        weights=shape[0] * shape[1],
        bound="the kernel's zeroing of pages",
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("contestant", ["fastinit.jax, jit", "jax, jit"])
def bench_under_jit(race, large, kind, contestant):
    """Under `jit`, where a callback makes the weights."""
    shape = (4096, large // 8 // 4 // 4096)
    race(
        f"jax {kind} float32, jit",
        contestant,
        lambda: {name: run for name, run in calls(kind, shape).items() if name.endswith("jit")},
        least={"jax, jit": 8},
        pause=PAUSE,
        most_rounds=5,
        weights=shape[0] * shape[1],
        bound="XLA's copy of what a callback returns",
    )
