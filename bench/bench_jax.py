"""JAX's initializers against those of fastinit.jax, and these against the fill that they end in.

All make a new float32 array of 64 MiB on all threads: JAX's number of threads cannot be set. Compiled and not;
compilation is not counted.
"""

import pytest

from fastinit.cli.timing import in_turn

SHAPE = (4096, 4096)
PAUSE = 0.2  # JAX's threads spin for a while after their work
KINDS = {
    "glorot_uniform": (lambda of, **bound: of.glorot_uniform(**bound), "glorot_uniform"),
    "truncated_normal": (
        lambda of, **bound: of.truncated_normal(0.02, **bound),
        "truncated_normal(0, 0.02, -2, 2)",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def bench_initializer(benchmark, record, kind):
    """Ratios of medians, contestants in turn."""
    jax = pytest.importorskip("jax")
    import fastinit.jax  # noqa: PLC0415

    make, text = KINDS[kind]
    own, theirs = make(fastinit.jax, seed=17, name="w"), make(jax.nn.initializers)
    own_jit, their_jit = (jax.jit(init, static_argnums=1) for init in (own, theirs))
    key, state = jax.random.key(17), fastinit.stream_for(17, "w").state
    contestants = {
        "raw fill": lambda: fastinit.initialize(SHAPE, state, text, dtype="float32"),
        "fastinit": lambda: own(key, SHAPE).block_until_ready(),
        "fastinit, jit": lambda: own_jit(key, SHAPE).block_until_ready(),
        "jax": lambda: theirs(key, SHAPE).block_until_ready(),
        "jax, jit": lambda: their_jit(key, SHAPE).block_until_ready(),
    }
    timings = benchmark.pedantic(lambda: in_turn(contestants, 5, PAUSE), rounds=1)
    seconds = {who: timing.median for who, timing in timings.items()}
    record(f"{kind}, float32: seconds", seconds=seconds)
    for over, under, least in (
        ("raw fill", "fastinit", 1 / 1.3),
        ("jax", "fastinit", 8),
        ("jax, jit", "fastinit", 8),
        ("jax, jit", "fastinit, jit", 8),
    ):
        spread = timings[over].spread + timings[under].spread
        record(
            f"{kind}, float32: {over} vs {under}", ratio=seconds[over] / seconds[under], spread=spread, least=least
        )
