"""JSON from strangers is read as `json` reads it, strictly, and in memory that its own length bounds."""

import json
import tracemalloc

import pytest
from conftest import safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit._files import json_text
from fastinit._files.json_text import JsonText, parse_object
from fastinit._files.safetensors import read_cut_header
from fastinit._files.sources import read_specs
from fastinit.diagnosis import diagnose
from fastinit.errors import CheckpointError, FastinitError

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=300)
@given(
    data=st.dictionaries(st.text(), ANY, max_size=5),
    window=st.sampled_from([1, 2, 3, 10, 1 << 16]),
    first=st.sampled_from([1, 8, 512]),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_a_text_in_pieces_is_the_object_that_json_reads(data, window, first, ascii_only, indent):
    """A number, an escape or a character of several bytes may be cut by the end of a piece."""
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent).encode("utf-8")
    saved = json_text._WINDOW, json_text._FIRST
    json_text._WINDOW, json_text._FIRST = window, first
    try:
        assert parse_object(text, "t") == parse_object(text.decode(), "t") == data
    finally:
        json_text._WINDOW, json_text._FIRST = saved


@given(text=st.text(alphabet='{}[]",:0\\- \nae', max_size=12))
def test_what_json_refuses_is_refused(text):
    try:
        expected = json.loads("{" + text)
    except ValueError:
        expected = None
    try:
        found = parse_object("{" + text, "t")
    except CheckpointError:
        found = None
    assert found == expected or found is None  # a key twice is refused here only


SIZE = 6_000_000
BLOATED = {
    "lists": b'{"a":[' + b"[]," * (SIZE // 3) + b"0]}",
    "objects": b'{"a":[' + b'{"":0},' * (SIZE // 7) + b"0]}",
    "numbers": b'{"a":[' + b"-0," * (SIZE // 3) + b"0]}",
    "free text": b'{"__metadata__":{' + b",".join(b'"%x":""' % i for i in range(SIZE // 12)) + b"}}",
    "a name": b'{"' + b"conv" * (SIZE // 4) + b'":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    "one wide character": ('{"__metadata__":{"a":"😀' + "x" * SIZE + '"},"b":0}').encode(),
    "keys of an entry": b'{"a":{' + b",".join(b'"%x":0' % i for i in range(SIZE // 12)) + b"}}",
    "tensors": b"{" + b",".join(
        b'"%x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(SIZE // 55)) + b"}",
}  # fmt: skip


def peak_of(work):
    """The most bytes of Python objects alive inside `work`, and the refusal that ended it, if one did."""
    error = None
    tracemalloc.start()
    try:
        work()
    except FastinitError as refusal:
        error = refusal
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, error


@pytest.mark.parametrize("kind", BLOATED)
def test_a_header_takes_a_small_multiple_of_its_length(tmp_path, kind):
    """3 bytes of ``[],`` are 64 of Python: 100 MB of them took 2.5 GB, before anything was refused."""
    path = tmp_path / "bloated.safetensors"
    path.write_bytes(safetensors_bytes(BLOATED[kind], bytes(4)))

    def read():
        with path.open("rb") as file:
            read_cut_header(file, str(path))

    peak, error = peak_of(read)
    assert peak < 10_000_000 + 6 * SIZE, f"{peak / SIZE:.1f} times its length"
    assert (error is None) == (kind == "tensors")
    if error is not None:
        assert isinstance(error, CheckpointError)
        assert "bloated.safetensors" in str(error)
        assert len(str(error)) < 1000


@pytest.mark.parametrize("kind", ["lists", "objects", "numbers"])
@pytest.mark.parametrize("door", ["specs", "index", "plan"])
def test_other_json_takes_a_small_multiple_of_its_length_too(tmp_path, kind, door):
    """An index, a JSON file of specs and a plan come from the same strangers as a header."""
    path = tmp_path / {"specs": "m.json", "index": "m.safetensors.index.json", "plan": "p.json"}[door]
    path.write_bytes(BLOATED[kind].replace(b'"a"', b'"weight_map"' if door == "index" else b'"a"', 1))
    work = {
        "specs": lambda: read_specs(path),
        "index": lambda: diagnose(path),
        "plan": lambda: fastinit.Plan.from_json(path.read_text()),
    }[door]
    peak, error = peak_of(work)
    assert peak < 10_000_000 + 6 * SIZE, f"{peak / SIZE:.1f} times its length"
    assert error is not None


@pytest.mark.parametrize("unit", ["x", "\\\\", '\\"', "\\u00e9", "\\ud83d\\ude00", "é", "😀", "\\ud83d\\ude00\\n"])
@pytest.mark.parametrize("shift", [0, 1, 2, 3, 5, 7, 11])
def test_a_long_string_is_cut_between_its_characters(unit, shift, monkeypatch):
    """A plan in a file's metadata is 15 MB of text: cut inside an escape, it would read otherwise."""
    monkeypatch.setattr(json_text, "_WINDOW", 64)
    text = '"' + "x" * shift + unit * 500 + '"'
    assert parse_object(('{"a": ' + text + "}").encode(), "t") == {"a": json.loads(text)}


@pytest.mark.parametrize("fault", ["\\x", "\\u12", "\\u12g4", "\n", "\\"])
def test_a_fault_far_inside_a_long_string_is_refused(fault, monkeypatch):
    monkeypatch.setattr(json_text, "_WINDOW", 64)
    with pytest.raises(CheckpointError, match="JSON"):
        parse_object(('{"a": "' + "x" * 500 + fault + "x" * 500 + '"}').encode(), "t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'{"a": ' + b"9" * 1001 + b"}", "a number in its JSON has 1001 digits; at most 1000 are read"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"\xc3\xa9": "\xff"}', "not UTF-8 from byte 8 on"),
        (b'{"\xc3\xa9": 1, "' + b"x" * 300 + b'\xe9": 2}', "not UTF-8 from byte 311 on"),
        (b'{"a": "\xc3', "not UTF-8 from byte 7 on"),
    ],
    ids=["digits", "nesting", "a byte", "a byte far in", "a character cut off"],
)
@pytest.mark.parametrize("window", [1, 7, 1 << 16])
def test_a_refusal_says_what_is_wrong_and_not_how_python_reads(text, said, window, monkeypatch):
    """Python speaks of sys.set_int_max_str_digits, of its recursion limit, and of a codec and its piece."""
    monkeypatch.setattr(json_text, "_WINDOW", window)
    with pytest.raises(CheckpointError, match=said):
        parse_object(text, "t")


def test_a_value_too_long_is_refused_by_its_key():
    text = '{"a": 1, "w": [' + "1," * json_text.VALUE_LIMIT + "1]}"
    with pytest.raises(CheckpointError, match=r"the value of 'w' is malformed, or longer than 262,144 characters"):
        parse_object(text, "t")
    assert len(parse_object('{"w": "' + "x" * json_text.VALUE_LIMIT + '"}', "t")["w"]) == json_text.VALUE_LIMIT


def test_an_object_inside_is_walked_member_by_member():
    walk, outer, inner = JsonText('{"a": {"b": 1, "c": [2]}, "d": 3}', "t"), {}, {}
    for key in walk.members(outer):
        if key == "a":
            for name in walk.members(inner):
                inner[name] = walk.value()
            outer[key] = inner
        else:
            outer[key] = walk.value()
    walk.end()
    assert outer == {"a": {"b": 1, "c": [2]}, "d": 3}
