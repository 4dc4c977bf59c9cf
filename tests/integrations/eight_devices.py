"""Weights on eight devices of a CPU, for test_jax_devices.py: a line of JSON, what was made -> its digest.

Run as a script, because JAX counts its devices once. It fails where a device is asked for more than its shard.
"""

import contextlib
import hashlib
import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import fastinit.jax as fj
from fastinit.jax import arrays
from fastinit.policies import Choice

SHAPE = (16, 24)
KEY = jax.random.key(0)
SPECS = {"rows": P("x"), "columns and rows": P("y", "x"), "rows by both": P(("y", "x"), None), "replicated": P()}
MADE = {
    "glorot_uniform": fj.glorot_uniform(seed=17, name="w"),
    "truncated_normal": fj.truncated_normal(0.5, jnp.bfloat16, seed=17, name="w"),
    "orthogonal": fj.orthogonal(seed=17, name="w"),
}


def digest(array):
    return hashlib.blake2b(np.asarray(array).tobytes(), digest_size=8).hexdigest()


@contextlib.contextmanager
def shards_of(sharding, by_element=True):
    """Hold every fill to the size of a shard."""
    fill, most = arrays.fill, np.prod(sharding.shard_shape(SHAPE)) if by_element else np.prod(SHAPE)

    def watched(state, shape, distribution, dtype, out, index=None):
        assert out.size <= most, f"{out.size} weights for a shard of {most}"
        return fill(state, shape, distribution, dtype, out, index)

    arrays.fill = watched
    try:
        yield
    finally:
        arrays.fill = fill


def everything():
    types = {"explicit": jax.sharding.AxisType.Explicit, "auto": jax.sharding.AxisType.Auto}
    for (kind, axis), (where, spec) in itertools.product(types.items(), SPECS.items()):
        mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis,) * 2)
        place = NamedSharding(mesh, spec)
        for name in MADE:
            with shards_of(place, name != "orthogonal"):
                for how, array in every_way(name, mesh, place).items():
                    assert array.sharding.is_equivalent_to(place, 2), (how, array.sharding)
                    yield f"{name}, {kind}, {where}, {how}", digest(array)
        yield f"stack, {kind}, {where}", digest(stack(place))


def every_way(name, mesh, place):
    """One tensor by its initializer and as a leaf of a tree, at once and compiled."""
    init = MADE[name]
    made = {
        "at once": init(KEY, SHAPE, None, place),
        "jit": jax.jit(lambda key: init(key, SHAPE, None, place))(KEY),
        "tree": tree(name, place),
        "tree, jit": jax.jit(lambda: tree(name, place))(),
    }
    with jax.set_mesh(mesh):
        made["spec"] = init(KEY, SHAPE, None, place.spec)
        made["spec, jit"] = jax.jit(lambda: init(None, SHAPE, None, place.spec))()
    return made


def stack(place):
    return jax.vmap(lambda key: MADE["glorot_uniform"](key, SHAPE, None, place))(jax.random.split(KEY, 3))


def tree(name, place):
    """The same tensor as a leaf, with its place in the leaf."""
    bound = MADE[name]
    dtype = bound.dtype or jnp.float32

    def policy(specs):
        return dict.fromkeys(specs, Choice(bound.initializer))

    return fj.init_tree({"w": jax.ShapeDtypeStruct(SHAPE, dtype, sharding=place)}, 17, policy)["w"]


def unevenly(call):
    """What is said of ten rows for four devices: rounded down, the last two would be lost."""
    place = NamedSharding(jax.make_mesh((4, 2), ("x", "y")), P("x"))
    try:
        return str(call(lambda: MADE["glorot_uniform"](KEY, (10, 24), None, place))().shape)
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    assert jax.device_count() == 8
    uneven = {"uneven, at once": unevenly(lambda make: make), "uneven, jit": unevenly(jax.jit)}
    print(json.dumps({**dict(everything()), **uneven}))
