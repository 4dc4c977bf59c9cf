"""Building real models: their own initialization against `fast_init`, each in a fresh process, in turn.

Imports are not counted. Seconds are those of building alone; a spread is half the range over the median.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

BUILD = Path(__file__).with_name("build_model.py")
LEAST = {
    "llama 1.24 B float32": 10,
    "llama 1.24 B bfloat16": 10,
    "gpt2 124 M": 8,
    "vit-b/16": 8,
    "whisper-small": 8,
    "convnext-b": 8,
    "mixtral-like 1 B": 8,
}
ROUNDS = 3


def build(model, how):
    """Build a model in a process of its own; the facts that it prints."""
    done = subprocess.run([sys.executable, BUILD, model, how], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def in_turn(model, *contestants):
    """Seconds of each contestant, in turn; the first round warms the machine's own memory and does not count."""
    rounds = [{how: build(model, how) for how in contestants} for _ in range(ROUNDS + 1)][1:]
    return {how: [each[how] for each in rounds] for how in contestants}


def median(runs, key="seconds"):
    return statistics.median(run[key] for run in runs)


def note(record, case, runs, over, under, least):
    ratio = median(runs[over]) / median(runs[under])
    spreads = [
        (max(values) - min(values)) / 2 / statistics.median(values)
        for values in ([run["seconds"] for run in runs[how]] for how in (over, under))
    ]
    seconds = {how: median(runs[how]) for how in runs}
    record(case, ratio=ratio, spread=max(spreads), least=least, seconds=seconds)


@pytest.mark.parametrize("model", LEAST)
def bench_build(benchmark, record, model):
    """A model's own build against the same inside `fast_init`; touching the memory bounds it."""
    pytest.importorskip("transformers")
    runs = benchmark.pedantic(lambda: in_turn(model, "own", "touch", "fast"), rounds=1)
    note(record, f"{model}: own build vs fast_init", runs, "own", "fast", LEAST[model])
    peak = median(runs["fast"], "peak") / median(runs["fast"], "model")
    record(f"{model}: model vs peak memory of fast_init", ratio=1 / peak, spread=0, least=1 / 1.05)


def bench_limits(benchmark, record):
    """`fast_init` in bfloat16 against touching that memory; recording against 0.2 s."""
    pytest.importorskip("transformers")
    model = "llama 1.24 B bfloat16"
    runs = benchmark.pedantic(lambda: in_turn(model, "touch", "fast", "record"), rounds=1)
    note(record, f"{model}: touching its memory vs fast_init", runs, "touch", "fast", 1 / 1.5)
    record(f"{model}: 0.2 s vs recording", ratio=0.2 / median(runs["record"]), spread=0, least=1)
