"""The kinds of file that fuzz.py mutates: how each is made, the doors that read it, what accepting promises."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import safetensors
from mutations import mutated_bytes, mutated_json, mutated_text

from fastinit._files.safetensors import read_header
from fastinit.checkpoint import verify_checkpoint
from fastinit.diagnosis import diagnose
from fastinit.errors import FastinitError, PlanError
from fastinit.lessons.digits import read_digits
from fastinit.lessons.populations import measure_populations
from fastinit.lessons.trace import parse_trace, render_trace
from fastinit.plan import Plan
from fastinit.writing import write_checkpoint

Files = dict[str, bytes]
"""Name -> content."""
Doors = Iterator[tuple[str, type[Exception], Callable[[], object]]]
"""The name of a reader, the class of its refusals, and the call."""


class Finding(Exception):
    """What a case has shown, in one sentence."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: its mutations, and the doors that read it."""

    made: Callable[[Random], Files]
    doors: Callable[[Path], Doors]
    commands: tuple[tuple[str, ...], ...]


# ---- what is mutated ----


@dataclass
class Originals:
    """Sound files of every kind, made once."""

    checkpoints: list[bytes] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    trace: str = ""
    images: bytes = b""
    labels: bytes = b""


SPECS = {
    "a.position_ids": {"dtype": "I64", "shape": [1, 5]},
    "b.float8.weight": {"dtype": "F8_E4M3", "shape": [3, 5]},
    "c.LayerNorm.bias": {"dtype": "F64", "shape": [3]},
    "d.half.weight": {"dtype": "F16", "shape": [3, 3]},
    "e.empty.weight": {"dtype": "F32", "shape": [0, 4]},
    "h.brain.weight": {"dtype": "BF16", "shape": [5, 3]},
    "k.single.weight": {"dtype": "F32", "shape": [5, 7]},
}
ORIGINALS = Originals()


def make_originals() -> None:
    """Write sound files with the package itself."""
    with tempfile.TemporaryDirectory() as place:
        for order in ("named", "sequential"):
            plan = Plan.from_specs(SPECS, 17, order=order)
            text = json.loads(plan.to_json())
            own = Plan.from_json(json.dumps({**text, "policy": "mine"}))
            for made in (plan, own):
                write_checkpoint(made, f"{place}/x", force=True)
                ORIGINALS.checkpoints.append(Path(place, "x").read_bytes())
                ORIGINALS.plans.append(made.to_json())
    orthogonal = Plan.from_specs({"w": {"dtype": "F32", "shape": [4, 4]}}, 1, "xavier").to_json()
    contents = ('{"kind": "orthogonal"}', '{"kind": "sparse", "sparsity": 0.5}', '{"kind": "normal"}')
    for content in contents:
        entry = json.loads(orthogonal)
        entry["tensors"]["w"]["content"] = json.loads(content)
        ORIGINALS.plans.append(json.dumps(entry))
    ORIGINALS.trace = render_trace(measure_populations())
    random = Random(0)
    ORIGINALS.images = bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4) for n in (10, 4, 3)) + random.randbytes(120)
    ORIGINALS.labels = bytes((0, 0, 8, 1)) + (10).to_bytes(4) + bytes(range(10))


def encoded(text: str) -> bytes:
    """Return the bytes of a text that may hold lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def header_files(random: Random) -> Files:
    """Injure a checkpoint's bytes, or its header alone under a sound length."""
    whole = random.choice(ORIGINALS.checkpoints)
    if random.random() < 0.3:
        return {"case.safetensors": mutated_bytes(whole, random)}
    length = int.from_bytes(whole[:8], "little")
    header, data = whole[8 : 8 + length], whole[8 + length :]
    if random.random() < 0.2:
        text = mutated_bytes(header, random)
    elif random.random() < 0.2:
        text = encoded(mutated_text(header.decode(), random))
    else:
        text = encoded(mutated_json(json.loads(header), random))
    return {"case.safetensors": len(text).to_bytes(8, "little") + text + data}


def index_files(random: Random) -> Files:
    """Injure the index of two shards, or one of the shards."""
    shards = {"one.safetensors": ORIGINALS.checkpoints[0], "two.safetensors": _renamed(ORIGINALS.checkpoints[1])}
    places = dict.fromkeys(SPECS, "one.safetensors") | {f"x{name}": "two.safetensors" for name in SPECS}
    index = {"metadata": {"total_size": 1234}, "weight_map": places}
    if random.random() < 0.2:
        shards["two.safetensors"] = mutated_bytes(shards["two.safetensors"], random)
    text = mutated_json(index, random)
    if random.random() < 0.3:
        text = mutated_text(json.dumps(index), random)
    return shards | {"case.safetensors.index.json": encoded(text)}


def _renamed(whole: bytes) -> bytes:
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    text = json.dumps({name if name[0] == "_" else f"x{name}": entry for name, entry in header.items()}).encode()
    return len(text).to_bytes(8, "little") + text + whole[8 + length :]


def plan_files(random: Random) -> Files:
    """Injure a plan, as JSON or as text, and specs as JSON."""
    text = random.choice(ORIGINALS.plans)
    choice = random.random()
    if choice < 0.7:
        text = mutated_json(json.loads(text), random)
    elif choice < 0.9:
        text = mutated_text(text, random)
    specs = mutated_json(SPECS, random)
    return {"plan.json": encoded(text), "specs.json": encoded(specs)}


def trace_files(random: Random) -> Files:
    """Injure the text of a trace, once or twice."""
    text = mutated_text(ORIGINALS.trace, random)
    if random.random() < 0.3:
        text = mutated_text(text, random)
    return {"trace.txt": encoded(text)}


def idx_files(random: Random) -> Files:
    """Injure images or labels, gzipped or not, inside or outside the gzip."""
    files = {"images": ORIGINALS.images, "labels": ORIGINALS.labels}
    injured = random.choice(list(files))
    packed = random.random() < 0.4
    if not packed or random.random() < 0.5:
        files[injured] = mutated_bytes(files[injured], random)
    if packed:
        files[injured] = gzip.compress(files[injured], mtime=0)
        if random.random() < 0.7:
            files[injured] = mutated_bytes(files[injured], random)
    return files


# ---- who reads it ----


def header_doors(folder: Path) -> Doors:
    """Yield the readers of a .safetensors file; the library judges what the first one accepts."""
    path = folder / "case.safetensors"
    yield "read_header", FastinitError, lambda: judged_header(path)
    yield "Plan.from_specs", FastinitError, lambda: Plan.from_specs(path, 17)
    yield "verify_checkpoint", FastinitError, lambda: verify_checkpoint(path)
    yield "diagnose", FastinitError, lambda: diagnose(path, threads=1)


def judged_header(path: Path) -> None:
    """Read a header, and hold what it says against the safetensors library."""
    with path.open("rb") as file:
        specs = read_header(file, str(path)).specs
    try:
        with safetensors.safe_open(path, "numpy") as judge:
            found = {name: judge.get_slice(name) for name in judge.keys()}  # noqa: SIM118
            theirs = {name: (part.get_dtype(), part.get_shape()) for name, part in found.items()}
    except (safetensors.SafetensorError, ValueError) as error:
        raise Finding(f"accepted a header that the safetensors library refuses: {error}") from None
    ours = {name: (spec.dtype.tag, list(spec.shape)) for name, spec in specs.items()}
    if ours != theirs:
        raise Finding(f"read {ours}, but the safetensors library reads {theirs}")


def index_doors(folder: Path) -> Doors:
    """Yield the readers of a checkpoint in several files."""
    path = folder / "case.safetensors.index.json"
    yield "diagnose", FastinitError, lambda: diagnose(path, threads=1)
    yield "Plan.from_specs", FastinitError, lambda: Plan.from_specs(path, 17)
    yield "verify_checkpoint", FastinitError, lambda: verify_checkpoint(path)


def plan_doors(folder: Path) -> Doors:
    """Yield the readers of a plan's JSON and of specs."""
    text = (folder / "plan.json").read_text(encoding="utf-8", errors="surrogatepass")
    yield "Plan.from_json", PlanError, lambda: same_plan(text)
    yield "Plan.from_specs", FastinitError, lambda: Plan.from_specs(folder / "specs.json", 17)


def same_plan(text: str) -> None:
    """Read a plan; written and read again it must be equal, and print."""
    plan = Plan.from_json(text)
    if Plan.from_json(plan.to_json()) != plan:
        raise Finding("the plan read is not the plan written")
    str(plan.table())


def trace_doors(folder: Path) -> Doors:
    """Yield the reader of traces."""
    text = (folder / "trace.txt").read_text(encoding="utf-8", errors="surrogatepass")
    yield "parse_trace", ValueError, lambda: same_trace(text)


def same_trace(text: str) -> None:
    """Read a trace; what it is written as must be the text."""
    if render_trace(parse_trace(text)) != text:
        raise Finding("the trace accepted is not the one that is written")


def idx_doors(folder: Path) -> Doors:
    """Yield the reader of idx files."""
    yield "read_digits", ValueError, lambda: sound_digits(folder)


def sound_digits(folder: Path) -> None:
    """Read images and labels, which must be what they are said to be."""
    digits = read_digits(folder / "images", folder / "labels")
    images, labels = digits.images, digits.labels
    if not (images.min() >= 0 and images.max() <= 1 and labels.max() <= 9 and len(images) == len(labels)):
        raise Finding("the digits accepted are none")


CASE = "case.safetensors"
KINDS = {
    "header": Kind(header_files, header_doors, (("show", CASE), ("verify", CASE, "--quiet"), ("diagnose", CASE))),
    "index": Kind(
        index_files,
        index_doors,
        tuple((command, f"{CASE}.index.json") for command in ("diagnose", "show", "verify")),
    ),
    "plan": Kind(plan_files, plan_doors, (("show", "specs.json"),)),
    "trace": Kind(trace_files, trace_doors, ()),
    "idx": Kind(idx_files, idx_doors, ()),
}
