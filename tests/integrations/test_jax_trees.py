"""init_tree on models of Flax (nnx and linen), Equinox and Haiku: names, ties, boxes, shapes, a step of training.

What each leaf must hold is asked of a plan of the same names, whose arrays tests/test_plan.py judges.
"""

import json

import numpy as np
import pytest
import reference
from conftest import bits, peer, xavier_weights

import fastinit
from fastinit.errors import PlanError, TensorsRefused
from fastinit.policies import UserRule, customized

jax = peer("jax")
fj = pytest.importorskip("fastinit.jax")

import jax.numpy as jnp  # noqa: E402
from jax import ShapeDtypeStruct as Shape  # noqa: E402
from jax.sharding import PartitionSpec  # noqa: E402

from fastinit.jax import arrays  # noqa: E402

KEY = jax.random.key(0)


def planned(tree, policy="xavier"):
    return fastinit.Plan.from_specs(fj.named_leaves(tree), 17, policy)


def assert_planned(tree, policy="xavier"):
    """Every leaf is what a plan of its name makes, and is an array of JAX."""
    plan, leaves = planned(tree, policy), fj.named_leaves(tree)
    assert list(plan) == list(leaves)
    for name, leaf in leaves.items():
        assert isinstance(leaf, jax.Array), name
        assert bits(np.asarray(leaf)) == bits(plan.array(name)), name


def descends(loss, parameters):
    """One step of gradient descent from the start must lower the loss."""
    before, slopes = jax.value_and_grad(loss)(parameters)
    after = loss(jax.tree.map(lambda p, slope: p - 0.01 * slope, parameters, slopes))
    assert np.isfinite(before)
    assert after < before


# ---- Flax linen --------------------------------------------------------------------------------------


def linen_model():
    nn = peer("flax.linen")

    class Model(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.Dense(8, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), ("in", "out")))(x)
            x = nn.BatchNorm(use_running_average=True)(nn.relu(x))
            x = nn.Conv(8, (3,))(x) + nn.ConvTranspose(8, (3,))(x)
            x = nn.MultiHeadDotProductAttention(num_heads=2)(nn.LayerNorm()(x))
            x = nn.RNN(nn.OptimizedLSTMCell(8))(x) + nn.RNN(nn.GRUCell(8))(x)
            return nn.Dense(1)(
                nn.WeightNorm(nn.Dense(8))(nn.RMSNorm()(x)) + nn.Embed(5, 8)(jnp.zeros((2, 4), int))
            )

    return Model(), jnp.linspace(-1, 1, 2 * 4 * 6).reshape(2, 4, 6)


def test_a_linen_model_is_made_and_trained():
    nn = peer("flax.linen")
    model, x = linen_model()
    variables = fj.init_tree(jax.eval_shape(model.init, KEY, x), 17)
    assert_planned(variables)
    kernel = variables["params"]["Dense_0"]["kernel"]
    assert isinstance(kernel, nn.Partitioned), "the box keeps its names of axes"
    assert kernel.names == ("in", "out")
    expected = xavier_weights(reference.stream_state(17, "params.Dense_0.kernel"), (6, 8), 14).astype("f4")
    assert np.array_equal(kernel.value, expected), "the box adds nothing to the name"
    assert float(variables["batch_stats"]["BatchNorm_0"]["var"].sum()) == 8.0
    descends(lambda v: ((model.apply(v, x) - 1) ** 2).mean(), nn.unbox(variables))


def test_linens_scan_makes_a_stack_by_init_tree_and_refuses_an_initializer():
    nn = peer("flax.linen")

    class Layer(nn.Module):
        start: object = nn.initializers.lecun_normal()

        @nn.compact
        def __call__(self, x, _):
            return nn.Dense(4, kernel_init=self.start, name="dense")(x), None

    def stack(**options):
        scan = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return scan(**options), jnp.ones((2, 4))

    model, x = stack()
    abstract = jax.eval_shape(model.init, KEY, x, None)
    with pytest.raises(TensorsRefused, match="a stack of matrices"):
        fj.init_tree(abstract, 17)
    policy = customized(rules=[UserRule("*.kernel", "xavier_uniform", "eio")])
    kernel = fj.init_tree(abstract, 17, policy)["params"]["dense"]["kernel"]
    expected = xavier_weights(reference.stream_state(17, "params.dense.kernel"), (3, 4, 4), 8).astype("f4")
    assert np.array_equal(kernel, expected)
    model, x = stack(start=fj.glorot_uniform(seed=17, name="dense.kernel"))
    with pytest.raises(TypeError, match=r"same weights 'dense\.kernel'; make the stack outside"):
        model.init(KEY, x, None)


def test_linens_vmap_gives_each_copy_its_place():
    nn = peer("flax.linen")
    init = fj.glorot_uniform(seed=17, name="w")
    copies = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
    kernel = copies(4, kernel_init=init).init(KEY, jnp.ones((3, 2, 4)))["params"]["kernel"]
    assert np.array_equal(kernel, xavier_weights(reference.stream_state(17, "w"), (3, 4, 4), 8).astype("f4"))


# ---- Flax nnx ----------------------------------------------------------------------------------------


def nnx_model():
    nnx = peer("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.dense = nnx.Linear(6, 8, rngs=rngs)
            self.bn, self.ln = nnx.BatchNorm(8, use_running_average=True, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)
            self.conv, self.dropout = nnx.Conv(8, 8, (3,), rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
            self.blocks = nnx.List([nnx.Linear(8, 8, rngs=rngs) for _ in range(2)])
            self.attention = nnx.MultiHeadAttention(2, 8, rngs=rngs, decode=False)
            self.lora, self.table = nnx.LoRA(8, 2, 8, rngs=rngs), nnx.Embed(6, 8, rngs=rngs)
            self.tied = self.table

        def __call__(self, x):
            x = self.conv(nnx.relu(self.bn(self.dense(x))))
            x = self.attention(self.ln(x)) + self.lora(x)
            return self.tied.attend(self.dropout(self.blocks[1](self.blocks[0](x))))

    return nnx, Model


def test_an_nnx_model_is_made_and_trained():
    nnx, Model = nnx_model()
    model = fj.init_tree(nnx.eval_shape(lambda: Model(nnx.Rngs(0))), 17)
    assert model.tied.embedding is model.table.embedding, "what was shared stays shared"
    assert isinstance(model.dropout.rngs.key.get_value(), Shape), "a random key is no weight"
    nnx.reseed(model, default=3)
    model.eval()
    graph, parameters, rest = nnx.split(model, nnx.Param, ...)
    assert_planned(parameters)
    x = jnp.linspace(-1, 1, 2 * 4 * 6).reshape(2, 4, 6)

    def loss(parameters):
        return ((nnx.merge(graph, parameters, rest)(x) - 1) ** 2).mean()

    descends(loss, parameters)


def test_a_state_has_the_names_of_its_module():
    """`.value` of a Variable at the end of each name would move all weights with Flax's next box."""
    nnx, Model = nnx_model()
    abstract = nnx.eval_shape(lambda: Model(nnx.Rngs(0)))
    _, state, _ = nnx.split(abstract, nnx.Param, ...)
    names = set(fj.named_leaves(state))
    assert {"dense.kernel", "blocks.1.bias", "attention.query.kernel", "lora.lora_b", "table.embedding"} <= names
    assert not any("value" in name.split(".")[-1] for name in names)
    made = fj.init_tree(state, 17)
    assert isinstance(made, nnx.State)
    whole = fj.init_tree(abstract, 17)
    assert np.array_equal(made["dense"]["kernel"].get_value(), whole.dense.kernel.get_value())


def test_initializers_serve_nnx_modules():
    nnx, _ = nnx_model()
    layer = nnx.Linear(6, 8, kernel_init=fj.glorot_uniform(seed=17, name="w"), rngs=nnx.Rngs(0))
    expected = xavier_weights(reference.stream_state(17, "w"), (6, 8), 14).astype("f4")
    assert np.array_equal(layer.kernel.get_value(), expected)


# ---- Equinox, Haiku ----------------------------------------------------------------------------------


def test_an_equinox_model_is_made_and_trained():
    eqx = peer("equinox")
    model = fj.init_tree(eqx.filter_eval_shape(lambda: eqx.nn.MLP(6, 2, 8, 2, key=KEY)), 17)
    assert_planned(eqx.filter(model, eqx.is_array))
    expected = xavier_weights(reference.stream_state(17, "layers.0.weight"), (8, 6), 14).astype("f4")
    assert np.array_equal(model.layers[0].weight, expected)
    assert callable(model.activation), "a function stays what it is"
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    x = jnp.linspace(-1, 1, 24).reshape(4, 6)
    descends(lambda p: ((jax.vmap(eqx.combine(p, rest))(x) - 1) ** 2).mean(), parameters)


def test_equinoxs_stack_of_layers_has_different_layers():
    eqx = peer("equinox")
    init = fj.lecun_uniform(in_axis=1, out_axis=0, seed=17, name="w")

    def make(key):
        layer = eqx.nn.Linear(6, 8, key=key)
        return eqx.tree_at(lambda layer: layer.weight, layer, init(key, layer.weight.shape))

    weight = eqx.filter_vmap(make)(jax.random.split(KEY, 3)).weight
    expected = fastinit.lecun_uniform((3, 8, 6), reference.stream_state(17, "w"), layout="eoi", dtype="float32")
    assert np.array_equal(weight, expected)


def test_a_haiku_model_is_made_and_trained():
    hk = peer("haiku")

    def forward(x):
        y = hk.nets.MLP([8, 8])(x) + hk.Embed(5, 8)(jnp.zeros((2, 4), int))
        y = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(
            *[hk.LayerNorm(-1, True, True)(y)] * 3
        )
        y = hk.BatchNorm(True, True, 0.9)(y, is_training=True) + hk.DepthwiseConv1D(1, 3)(y)
        return hk.Conv1D(8, 3)(y) + hk.Conv1DTranspose(8, 3)(y)

    model = hk.transform_with_state(forward)
    x = jnp.linspace(-1, 1, 2 * 4 * 6).reshape(2, 4, 6)
    parameters, state = fj.init_tree(jax.eval_shape(model.init, KEY, x), 17)
    assert_planned((parameters, state))
    assert float(parameters["layer_norm"]["scale"].sum()) == 8.0
    descends(lambda p: ((model.apply(p, state, None, x)[0] - 1) ** 2).mean(), parameters)


def test_haiku_calls_an_initializer_by_shape_and_dtype():
    hk = peer("haiku")
    init = fj.glorot_uniform(seed=17, name="w")
    model = hk.transform(lambda x: hk.Linear(8, w_init=init)(x + 0))
    made = model.init(KEY, jnp.ones((2, 6)))["linear"]["w"]
    assert np.array_equal(made, xavier_weights(reference.stream_state(17, "w"), (6, 8), 14).astype("f4"))


# ---- trees of any kind -------------------------------------------------------------------------------

TREE = {"layers": [{"kernel": Shape((6, 8), jnp.float32), "bias": Shape((8,), jnp.bfloat16)}], "scale": None}


def test_names_are_paths_with_dots_and_a_plan_travels():
    assert list(fj.named_leaves(TREE)) == ["layers.0.bias", "layers.0.kernel"]
    made = fj.init_tree(TREE, 17)
    assert_planned(made)
    assert made["scale"] is None
    assert fastinit.Plan.from_json(planned(TREE).to_json()) == planned(TREE)


def test_under_jit_and_for_shapes():
    for made in (
        jax.jit(lambda: fj.init_tree(TREE, 17))(),
        jax.jit(lambda tree: fj.init_tree(tree, 17))(ones(TREE)),
    ):
        assert_planned(made)


def ones(tree):
    return jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), tree)


def test_shapes_are_told_without_a_draw(monkeypatch):
    monkeypatch.setattr(arrays, "fill", None)
    made = jax.eval_shape(lambda: fj.init_tree({"kernel": Shape((1 << 20, 1 << 20), jnp.float32)}, 17))
    assert made["kernel"].shape == (1 << 20, 1 << 20)


@pytest.mark.parametrize("shardings", [None, PartitionSpec(), {"layers": None, "scale": None}], ids=str)
def test_shardings_may_be_one_or_a_tree_of_prefixes(shardings):
    with jax.set_mesh(jax.make_mesh((1,), ("x",))):
        assert_planned(fj.init_tree(TREE, 17, shardings=shardings))


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.fixture
def no_fill(monkeypatch):
    """Refusals come before anything is made."""
    monkeypatch.setattr(arrays, "fill", None)


def test_a_leaf_that_no_rule_names_is_refused(no_fill):
    with pytest.raises(TensorsRefused, match="mystery"):
        fj.init_tree({**TREE, "mystery": Shape((2, 2), jnp.float32)}, 17)


def test_float64_without_64_bits_is_refused_by_name(no_fill):
    with pytest.raises(TypeError, match=r"leaf 'b\.kernel': JAX would store float64 as float32"):
        fj.init_tree({"a": TREE, "b": {"kernel": Shape((2, 2), np.float64)}}, 17)


def test_two_leaves_of_one_name_are_refused(no_fill):
    with pytest.raises(fastinit.DuplicateName, match=r"a\.kernel"):
        fj.init_tree({"a": {"kernel": Shape((2, 2), "f4")}, "a.kernel": Shape((2, 2), "f4")}, 17)


def test_a_random_key_is_refused_with_what_to_type(no_fill):
    with pytest.raises(PlanError, match=r"leaf 'key' is a random key.*nnx\.split"):
        fj.init_tree({"key": KEY, "kernel": Shape((2, 2), "f4")}, 17)


def test_what_a_policy_leaves_out_keeps_its_values():
    skipping = customized(skip=["*.bias"])
    bias = jnp.arange(8.0)
    made = fj.init_tree({"a": {"kernel": Shape((6, 8), "f4"), "bias": bias}}, 17, skipping)
    assert made["a"]["bias"] is bias
    with pytest.raises(PlanError, match=r"leaves out 'a\.bias', which has no values yet"):
        fj.init_tree({"a": {"kernel": Shape((6, 8), "f4"), "bias": Shape((8,), "f4")}}, 17, skipping)


def test_the_tree_of_a_refused_request_is_as_it_was(no_fill):
    tree = {"kernel": jnp.ones((2, 2)), "mystery": jnp.ones((2, 2))}
    with pytest.raises(TensorsRefused):
        fj.init_tree(tree, 17)
    assert json.dumps(jax.tree.map(lambda leaf: leaf.tolist(), tree)) == json.dumps(
        {"kernel": [[1.0, 1.0]] * 2, "mystery": [[1.0, 1.0]] * 2}
    )
