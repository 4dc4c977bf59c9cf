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

SHAPE = (16, 24)
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
    key = jax.random.key(0)
    types = {"explicit": jax.sharding.AxisType.Explicit, "auto": jax.sharding.AxisType.Auto}
    for (kind, axis), (where, spec) in itertools.product(types.items(), SPECS.items()):
        mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(axis,) * 2)
        place = NamedSharding(mesh, spec)
        for name, init in MADE.items():
            with shards_of(place, name != "orthogonal"):
                made = {
                    "at once": init(key, SHAPE, None, place),
                    "jit": jax.jit(lambda key, init=init: init(key, SHAPE, None, place))(key),
                    "tree": tree(name, place),
                    "tree, jit": jax.jit(lambda name=name: tree(name, place))(),
                }
                with jax.set_mesh(mesh):
                    made["spec"] = init(key, SHAPE, None, spec)
                    made["spec, jit"] = jax.jit(lambda init=init: init(None, SHAPE, None, spec))()
            for how, array in made.items():
                at_home = array.sharding.is_equivalent_to(place, 2)
                assert at_home or (name == "orthogonal" and "jit" in how), (how, array.sharding)
                yield f"{name}, {kind}, {where}, {how}", digest(array)
        stack = jax.vmap(lambda key: MADE["glorot_uniform"](key, SHAPE, None, place))(jax.random.split(key, 3))
        yield f"stack, {kind}, {where}", digest(stack)


def tree(name, place):
    """The same tensor as a leaf, with its place in the leaf."""
    bound = MADE[name]
    dtype = bound.dtype or jnp.float32

    def policy(specs):
        return dict.fromkeys(specs, choice(bound))

    return fj.init_tree({"w": jax.ShapeDtypeStruct(SHAPE, dtype, sharding=place)}, 17, policy)["w"]


def choice(bound):
    from fastinit.policies import Choice  # noqa: PLC0415

    return Choice(bound.initializer)


if __name__ == "__main__":
    assert jax.device_count() == 8
    print(json.dumps(dict(everything())))
