"""Plans: a whole model as data. Any part, on any machine, must be that part of the one whole."""

import dataclasses
import hashlib
import json

import numpy as np
import pytest
from conftest import GAMMA, MIXED, U64, bits, xavier_weights
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit import Plan, PlannedTensor
from fastinit._engine.distributions import CenteredUniform, Constant, Normal, Positions
from fastinit._engine.dtypes import BY_NAME
from fastinit.errors import (
    CheckpointError,
    DuplicateName,
    EmptyName,
    FastinitError,
    InvalidTensorName,
    PlanError,
    StreamOverlap,
)
from fastinit.initializers import xavier

MODEL = {
    "embed.weight": {"dtype": "F64", "shape": [7, 4]},
    "norm.weight": {"dtype": "F64", "shape": [4]},
    "layers.0.weight": {"dtype": "F64", "shape": [4, 6]},
    "layers.0.bias": {"dtype": "F64", "shape": [6]},
    "conv.weight": {"dtype": "F64", "shape": [5, 2, 3]},
}
INSERTED = {"extra.weight": {"dtype": "F64", "shape": [3, 3]}}


def state_of(seed, name):
    """The start of a named stream, from C5's words."""
    text = b"fastinit/stream/v1\0" + seed.to_bytes(8, "little") + name.encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def arrays(layout, seed=17, order="named", **options):
    plan = Plan.from_specs(layout, seed, order=order, **options)
    return {name: plan.array(name) for name in plan}


def test_a_tensor_of_a_named_plan_is_its_named_stream():
    found = arrays(MODEL)
    assert np.array_equal(found["embed.weight"], xavier_weights(state_of(17, "embed.weight"), (7, 4), 11))
    assert np.array_equal(found["conv.weight"], xavier_weights(state_of(17, "conv.weight"), (5, 2, 3), 21))
    assert found["norm.weight"].tolist() == [1.0] * 4
    assert found["layers.0.bias"].tolist() == [0.0] * 6


def test_adding_removing_or_reordering_layers_moves_nothing_in_a_named_plan():
    before = arrays(MODEL)
    rearranged = {**INSERTED, **dict(reversed(MODEL.items()))}
    del rearranged["layers.0.bias"]
    after = arrays(rearranged)
    assert {name: bits(after[name]) for name in MODEL if name in after} == {
        name: bits(before[name]) for name in MODEL if name in after
    }


def test_adding_a_layer_moves_what_follows_it_in_a_sequential_plan():
    before, after = arrays(MODEL, order="sequential"), arrays({**INSERTED, **MODEL}, order="sequential")
    assert bits(before["embed.weight"]) != bits(after["embed.weight"])
    appended = arrays({**MODEL, **INSERTED}, order="sequential")
    assert all(bits(before[name]) == bits(appended[name]) for name in MODEL)


def test_a_sequential_plan_is_one_generator_used_tensor_by_tensor():
    """Constants take no draws: counting some for them would shift every later layer."""
    rng = fastinit.SplitMix64(17)
    shared = {
        name: fastinit.xavier_uniform(MODEL[name]["shape"], rng, layout=layout)
        for name, layout in (("embed.weight", "io"), ("layers.0.weight", "io"), ("conv.weight", "oiw"))
    }
    found = arrays(MODEL, order="sequential")
    for name, array in shared.items():
        assert bits(found[name]) == bits(array)
    assert np.array_equal(found["embed.weight"], xavier_weights(17, (7, 4), 11))
    assert np.array_equal(found["conv.weight"], xavier_weights((17 + 52 * GAMMA) % U64, (5, 2, 3), 21))


def test_seeds_and_orders_give_other_weights():
    variants = [arrays(MODEL), arrays(MODEL, seed=18), arrays(MODEL, order="sequential")]
    assert len({bits(variant["embed.weight"]) for variant in variants}) == 3


@pytest.mark.parametrize("seed", [0, U64 - 1, np.uint64(U64 - 1)])
def test_the_ends_of_the_seed_range_are_seeds(seed):
    assert Plan.from_specs(MODEL, seed)["embed.weight"].state == state_of(int(seed), "embed.weight")


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        (1.9, TypeError),
        (True, TypeError),
        (None, TypeError),
        ("17", TypeError),
        (-1, ValueError),
        (U64, ValueError),
    ],
)
def test_a_seed_is_an_integer_of_64_bits(seed, error):
    with pytest.raises(error, match="seed") as caught:
        Plan.from_specs(MODEL, seed)
    assert type(caught.value) is error


INDICES = [
    0, -1, slice(1, 3), slice(None, None, -2), ..., (slice(2), 1), (..., 0), (slice(None), slice(None, None, 2)),
    (), (1, 1),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("order", ["named", "sequential"])
def test_a_part_of_a_planned_tensor_is_that_part_of_the_whole(order, index):
    plan = Plan.from_specs(MIXED, 17, order=order)
    for name, tensor in plan.items():
        if len(tensor.shape) != 2 or min(tensor.shape) < 3:
            continue
        whole = plan.array(name)
        assert bits(plan.array(name, index=index)) == bits(whole[index]), name


def test_a_part_of_a_tensor_too_large_for_any_machine_can_be_drawn():
    """Forty machines each draw their shard; none of them could hold the whole."""
    plan = Plan.from_specs({"huge.weight": {"dtype": "F64", "shape": [2**30, 2**30]}}, 17)
    first = ((2**30 - 2) * 2**30 + 5) * GAMMA
    part = plan.array("huge.weight", index=(-2, slice(5, 9)))
    state = (state_of(17, "huge.weight") + first) % U64
    assert np.array_equal(part, xavier_weights(state, (4,), 2**31))


def test_an_array_is_written_where_it_is_wanted():
    plan = Plan.from_specs(MODEL, 17)
    out = np.zeros((4, 7)).T
    assert plan.array("embed.weight", out=out) is out
    assert np.array_equal(out, plan.array("embed.weight"))
    with pytest.raises(TypeError, match="float64"):
        plan.array("embed.weight", out=np.zeros((7, 4), np.float32))
    with pytest.raises(KeyError):
        plan.array("absent")


def test_the_dtype_override_touches_floats_only():
    plan = Plan.from_specs(MIXED, 17, dtype="float32")
    for name, tensor in plan.items():
        integer = MIXED[name]["dtype"].startswith("I")
        assert tensor.dtype.tag == (MIXED[name]["dtype"] if integer else "F32"), name


def test_a_narrower_override_is_the_same_model_rounded():
    """C11: streams must not depend on the dtype."""
    wide, narrow = arrays(MODEL), arrays(MODEL, dtype="float32")
    assert all(bits(narrow[name]) == bits(wide[name].astype(np.float32)) for name in MODEL)


@pytest.mark.parametrize("dtype", ["int64", "complex128", "f99", bool, "object"])
def test_an_override_that_holds_no_weights_is_refused(dtype):
    with pytest.raises(TypeError, match="dtype must be one of"):
        Plan.from_specs(MODEL, 17, dtype=dtype)


def planned(name, state=0, shape=(2, 2), content=None, dtype="float32"):
    content = CenteredUniform(1.0) if content is None else content
    return PlannedTensor(name, shape, BY_NAME[dtype], "xavier_uniform", content, state)


def test_two_tensors_that_would_share_a_draw_are_refused_by_both_names():
    for distance in (0, 1, 3, -3):
        pair = [planned("left"), planned("right", distance * GAMMA % U64)]
        for tensors in (pair, pair[::-1]):
            with pytest.raises(StreamOverlap, match=r"'(left|right)'.*'(left|right)'") as caught:
                Plan(17, "xavier", "named", tensors)
            assert {caught.value.first, caught.value.second} == {"left", "right"}


def test_streams_that_touch_without_overlapping_are_accepted():
    for distance in (4, -4):
        assert len(Plan(17, "xavier", "named", [planned("a"), planned("b", distance * GAMMA % U64)])) == 2
    same = [planned("a"), planned("b", shape=(0, 2)), planned("c", content=Constant(1.0))]
    assert len(Plan(17, "xavier", "named", same)) == 3


def test_a_tensor_longer_than_the_generators_cycle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        Plan(17, "xavier", "named", [planned("long", shape=(2**40, 2**40))])


def test_a_name_given_twice_is_refused_with_both_positions():
    with pytest.raises(DuplicateName) as caught:
        Plan(17, "xavier", "named", [planned("a"), planned("b", 99), planned("a", 77777)])
    assert (caught.value.first, caught.value.repeated) == (0, 2)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", EmptyName),
        ("a\n", InvalidTensorName),
        ("\ud800", InvalidTensorName),
        ("__metadata__", InvalidTensorName),
    ],
)
def test_a_name_no_checkpoint_can_carry_is_refused_by_the_plan(name, error):
    """C20; and `__metadata__` is the header's own key: a tensor of that name would overwrite the seed."""
    with pytest.raises(error):
        Plan(17, "xavier", "named", [planned(name)])


def test_an_order_that_verify_cannot_replay_is_refused():
    with pytest.raises(PlanError, match="named, sequential"):
        Plan(17, "xavier", "random", [])


def test_content_that_does_not_fit_its_dtype_is_refused_by_name():
    with pytest.raises(PlanError, match="'wide'"):
        Plan(17, "xavier", "named", [planned("wide", content=Constant(1e6), dtype="float16")])


def test_a_plan_is_a_mapping_that_compares_by_content():
    plan = Plan.from_specs(MODEL, 17)
    assert plan == Plan.from_specs(MODEL, 17)
    assert plan != Plan.from_specs(MODEL, 18)
    assert plan != Plan.from_specs(MODEL, 17, order="sequential")
    assert plan != dict(plan)
    assert len(plan) == 5
    assert list(plan) == list(MODEL)
    assert plan.nbytes == 8 * (28 + 4 + 24 + 6 + 30)
    assert plan.draws == 28 + 24 + 30
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan["embed.weight"].state = 0
    with pytest.raises(TypeError):
        hash(plan)


@pytest.mark.parametrize("order", ["named", "sequential"])
def test_json_carries_a_plan_whole(order):
    plan = Plan.from_specs({**MIXED, "模型.weight": {"dtype": "F32", "shape": [2, 3]}}, U64 - 1, order=order)
    text = plan.to_json()
    json.loads(text, parse_constant=pytest.fail)
    again = Plan.from_json(text)
    assert again == plan
    assert (again.seed, again.policy, again.order) == (U64 - 1, "xavier", order)
    for name in plan:
        assert again[name] == plan[name]
        assert bits(again.array(name)) == bits(plan.array(name))


def altered(change):
    """Return the JSON of a good plan after `change` was applied to its object."""
    data = json.loads(Plan.from_specs(MODEL, 17).to_json())
    change(data)
    return json.dumps(data)


def put(*path):
    *keys, last, value = path

    def change(data):
        for key in keys:
            data = data[key]
        data[last] = value

    return change


EMBED = ("tensors", "embed.weight")


def positions(length):
    entry = {"dtype": "int64", "shape": [7], "scheme": "positions", "state": 0}
    return altered(put(*EMBED, {**entry, "content": {"kind": "positions", "length": length}}))


MALFORMED = [
    ("empty", ""),
    ("not JSON", "{"),
    ("null", "null"),
    ("a list", "[]"),
    ("a number", "17"),
    ("no keys", "{}"),
    ("deep nesting", "[" * 200_000),
    ("a key twice", altered(put(*EMBED, "seed", 1))[:-1] + ', "seed": 18}'),
    ("a tensor twice", '{"version":1,"seed":1,"policy":"xavier","order":"named","tensors":'
     '{"a":{"dtype":"float32","shape":[],"scheme":"zeros","content":{"kind":"constant","value":0.0},"state":0},'
     '"a":{"dtype":"float32","shape":[],"scheme":"ones","content":{"kind":"constant","value":1.0},"state":0}}}'),
    ("another version", altered(put("version", 2))),
    ("version true", altered(put("version", None))),
    ("no seed", altered(lambda data: data.pop("seed"))),
    ("seed float", altered(put("seed", 1.5))),
    ("seed negative", altered(put("seed", -1))),
    ("seed too large", altered(put("seed", U64))),
    ("seed true", altered(put("seed", True))),
    ("unknown order", altered(put("order", "random"))),
    ("policy null", altered(put("policy", None))),
    ("scheme a list", altered(put(*EMBED, "scheme", []))),
    ("order null", altered(put("order", None))),
    ("tensors a list", altered(put("tensors", []))),
    ("tensors null", altered(put("tensors", None))),
    ("tensor null", altered(put(*EMBED, None))),
    ("empty name", altered(lambda data: data["tensors"].update({"": data["tensors"]["embed.weight"]}))),
    ("a line break", altered(lambda data: data["tensors"].update({"\n": data["tensors"].pop("conv.weight")}))),
    ("unknown dtype", altered(put(*EMBED, "dtype", "float31"))),
    ("dtype a list", altered(put(*EMBED, "dtype", []))),
    ("shape text", altered(put(*EMBED, "shape", "77"))),
    ("shape object", altered(put(*EMBED, "shape", {}))),
    ("shape null", altered(put(*EMBED, "shape", None))),
    ("shape negative", altered(put(*EMBED, "shape", [7, -4]))),
    ("shape bool", altered(put(*EMBED, "shape", [7, True]))),
    ("shape float", altered(put(*EMBED, "shape", [7.0, 4]))),
    ("shape too large", altered(put(*EMBED, "shape", [U64, 4]))),
    ("more elements than the cycle", altered(put(*EMBED, "shape", [2**40, 2**40]))),
    ("state missing", altered(lambda data: data["tensors"]["embed.weight"].pop("state"))),
    ("state negative", altered(put(*EMBED, "state", -1))),
    ("content null", altered(put(*EMBED, "content", None))),
    ("content empty", altered(put(*EMBED, "content", {}))),
    ("unknown kind", altered(put(*EMBED, "content", {"kind": "normal", "std": 1.0}))),
    ("kind a list", altered(put(*EMBED, "content", {"kind": [], "limit": 1.0}))),
    ("limit missing", altered(put(*EMBED, "content", {"kind": "centered_uniform"}))),
    ("limit text", altered(put(*EMBED, "content", {"kind": "centered_uniform", "limit": "1"}))),
    ("limit bool", altered(put(*EMBED, "content", {"kind": "centered_uniform", "limit": True}))),
    ("limit negative", altered(put(*EMBED, "content", {"kind": "centered_uniform", "limit": -1.0}))),
    ("limit infinite", altered(put(*EMBED, "content", {"kind": "centered_uniform", "limit": float("inf")}))),
    ("limit nan", altered(put(*EMBED, "content", {"kind": "centered_uniform", "limit": float("nan")}))),
    ("value past float64", altered(put(*EMBED, "content", {"kind": "constant", "value": 10**400}))),
    ("value 1e999", altered(put(*EMBED, "content", {"kind": "constant", "value": 0.5})).replace("0.5", "1e999")),
    ("reversed interval", altered(put(*EMBED, "content", {"kind": "uniform", "low": 1.0, "high": 0.0}))),
    ("positions of no length", positions(0)),
    ("positions negative", positions(-3)),
    ("positions fractional", positions(2.5)),
    ("positions infinite", positions(3.5).replace("3.5", "1e999")),
    ("one stream twice", altered(put("tensors", "layers.0.weight", "state", state_of(17, "embed.weight")))),
]  # fmt: skip


@pytest.mark.parametrize("text", [row[1] for row in MALFORMED], ids=[row[0] for row in MALFORMED])
def test_json_that_no_plan_wrote_is_refused(text):
    """Plans travel between machines; a damaged one must not become another model."""
    with pytest.raises(PlanError):
        Plan.from_json(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
PATHS = [
    (key,) for key in ("version", "seed", "policy", "order", "tensors")
] + [(*EMBED, key) for key in ("dtype", "shape", "scheme", "content", "state")]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(PATHS), value=JSON)
def test_no_value_anywhere_in_a_plan_escapes_as_another_error(path, value):
    try:
        plan = Plan.from_json(altered(put(*path, value)))
        if plan.nbytes < 10_000:
            assert all(plan.array(name).shape == plan[name].shape for name in plan)
    except FastinitError:
        pass


@settings(max_examples=60, deadline=None)
@given(st.permutations(list(MODEL)), st.integers(0, U64 - 1))
def test_any_order_of_layers_gives_the_same_named_streams(names, seed):
    plan = Plan.from_specs({name: MODEL[name] for name in names}, seed)
    assert all(plan[name].state == state_of(seed, name) for name in names)


@pytest.mark.parametrize(("tag", "shape"), [("I64", [0]), ("U8", [0]), ("I64", [5, 0])])
def test_an_empty_position_buffer_is_planned_and_read_back(tag, shape):
    """A plan that `to_json` writes and `from_json` refuses."""
    plan = Plan.from_specs({"a.position_ids": {"dtype": tag, "shape": shape}}, 17)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("name", ["token_mixer.0.weight", "tokenizer.encoder.layers.0.weight"])
def test_a_convolution_beneath_a_token_module_is_one(name):
    """(out, in, kernel) whose input axis is taken for a stack: a limit three times too wide."""
    weight = Plan.from_specs({name: {"dtype": "F32", "shape": [64, 32, 3]}}, 17)[name]
    assert weight.distribution.limit == pytest.approx((6 / ((64 + 32) * 3)) ** 0.5)


def test_a_planned_tensor_takes_a_dtype_by_name():
    """A plan of one's own: `"float32".itemsize` is no number of bytes."""
    by_name = fastinit.PlannedTensor("w", (3, 3), "float32", "normal", Normal(), 17)
    assert by_name == fastinit.PlannedTensor("w", [3, 3], BY_NAME["float32"], "normal", Normal(), 17)
    plan = Plan(17, "mine", "named", [by_name])
    assert plan.array("w").tobytes() == fastinit.normal((3, 3), 17, dtype="float32").tobytes()
    assert fastinit.PlannedTensor("ids", (4,), "int64", "positions", Positions(4), 0).nbytes == 32


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "float33"}, "dtype must be one of float64"),
        ({"shape": (2, -1)}, "shape entry"),
        ({"state": -1}, "state must be between"),
        ({"distribution": xavier()}, r"initializer\.for_shape\(shape\)"),
        ({"distribution": None}, r"initializer\.for_shape\(shape\)"),
    ],
)
def test_a_planned_tensor_refuses_what_no_plan_can_hold(change, said):
    good = {
        "name": "w",
        "shape": (2, 2),
        "dtype": "float32",
        "initializer": "n",
        "distribution": Normal(),
        "state": 0,
    }
    with pytest.raises((TypeError, ValueError), match=said):
        fastinit.PlannedTensor(**(good | change))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1]", "expected a JSON object, got list"),
        ("{", "is not valid JSON"),
        ("{}", "it has no 'version'"),
        ('{"version": 2}', "its version is 2; this fastinit reads 1"),
        ('{"version": 1, "tensors": []}', "its 'tensors': expected a JSON object, got list"),
        ('{"version": 1, "tensors": {"w": 3}}', "tensor 'w' has no 'shape'"),
        ('{"version": 1, "tensors": {}}', "it has no 'seed'"),
        ('{"version": 1, "seed": -1, "policy": "x", "order": "named", "tensors": {}}', "seed must be between"),
        ('{"version": 1, "seed": 1, "policy": "x", "order": "wide", "tensors": {}}', "order must be one of"),
    ],
)
def test_text_that_is_no_plan_is_refused_in_one_sentence(text, said):
    """A repr of somebody else's exception inside a sentence."""
    with pytest.raises(PlanError) as refused:
        Plan.from_json(text)
    sentence = str(refused.value)
    assert said in sentence
    assert sentence.startswith("this is not a plan: ")
    assert sentence.endswith("; Plan.to_json and `fastinit show --json` write one")
    assert "Error(" not in sentence


def test_an_entry_with_a_key_that_nothing_reads_is_refused():
    """`groups` or `std` in a specs file, ignored in silence, while the weights follow the policy."""
    for key in ("groups", "std"):
        with pytest.raises(CheckpointError, match=f"tensor 'w' has the key '{key}', which nothing here reads"):
            Plan.from_specs({"w": {"dtype": "F32", "shape": [2, 2], key: 4}}, 17)
