"""Layouts and headers come from strangers: each lie is refused, at once, without a crash or a huge allocation."""

import contextlib
import json
import re
import time
import tracemalloc

import numpy as np
import pytest
import safetensors
from conftest import MIXED, U64, safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit._files.safetensors import HEADER_LIMIT, read_header
from fastinit._files.sources import bundled_models, read_specs
from fastinit.errors import CheckpointError, FastinitError, InvalidTensorName, PlanError


def entry(dtype="F32", shape=(2, 2), begin=0, end=16, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


def one(**changes):
    """A header of one good tensor called w, changed in one respect."""
    return {"w": {**entry(), **changes}}


def without(key):
    found = entry()
    del found[key]
    return {"w": found}


GOOD = {
    "a": entry(),
    "b": entry("F64", (), 16, 24),
    "c": entry("U8", (0, 3), 24, 24),
    "d": entry("I16", (3,), 24, 30),
}
DATA = bytes(30)

# What is wrong; the file; what the refusal must say.
HOSTILE = [
    ("an empty file", b"", "too short"),
    ("half a length", b"\x10\0\0\0", "too short"),
    ("a length past the format", safetensors_bytes(b"{}", length=HEADER_LIMIT + 1), "allows"),
    ("a length of 2**64 - 1", safetensors_bytes(b"{}", length=U64 - 1), "allows"),
    ("a length past the file", safetensors_bytes(GOOD, length=5000), "claims 5000 bytes"),
    ("a length past the file by one", safetensors_bytes(b"{}", length=3), "claims 3 bytes"),
    ("a header cut off", safetensors_bytes(json.dumps(GOOD).encode()[:-5]), "JSON"),
    ("no header", safetensors_bytes(b""), "JSON"),
    ("not UTF-8", safetensors_bytes(b'{"\xff": 1}'), "JSON"),
    ("UTF-16", safetensors_bytes(json.dumps(one()).encode("utf-16")), "JSON"),
    ("not JSON", safetensors_bytes(b"tensors: none"), "JSON"),
    ("trailing text", safetensors_bytes(b"{} {}"), "JSON"),
    ("zeros", safetensors_bytes(bytes(64)), "JSON"),
    ("a list", safetensors_bytes([]), "list"),
    ("a string", safetensors_bytes("a"), "str"),
    ("null", safetensors_bytes(None), "NoneType"),
    ("deep nesting", safetensors_bytes(b'{"a":' + b"[" * 1_000_000), "JSON"),
    ("deep objects", safetensors_bytes(b'{"a":' * 100_000), "JSON"),
    ("NaN", safetensors_bytes(b'{"a": NaN}'), "NaN"),
    ("Infinity", safetensors_bytes(b'{"a": -Infinity}'), "Infinity"),
    ("an integer of a million digits", safetensors_bytes(b'{"a": ' + b"9" * 1_000_000 + b"}"), "JSON"),
    ("a tensor twice", safetensors_bytes(b'{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"w":2}'),
     "'w' occurs twice"),
    ("a key of a tensor twice", safetensors_bytes(b'{"w":{"dtype":"F32","dtype":"F64"}}'), "'dtype' occurs twice"),
    ("a tensor that is a list", safetensors_bytes({"w": ["F32", [2, 2], [0, 16]]}, bytes(16)), "dtype and shape"),
    ("a tensor that is null", safetensors_bytes({"w": None}), "dtype and shape"),
    ("no dtype", safetensors_bytes(without("dtype"), bytes(16)), "dtype and shape"),
    ("no shape", safetensors_bytes(without("shape"), bytes(16)), "dtype and shape"),
    ("no offsets", safetensors_bytes(without("data_offsets"), bytes(16)), "data_offsets"),
    ("an unknown dtype", safetensors_bytes(one(dtype="F31"), bytes(16)), "'F31'"),
    ("a dtype in lower case", safetensors_bytes(one(dtype="f32"), bytes(16)), "'f32'"),
    ("a dtype that is a list", safetensors_bytes(one(dtype=["F32"]), bytes(16)), "dtype"),
    ("a dtype that is a number", safetensors_bytes(one(dtype=4), bytes(16)), "dtype"),
    ("a shape that is a number", safetensors_bytes(one(shape=4), bytes(16)), "shape"),
    ("a shape that is text", safetensors_bytes(one(shape="22"), bytes(16)), "shape"),
    ("a negative axis", safetensors_bytes(one(shape=[-2, -2]), bytes(16)), "shape"),
    ("a bool axis", safetensors_bytes(one(shape=[True, 4]), bytes(16)), "shape"),
    ("a float axis", safetensors_bytes(one(shape=[2.0, 2]), bytes(16)), "shape"),
    ("a null axis", safetensors_bytes(one(shape=[None]), bytes(16)), "shape"),
    ("a nested axis", safetensors_bytes(one(shape=[[2], 2]), bytes(16)), "shape"),
    ("an axis of 2**64", safetensors_bytes(one(shape=[U64, 0]), bytes(16)), "shape"),
    ("2**64 bytes", safetensors_bytes(one(shape=[2**31, 2**31]), bytes(16)), r"2\*\*64"),
    ("elements that wrap to few", safetensors_bytes(one(shape=[2**32, 2**32 + 4]), bytes(16)), r"2\*\*64"),
    ("very many axes", safetensors_bytes(one(shape=[U64 - 1] * 10_000), bytes(16)), "axes"),
    ("too few bytes for the shape", safetensors_bytes(one(shape=[2, 3]), bytes(16)), "need 24"),
    ("too many bytes for the shape", safetensors_bytes(one(shape=[1]), bytes(16)), "need 4"),
    ("too few bytes for the dtype", safetensors_bytes(one(dtype="F64"), bytes(16)), "need 32"),
    ("an empty span for a scalar", safetensors_bytes(one(shape=[], data_offsets=[0, 0])), "need 4"),
    ("reversed offsets", safetensors_bytes(one(data_offsets=[16, 0]), bytes(16)), "ascending"),
    ("negative offsets", safetensors_bytes(one(data_offsets=[-16, 0]), bytes(16)), "ascending"),
    ("bool offsets", safetensors_bytes(one(data_offsets=[False, True]), bytes(16)), "ascending"),
    ("float offsets", safetensors_bytes(one(data_offsets=[0.0, 16.0]), bytes(16)), "ascending"),
    ("one offset", safetensors_bytes(one(data_offsets=[0]), bytes(16)), "ascending"),
    ("three offsets", safetensors_bytes(one(data_offsets=[0, 8, 16]), bytes(16)), "ascending"),
    ("null offsets", safetensors_bytes(one(data_offsets=None), bytes(16)), "ascending"),
    ("offsets past 2**64", safetensors_bytes(one(data_offsets=[U64, U64 + 16]), bytes(16)), "ascending"),
    ("a hole before the first", safetensors_bytes(one(data_offsets=[4, 20]), bytes(20)), "hole"),
    ("a hole between two", safetensors_bytes({"a": entry(), "b": entry(begin=20, end=36)}, bytes(36)), "hole"),
    ("an overlap", safetensors_bytes({"a": entry(), "b": entry(begin=15, end=31)}, bytes(31)), "overlaps"),
    ("one span twice", safetensors_bytes({"a": entry(), "b": entry()}, bytes(16)), "overlaps"),
    ("metadata a list", safetensors_bytes({"__metadata__": [], **GOOD}, DATA), "__metadata__"),
    ("metadata a number", safetensors_bytes({"__metadata__": {"seed": 17}, **GOOD}, DATA), "__metadata__"),
    ("metadata nested", safetensors_bytes({"__metadata__": {"a": {}}, **GOOD}, DATA), "__metadata__"),
    ("metadata null", safetensors_bytes({"__metadata__": {"a": None}, **GOOD}, DATA), "__metadata__"),
    ("an axis of -0", safetensors_bytes(b'{"w":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}'), "shape"),
    ("offset -0", safetensors_bytes(b'{"w":{"dtype":"F32","shape":[0],"data_offsets":[-0,0]}}'), "ascending"),
    ("a product that overflows before its 0", safetensors_bytes(one(shape=[U64 - 1, 2, 0], data_offsets=[0, 0])),
     r"2\*\*64"),
    ("metadata surrogate", safetensors_bytes({"__metadata__": {"a": "\ud800"}, **GOOD}, DATA), "surrogate"),
    ("data cut off", safetensors_bytes(GOOD, DATA[:-1]), "file of"),
    ("a byte too many", safetensors_bytes(GOOD, DATA + b"\0"), "file of"),
    ("no data", safetensors_bytes(GOOD), "file of"),
]  # fmt: skip
BAD_NAMES = ["a\n", "\0", "a\x1b[2J", "\x7f", "\ud800"]


def refusal(path, content):
    """Open `content` as a header; return the error, having watched time and memory."""
    path.write_bytes(content)
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with path.open("rb") as file, pytest.raises(FastinitError) as caught:
            read_header(file, str(path))
        seconds, peak = time.perf_counter() - began, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seconds < 5, f"a file of {len(content)} bytes kept the reader busy for {seconds:.1f} s"
    assert peak < 1_000_000 + 60 * len(content), f"{len(content)} bytes made the reader take {peak}"
    return caught.value


@pytest.mark.parametrize(("content", "said"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_header_that_lies_is_refused_with_the_file_and_the_lie(tmp_path, content, said):
    error = refusal(tmp_path / "hostile.safetensors", content)
    assert type(error) is CheckpointError
    assert "hostile.safetensors" in str(error)
    assert re.search(said, str(error)), str(error)[:300]
    assert len(str(error)) < 2000, "the refusal repeats the hostile file"


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_a_name_no_terminal_should_print_is_refused(tmp_path, name):
    error = refusal(tmp_path / "named.safetensors", safetensors_bytes({name: entry()}, bytes(16)))
    assert isinstance(error, InvalidTensorName)


def test_an_empty_name_is_refused(tmp_path):
    assert isinstance(refusal(tmp_path / "a", safetensors_bytes({"": entry()}, bytes(16))), fastinit.EmptyName)


@pytest.mark.parametrize("door", ["read_header", "read_specs"])
def test_a_good_header_is_read_as_it_says(tmp_path, door):
    path = tmp_path / "good.safetensors"
    text = json.dumps({"__metadata__": {"format": "pt"}, **GOOD}).encode()
    path.write_bytes(safetensors_bytes(text, DATA))
    safetensors.safe_open(path, "numpy")  # the library agrees that it is good
    if door == "read_header":
        with path.open("rb") as file:
            header = read_header(file, str(path))
        start = 8 + len(text)
        assert header.offsets == {"a": start, "b": start + 16, "c": start + 24, "d": start + 24}
        assert (header.metadata, header.end) == ({"format": "pt"}, start + 30)
        layout = header.specs
    else:
        layout = read_specs(path)
    assert {name: (tensor.dtype.tag, tensor.shape) for name, tensor in layout.items()} == {
        "a": ("F32", (2, 2)), "b": ("F64", ()), "c": ("U8", (0, 3)), "d": ("I16", (3,)),
    }  # fmt: skip
    assert list(layout) == list(GOOD)


def test_a_file_cut_off_after_its_header_is_a_layout_but_not_a_checkpoint(tmp_path):
    path = tmp_path / "header.safetensors"
    path.write_bytes(safetensors_bytes(GOOD))
    assert list(read_specs(path)) == list(GOOD)
    with path.open("rb") as file, pytest.raises(CheckpointError, match="file of"):
        read_header(file, str(path))


@pytest.mark.parametrize("content", [row[1] for row in HOSTILE[:-3]], ids=[row[0] for row in HOSTILE[:-3]])
def test_a_plan_refuses_a_hostile_file_too(tmp_path, content):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        fastinit.Plan.from_layout(path, 17)


JSON_LAYOUTS = [
    (
        "a tensor twice",
        b'{"a":{"dtype":"F32","shape":[2]},"a":{"dtype":"F32","shape":[3]}}',
        "'a' occurs twice",
    ),
    ("not JSON", b"{", "JSON"),
    ("not UTF-8", b'{"\xff":{}}', "JSON"),
    ("a list", b"[]", "list"),
    ("NaN", b'{"a":{"dtype":"F32","shape":[NaN]}}', "NaN"),
    ("deep nesting", b"[" * 200_000, "JSON"),
    ("no shape", b'{"a":{"dtype":"F32"}}', "dtype and shape"),
    ("negative", b'{"a":{"dtype":"F32","shape":[-1]}}', "shape"),
    ("unknown dtype", b'{"a":{"dtype":"F31","shape":[1]}}', "'a' has dtype 'F31'"),
]


@pytest.mark.parametrize(
    ("content", "said"), [row[1:] for row in JSON_LAYOUTS], ids=[row[0] for row in JSON_LAYOUTS]
)
def test_a_malformed_layout_file_is_refused(tmp_path, content, said):
    path = tmp_path / "layout.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        read_specs(path)


def test_a_layout_file_too_large_to_be_one_is_refused_unread(tmp_path):
    path = tmp_path / "layout.json"
    with path.open("wb") as file:
        file.truncate(HEADER_LIMIT + 1)
    tracemalloc.start()
    with pytest.raises(CheckpointError, match="too large"):
        read_specs(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("source", ["gpt5", "", "../layouts/gpt2-124m", "gpt2-124m.json", ".", "a\0b"])
def test_a_layout_that_is_not_there_is_refused_with_the_bundled_names(source):
    with pytest.raises(PlanError, match="gpt2-124m") as caught:
        read_specs(source)
    assert repr(source) in str(caught.value)


def test_a_file_of_a_bundled_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2-124m").write_bytes(safetensors_bytes(GOOD))
    assert list(read_specs("gpt2-124m")) == list(GOOD)


def test_bundled_models_are_sorted_names():
    names = bundled_models()
    assert list(names) == sorted(names)
    assert {"all-minilm-l6-v2", "gpt2-124m", "llama-3.1-405b"} <= set(names)
    assert all(list(read_specs(name)) for name in names)


@pytest.mark.parametrize("entry", [{"dtype": "F32", "shape": [2, 3]}, np.zeros((2, 3)), [2, 3]])
def test_a_tensor_of_the_name_of_the_free_text_is_refused(tmp_path, entry):
    """It was left out of the plan without a word."""
    with pytest.raises(fastinit.InvalidTensorName, match="call the tensor something else"):
        fastinit.Plan.from_layout({"__metadata__": entry, "w": {"dtype": "F32", "shape": [2, 3]}}, 17)
    if not isinstance(entry, np.ndarray):
        path = tmp_path / "specs.json"
        path.write_text(json.dumps({"__metadata__": entry}))
        with pytest.raises(fastinit.InvalidNameInFile, match="call the tensor something else"):
            fastinit.Plan.from_specs(path, 17)


def test_the_free_text_of_a_saved_header_is_no_tensor():
    """Its keys are anyone's, "dtype" and "shape" too; its values are strings, which no shape is."""
    for text in ({}, {"format": "pt"}, {"dtype": "F32", "shape": "2"}):
        assert list(
            fastinit.Plan.from_specs({"__metadata__": text, "w": {"dtype": "F32", "shape": [2, 3]}}, 17)
        ) == ["w"]


def test_a_mapping_is_a_layout():
    assert list(read_specs(MIXED)) == list(MIXED)
    assert read_specs(read_specs(MIXED)) == read_specs(MIXED)
    for bad in ({"a": 1}, {"a": {"dtype": "F32", "shape": [-1]}}, {"a": {"dtype": "F99", "shape": []}}):
        with pytest.raises(CheckpointError, match="'a'"):
            read_specs(bad)
    with pytest.raises(TypeError):
        read_specs({3: {"dtype": "F32", "shape": []}})


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "fuzzed.safetensors"


def accepted(path, content):
    """Whether our reader takes the file; only FastinitError may escape."""
    path.write_bytes(content)
    try:
        with path.open("rb") as file:
            read_header(file, str(path))
    except FastinitError:
        taken = False
    else:
        taken = True
    with contextlib.suppress(FastinitError):
        fastinit.verify_checkpoint(path)
    return taken


@settings(max_examples=150, deadline=None)
@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused_or_read(scratch, content):
    accepted(scratch, content)


@settings(max_examples=150, deadline=None)
@given(text=st.binary(max_size=100), data=st.binary(max_size=20))
def test_random_headers_of_the_right_length_are_refused_or_read(scratch, text, data):
    accepted(scratch, safetensors_bytes(text, data))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "real.safetensors"
    fastinit.write_checkpoint(fastinit.Plan.from_layout(MIXED, 17), path)
    return path.read_bytes()


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_mutated_real_header_is_accepted_only_where_the_library_accepts_it(scratch, real, data):
    """What we accept and the library refuses would verify here and load nowhere."""
    length = int.from_bytes(real[:8], "little") + 8
    content = bytearray(real)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, length - 1))
        how = data.draw(st.sampled_from(["set", "digit", "delete", "insert", "swap"]))
        if how == "set":
            content[position] = data.draw(st.integers(0, 255))
        elif how == "digit":
            content[position] = data.draw(st.sampled_from(b'0123456789-.,:"[]{}eE '))
        elif how == "delete":
            del content[position]
        elif how == "insert":
            content.insert(position, data.draw(st.sampled_from(b'0123456789-.,:"[]{}\\u\n')))
        else:
            other = data.draw(st.integers(0, length - 1))
            content[position], content[other] = content[other], content[position]
    if accepted(scratch, bytes(content)):
        safetensors.deserialize(bytes(content))


SHAPES = st.lists(st.integers(-1, 5) | st.sampled_from([2**31, 2**63, U64 - 1, U64, 1.5, True, None]), max_size=4)
OFFSETS = st.lists(st.integers(0, 40) | st.sampled_from([-1, 2**63, U64, 0.5, None]), min_size=1, max_size=3)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "BF16", "F64", "BOOL", "C64", "F4", "F6_E2M3", "X", None, 4]),
        "shape": SHAPES,
        "data_offsets": OFFSETS,
    }
)


@settings(max_examples=400, deadline=None)
@given(header=st.dictionaries(st.text(max_size=3), ENTRIES, max_size=3), size=st.integers(0, 60))
def test_a_well_formed_header_of_nonsense_is_accepted_only_where_the_library_accepts_it(scratch, header, size):
    content = safetensors_bytes(header, bytes(size))
    if accepted(scratch, content):
        safetensors.deserialize(content)
