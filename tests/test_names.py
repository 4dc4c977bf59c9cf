"""The two grammars of names: a name that slips through is a parameter nobody can look up."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastinit
from fastinit._engine.names import check_tensor_name, refuse_duplicates
from fastinit.errors import EmptyName, EmptyNameSegment, InvalidNameCharacter, InvalidTensorName
from fastinit.policies import UserRule, customized

REFUSED = [
    # Each fault alone, at each place it can stand.
    ("", EmptyName, ()),
    (".", EmptyNameSegment, (0,)),
    (".a", EmptyNameSegment, (0,)),
    ("a.", EmptyNameSegment, (2,)),
    ("a..b", EmptyNameSegment, (2,)),
    ("a.b..", EmptyNameSegment, (4,)),
    ("Decoder.weight", InvalidNameCharacter, (0, 0x44)),
    ("decoder.Weight", InvalidNameCharacter, (8, 0x57)),
    ("a-b", InvalidNameCharacter, (1, 0x2D)),
    ("a b", InvalidNameCharacter, (1, 0x20)),
    ("a\n", InvalidNameCharacter, (1, 0x0A)),
    ("a\0", InvalidNameCharacter, (1, 0x00)),
    ("a/b", InvalidNameCharacter, (1, 0x2F)),
    # One outside each end of the three allowed ranges.
    ("`", InvalidNameCharacter, (0, 0x60)),
    ("{", InvalidNameCharacter, (0, 0x7B)),
    (":", InvalidNameCharacter, (0, 0x3A)),
    ("^", InvalidNameCharacter, (0, 0x5E)),
    # Positions count bytes of UTF-8; letters and digits of other scripts are not letters and digits here.
    ("é", InvalidNameCharacter, (0, 0xC3)),
    ("aé", InvalidNameCharacter, (1, 0xC3)),
    ("ab日", InvalidNameCharacter, (2, 0xE6)),
    ("\u0663", InvalidNameCharacter, (0, 0xD9)),
    ("a\U0001f600", InvalidNameCharacter, (1, 0xF0)),
    ("a.\ud800", InvalidNameCharacter, (2, 0xED)),
    # Two faults: the first from the left is the error.
    ("..A", EmptyNameSegment, (0,)),
    ("A..", InvalidNameCharacter, (0, 0x41)),
    ("a.B..c", InvalidNameCharacter, (2, 0x42)),
    ("a..B", EmptyNameSegment, (2,)),
    ("aé.", InvalidNameCharacter, (1, 0xC3)),
    ("a.Z.", InvalidNameCharacter, (2, 0x5A)),
]


@pytest.mark.parametrize(("name", "error", "facts"), REFUSED)
def test_the_first_fault_from_the_left_is_the_error(name, error, facts):
    with pytest.raises(error) as caught:
        fastinit.validate_name(name)
    assert type(caught.value) is error
    assert caught.value.args == facts


@pytest.mark.parametrize("name", ["a", "0", "_", "decoder.block.0.query.weight", "a.0._", "z9_." * 9 + "a"])
def test_a_name_within_the_grammar_is_accepted(name):
    assert fastinit.validate_name(name) is None


@given(st.text(alphabet="az09_..AZé日 \ud800\n", max_size=8))
def test_any_name_is_judged_as_the_grammar_says(name):
    encoded = name.encode("utf-8", "surrogatepass")
    wrong = re.search(rb"[^a-z0-9_.]", encoded)
    empty = re.search(rb"(?:^|(?<=\.))(?:(?=\.)|$)", encoded)
    faults = []
    if wrong:
        faults.append((wrong.start(), InvalidNameCharacter, (wrong.start(), encoded[wrong.start()])))
    if empty:
        faults.append((empty.start(), EmptyNameSegment, (empty.start(),)))
    if not name:
        faults = [(0, EmptyName, ())]
    if not faults:
        fastinit.validate_name(name)
        return
    _, error, facts = min(faults, key=lambda fault: fault[0])
    with pytest.raises(error) as caught:
        fastinit.validate_name(name)
    assert caught.value.args == facts


@pytest.mark.parametrize("name", [None, b"a", 3, ["a"], True])
@pytest.mark.parametrize("check", [fastinit.validate_name, check_tensor_name])
def test_what_is_no_text_is_a_type_error_that_shows_it(check, name):
    with pytest.raises(TypeError, match=re.escape(repr(name))):
        check(name)


@pytest.mark.parametrize(
    "name", ["embeddings.LayerNorm.weight", "模型.权重", "a b", "..", ".a", "A", "😀", " ", "a" * 5000, "é/\\"]
)
def test_tensor_names_of_other_tools_pass_unchanged(name):
    """C20: a plan that renames a tensor makes a checkpoint no model can load."""
    assert check_tensor_name(name) is None
    policy = customized(rules=[UserRule("*", "zeros")])
    assert list(fastinit.Plan.from_layout({name: {"dtype": "F32", "shape": [2, 2]}}, 0, policy)) == [name]


@pytest.mark.parametrize(
    ("name", "index"),
    [("\n", 0), ("ab\0", 2), ("a\x1bb", 1), ("\x7f", 0), ("é\x85", 1), ("a\ud800", 1), ("\udfff", 0)],
)
def test_tensor_names_that_no_file_or_terminal_can_carry_are_refused(name, index):
    with pytest.raises(InvalidTensorName, match=rf"at index {index} \(U\+{ord(name[index]):04X}\)") as caught:
        check_tensor_name(name)
    assert caught.value.name == name
    with pytest.raises(InvalidTensorName):
        fastinit.stream_for(17, name)


def test_an_empty_tensor_name_is_refused():
    with pytest.raises(EmptyName):
        check_tensor_name("")


@given(st.lists(st.sampled_from("abcd"), max_size=7))
def test_the_earliest_repetition_is_the_one_reported(names):
    repeats = [(i, names.index(name)) for i, name in enumerate(names) if names.index(name) < i]
    if not repeats:
        assert refuse_duplicates(names) is None
        return
    repeated, first = repeats[0]
    with pytest.raises(fastinit.DuplicateName) as caught:
        refuse_duplicates(names)
    assert (caught.value.name, caught.value.first, caught.value.repeated) == (names[repeated], first, repeated)
