"""Files that once got a traceback, a foreign sentence or too much time; and a short run of the fuzzer."""

import sys
from random import Random

import pytest
from conftest import ROOT, run_python

from fastinit import Plan
from fastinit.errors import CheckpointError, PlanError
from fastinit.lessons.trace import parse_trace

HOSTILE = ROOT / "tests" / "hostile"
sys.path.insert(0, str(ROOT / "tools"))
fuzz = pytest.importorskip("fuzz", reason="the judge of headers is the safetensors library")


def read_plan(name):
    return Plan.from_json((HOSTILE / name).read_text(encoding="utf-8"))


def read_trace(name):
    return parse_trace((HOSTILE / name).read_text(encoding="utf-8"))


def read_checkpoint(name):
    return Plan.from_specs(HOSTILE / name, 17)


@pytest.mark.parametrize(
    ("reader", "name", "refusal", "sentence"),
    [
        (read_checkpoint, "latin1.safetensors", CheckpointError, r"not UTF-8 from byte 63 on"),
        (read_plan, "digits.plan.json", PlanError, r"a number in its JSON has 5000 digits; at most 1000 are read"),
        (read_plan, "deep.plan.json", PlanError, r"nested too deeply"),
        (read_trace, "bidi.trace.txt", ValueError, r"got '.*\\u202e-0\.35"),
    ],
)
def test_a_hostile_file_is_refused_in_words_of_our_own(reader, name, refusal, sentence):
    """Python's advice to change its own settings, its codec's jargon, and a terminal that prints backwards."""
    with pytest.raises(refusal, match=sentence) as caught:
        reader(name)
    fuzz.judge_refusal(caught.value, refusal)


def short_run(kind, tmp_path, count=400):
    arguments = ("--count", str(count), "--seed", "5", "--kinds", kind, "--out", tmp_path)
    return run_python("tools/fuzz.py", *arguments, env={"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize("kind", ["header", "plan", "trace", "idx"])
def test_no_mutation_gets_a_traceback_a_foreign_sentence_or_two_seconds(kind, tmp_path):
    """A statement of a file that no reader checks, met by numpy, json or the machine's memory instead."""
    ended = short_run(kind, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "400 cases of seed 5" in ended.stdout
    assert "no findings" in ended.stdout


def test_no_mutation_of_an_index_does(tmp_path):
    """A shard name with an escape sequence, which the terminal obeys."""
    ended = short_run("index", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def foreign():
    int("x")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (foreign, "did not raise"),
        (lambda: {}["x"], "KeyError instead of ValueError"),
    ],
)
def test_the_fuzzer_sees_what_it_looks_for(call, said):
    """A judge that passes everything."""
    with pytest.raises(fuzz.Finding, match=said):
        fuzz.check("kind", "reader", ValueError, call)


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("one\ntwo", "a sentence with"),
        ("got \u202e", "a sentence with"),
        ("'utf-8' codec can't decode byte 0xff", "foreign"),
        ("", "a sentence of 0 characters"),
    ],
)
def test_the_fuzzer_judges_sentences(sentence, said):
    """A foreign sentence inside one of ours; characters that the terminal obeys."""
    with pytest.raises(fuzz.Finding, match=said):
        fuzz.judge_sentence(sentence)
    fuzz.judge_sentence("tensor 'w' has a shape of [0, 3]; give it one of [2, 3]")


def test_a_case_is_its_seed_and_number(tmp_path):
    """A finding that nobody can see again."""
    runs = [short_run("plan", tmp_path, 60).stdout.rsplit(" in ", 1)[0] for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_reader_that_dies_is_a_finding_and_the_run_goes_on(tmp_path):
    """A crash of the process that ends the search, or that is never told."""
    code = (
        "import os, sys; sys.path.insert(0, 'tools'); sys.argv[1:] = ARGUMENTS; import fuzz, fuzz_kinds; "
        "doors = lambda folder: iter([('reader', ValueError, lambda: os.kill(os.getpid(), 11))]); "
        "fuzz.KINDS['trace'] = fuzz_kinds.Kind(fuzz_kinds.trace_files, doors, ()); sys.exit(fuzz.main())"
    )
    arguments = ["--count", "3", "--kinds", "trace", "--out", str(tmp_path)]
    ended = run_python("-c", code.replace("ARGUMENTS", repr(arguments)), env={"PYTHONPATH": str(ROOT)})
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.count("the process died with status -11") == 3


def test_a_mutation_is_a_function_of_its_random_numbers_alone():
    """A hostile value that one case changes for all later ones: then a case depends on those before it."""
    import mutations  # noqa: PLC0415

    before = repr(mutations.HOSTILE)
    value = {"a": [1, {"b": "c"}], "d": {"e": 2}}
    first = [mutations.mutated_json(value, Random(seed)) for seed in range(3000)]
    assert repr(mutations.HOSTILE) == before
    assert [mutations.mutated_json(value, Random(seed)) for seed in range(3000)] == first
