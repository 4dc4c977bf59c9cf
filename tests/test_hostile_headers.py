"""Files of strangers that found a fault: `tests/hostile/` holds them, larger ones are made here."""

import json
import re
import time
from pathlib import Path

import pytest
import safetensors
from conftest import safetensors_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import fastinit
from fastinit._engine.dtypes import FOREIGN
from fastinit._engine.names import NAME_LIMIT
from fastinit._files.json_text import cut_short
from fastinit._files.sources import read_specs
from fastinit.cli import main as cli
from fastinit.diagnosis import by_name, diagnose
from fastinit.errors import CheckpointError, EmptyName, InvalidTensorName, PlanError
from fastinit.initializers import ZEROS
from fastinit.policies import POLICIES, XAVIER, Model, UserRule, customized

HOSTILE = Path(__file__).parent / "hostile"
DOORS = {
    "show": lambda path: fastinit.Plan.from_specs(path, 17),
    "verify": fastinit.verify_checkpoint,
    "diagnose": diagnose,
}
every_door = pytest.mark.parametrize("door", DOORS)


@every_door
@pytest.mark.parametrize("name", ["axis_empty_huge", "axis_empty_huge_u8"])
def test_an_empty_tensor_with_a_huge_axis_is_refused_by_file_and_tensor(name, door):
    """numpy multiplies the axes beside the empty one: its own sentence named neither, after the file was made."""
    path = HOSTILE / f"{name}.safetensors"
    with pytest.raises(
        CheckpointError, match=rf"{name}\.safetensors: tensor 'a\.\w+' is empty.*2\*\*63"
    ) as caught:
        DOORS[door](path)
    assert str(json.loads(path.read_bytes()[8:])[re.search(r"a\.\w+", str(caught.value))[0]]["shape"]) in str(
        caught.value
    )


def test_a_plan_of_ones_own_refuses_such_a_tensor_too():
    with pytest.raises(PlanError, match="tensor 'w' is empty"):
        fastinit.Plan(17, "own", "named", [fastinit.PlannedTensor("w", (0, 2**61), "float32", "zeros", ZEROS, 1)])


@pytest.mark.parametrize(("tag", "itemsize"), [("F32", 4), ("F64", 8), ("BF16", 2), ("F8_E5M2", 1)])
def test_the_largest_empty_tensor_that_numpy_takes_is_written_and_verified(tmp_path, tag, itemsize):
    """The bound is numpy's, not one that looks safe."""
    size = 2**63 // itemsize - 1
    path = tmp_path / "w.safetensors"
    plan = fastinit.Plan.from_specs({"a.weight": {"dtype": tag, "shape": [0, size]}}, 17)
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    assert plan.array("a.weight").shape == (0, size)


@every_door
@pytest.mark.parametrize(("name", "error"), [("name_control", InvalidTensorName), ("name_empty", EmptyName)])
def test_a_name_that_no_tensor_can_have_is_refused_by_the_file_it_stands_in(name, error, door):
    """With a hundred shards, "tensor name 'a\\n' has a control character" says nothing of where."""
    path = HOSTILE / f"{name}.safetensors"
    with pytest.raises(CheckpointError, match=rf"{name}\.safetensors") as caught:
        DOORS[door](path)
    assert isinstance(caught.value, error)
    assert str(caught.value).isprintable()


@every_door
def test_a_name_that_is_no_name_is_refused_at_once(tmp_path, door):
    """One tensor called "conv" x 16,000 took `show` 18 s."""
    path = tmp_path / "long.safetensors"
    name = "conv" * 16_000
    path.write_bytes(
        safetensors_bytes({name: {"dtype": "F32", "shape": [1, 1, 1], "data_offsets": [0, 4]}}, bytes(4))
    )
    began = time.process_time()
    with pytest.raises(CheckpointError, match=r"long\.safetensors.*64,000 characters; at most 8,192") as caught:
        DOORS[door](path)
    assert time.process_time() - began < 2
    assert isinstance(caught.value, InvalidTensorName)
    assert len(str(caught.value)) < 500


def test_the_longest_name_is_planned_and_one_longer_is_refused_by_every_door():
    """C20."""
    specs = {"w" * (NAME_LIMIT - 7) + ".weight": {"dtype": "F32", "shape": [2, 2]}}
    assert len(fastinit.Plan.from_specs(specs, 17)) == 1
    name = "w" * (NAME_LIMIT + 1)
    for door in (
        lambda: fastinit.Plan.from_specs({name: {"dtype": "F32", "shape": [2, 2]}}, 17),
        lambda: fastinit.stream_for(17, name),
        lambda: fastinit.Plan(17, "own", "named", [fastinit.PlannedTensor(name, (2,), "float32", "z", ZEROS, 1)]),
    ):
        with pytest.raises(InvalidTensorName, match="8,193 characters"):
            door()


@pytest.mark.parametrize("length", [NAME_LIMIT, NAME_LIMIT + 1])
def test_an_index_and_a_plan_may_use_the_longest_name_and_no_longer_one(tmp_path, length):
    """A refusal of 70,000 characters, which repeats the name whole; or a limit that is one too low."""
    name = "w" * length
    held = name if length <= NAME_LIMIT else "w"  # so that nothing but the index has the name that is too long
    header = {held: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}
    (tmp_path / "one.safetensors").write_bytes(safetensors_bytes(header, bytes(16)))
    index = tmp_path / "m.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: "one.safetensors"}}))
    text = (
        fastinit.Plan.from_specs({"w": {"dtype": "F32", "shape": [2, 2]}}, 17)
        .to_json()
        .replace('"w"', f'"{name}"')
    )
    if length <= NAME_LIMIT:
        assert [tensor.name for tensor in diagnose(index).tensors] == [name]
        assert list(fastinit.Plan.from_json(text)) == [name]
        return
    with pytest.raises(InvalidTensorName, match="8,193 characters"):
        diagnose(index)
    with pytest.raises(PlanError, match="8,193 characters") as caught:
        fastinit.Plan.from_json(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(("length", "shown"), [(9000, 9000), (9001, 9005), (70_000, 9005)])
def test_a_long_sentence_keeps_its_beginning_and_its_end(length, shown):
    """The end says what to type; " ... " stands where something is missing, and nowhere else."""
    sentence = "b" * (length - 300) + "e" * 300
    found = cut_short(sentence)
    assert len(found) == shown
    assert found.startswith("b" * 8700)
    assert found.endswith("e" * 300)
    assert (found == sentence) == (" ... " not in found)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="no file here opens and cannot be read")
@every_door
def test_a_file_that_the_system_cannot_read_is_named(door):
    """A bad sector, or a file of /proc: "[Errno 5] Input/output error" names nothing."""
    with pytest.raises(CheckpointError, match="cannot read /proc/self/mem: Input/output error"):
        DOORS[door]("/proc/self/mem")


# ---- patterns of names -------------------------------------------------------------------------------


def rules_of(policy):
    return policy.rules(Model({})) if callable(policy.rules) else policy.rules


PATTERNS = {rule.pattern: rule.reason for policy in POLICIES.values() for rule in rules_of(policy)}
PATTERNS |= {by_name._BUFFERS.pattern: "buffer"}
PATTERNS |= {by_name._POSITIONS.pattern: "positions"}


def words_of(pattern):
    """What a pattern may try again from every place: the words that it is made of."""
    return sorted({*re.findall(r"[a-z_]{2,}", pattern), "norm", "a", ".", "_", "1"})


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.values())
def test_a_pattern_is_searched_for_in_linear_time(pattern):
    """A pattern that tries again from every "conv" takes 64,000 characters 18 s; linear ones take milliseconds."""
    search = re.compile(pattern).search
    for word in words_of(pattern):
        for unit in (word, f"{word}.", f".{word}", f"_{word}", f"{word}1"):
            for end in ("", "!", ".x", ".weight!"):
                name = unit * (32_000 // len(unit)) + end
                began = time.process_time()
                search(name)
                seconds = time.process_time() - began
                assert seconds < 0.15, f"{unit!r} repeated, then {end!r}: {seconds:.2f} s"


NORM = (
    r"[Nn]orm(alization)?[_\d]{0,8}[./](weight|scale|gamma)$"
    r"|(^|[./])(ln|bn|gn)(_?\d{1,4}|_[a-z]{1,8})?[./](weight|scale|gamma)$"
)
BACKTRACKING = {
    "norm gain": NORM,
    "the slope of a PReLU": r"[Pp][Rr]e[Ll][Uu][^./]*\.weight$",
    "convolution kernel of Flax, Keras or Haiku": r"(?i)conv[^./]*([./]\d{1,6})*[./](kernel|w|pointwise_kernel)$",
    "convolution kernel": r"conv[^.]*(\.[^.]+)*\.weight(_v|_orig)?$",
    "tokens, positions": r"(token|position|pos_emb)[^.]*(\.weight)?$",
    "buffer": r"rotary|inv_freq|freqs|sinusoid|mask$|(^|[._])((cos|sin)(_?cached?)?|pe)$"
    r"|(norm[^.]*|(^|\.)ln(_[^.]+)?)\.(weight|scale|gamma|gain)$",
}
"""The patterns as they were, which say plainly what they mean."""

PIECES = [
    "conv",
    "token",
    "position",
    "pos_emb",
    "norm",
    "ln",
    "ln_",
    ".",
    ".",
    "/",
    "weight",
    "scale",
    "gamma",
    "mean",
    "Norm",
    "_1",
    "bn",
    "PReLU",
    "x",
    "_",
    "con",
    "kernel",
    "w",
    "7",
]


@settings(max_examples=3000)
@given(name=st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join))
def test_a_linear_pattern_matches_what_the_plain_one_does(name):
    """Another match would give a tensor of somebody's model another initializer, and so other bits."""
    linear = {"buffer": by_name._BUFFERS.pattern}
    for rule in XAVIER:
        if "(?>" in rule.pattern:
            is_jax = "pointwise_kernel" in rule.pattern  # several rules share it
            linear["convolution kernel of Flax, Keras or Haiku" if is_jax else rule.reason] = rule.pattern
    linear = {reason: pattern for reason, pattern in linear.items() if "Gemma" not in reason}
    assert linear.keys() == BACKTRACKING.keys()
    for reason, pattern in linear.items():
        assert bool(re.search(pattern, name)) == bool(re.search(BACKTRACKING[reason], name)), reason


# ---- dtypes that nothing here reads ------------------------------------------------------------------

TAGS = sorted(path.stem.removeprefix("dtype_").upper() for path in HOSTILE.glob("dtype_*"))


@pytest.mark.parametrize("tag", TAGS)
def test_one_tensor_of_another_dtype_does_not_keep_the_others_from_being_judged(tag, capsys):
    """One BOOL mask or F8_E8M0 scale made `diagnose` refuse a whole checkpoint of packed weights."""
    path = HOSTILE / f"dtype_{tag.lower()}.safetensors"
    safetensors.safe_open(path, "numpy")
    found = diagnose(path)
    assert [(finding.kind, finding.tensors) for finding in found.findings] == [("constant", ("b.weight",))]
    assert [tensor.verdict for tensor in found.tensors] == ["not read", "constant"]
    said = f"1 tensor not read: 'a.scales' ({tag}); weights are read as F64, F32, F16, BF16, F8_E4M3, F8_E5M2 only"
    assert said in found.lines()
    assert "2 tensors, 1 judged, 1 finding" in found.lines()[-1]
    assert said in found.page().replace("&#x27;", "'")
    assert cli.main(["diagnose", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["tensors"][0]["verdict"] == "not read"


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("command", [["show"], ["init", "--out", "w.safetensors"]], ids=["show", "init"])
def test_a_plan_refuses_it_by_name_with_the_true_reason(tag, command, capsys, tmp_path, monkeypatch):
    """A BOOL called position_ids, too: no rule of a policy may take what nothing can fill."""
    monkeypatch.chdir(tmp_path)
    assert cli.main([command[0], str(HOSTILE / f"dtype_{tag.lower()}.safetensors"), *command[1:]]) == 2
    error = capsys.readouterr().err
    assert f"tensor 'a.scales' [4, 4] {tag}: nothing here fills its dtype {tag}, only F64, F32" in error
    with pytest.raises(PlanError, match=f"'position_ids'.*{tag}"):
        fastinit.Plan.from_specs({"position_ids": {"dtype": tag, "shape": [4]}}, 17)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_for_such_a_tensor_judges_the_others(tmp_path):
    """The plan says F32 where the file has F4: there are no moments to expect of it, and no reason to stop."""
    specs = {
        name: {"dtype": "F32", "shape": shape} for name, shape in (("a.scales", [4, 4]), ("b.weight", [2, 2]))
    }
    policy = customized(rules=[UserRule("a.scales", "xavier_uniform")])
    found = diagnose(HOSTILE / "dtype_f4.safetensors", plan=fastinit.Plan.from_specs(specs, 17, policy))
    assert {finding.tensors for finding in found.findings} == {("b.weight",)}


@pytest.mark.parametrize("dtype", FOREIGN, ids=lambda dtype: dtype.tag)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 6, 8])
def test_the_bytes_of_such_a_tensor_are_those_the_library_counts(tmp_path, dtype, size):
    """Two F4 share a byte, four F6 three: a wrong count would put every tensor behind it elsewhere."""
    path, nbytes = tmp_path / "w.safetensors", dtype.nbytes(size)
    path.write_bytes(
        safetensors_bytes({"w": {"dtype": dtype.tag, "shape": [size], "data_offsets": [0, nbytes]}}, bytes(nbytes))
    )
    if size % dtype.packed:
        with pytest.raises(CheckpointError, match=f"multiple of {dtype.packed}"):
            read_specs(path)
        with pytest.raises(safetensors.SafetensorError):
            safetensors.safe_open(path, "numpy")
    else:
        safetensors.safe_open(path, "numpy")
        assert read_specs(path)["w"].nbytes == nbytes
