"""One vocabulary of dtypes: the same word must mean the same format in every function, file and command."""

import json

import ml_dtypes
import numpy as np
import pytest
from conftest import bits, run

import fastinit
from fastinit import CheckpointError, Plan, PlannedTensor
from fastinit.initializers import Normal

# numpy's and ml_dtypes' name, and the other spellings of the same format: files', the command line's, frameworks'.
SPELLINGS = {
    "float64": ["F64", "f64", "torch.float64", "jnp.float64", np.float64, np.dtype(">f8")],
    "float32": ["F32", "f32", "torch.float32", "Float32", np.float32],
    "float16": ["F16", "f16", "torch.float16", np.float16],
    "bfloat16": ["BF16", "bf16", "Bf16", "torch.bfloat16", "jax.numpy.bfloat16", ml_dtypes.bfloat16],
    "float8_e4m3fn": ["F8_E4M3", "f8_e4m3", "torch.float8_e4m3fn", ml_dtypes.float8_e4m3fn],
    "float8_e5m2": ["F8_E5M2", "f8_e5m2", "torch.float8_e5m2", np.dtype(ml_dtypes.float8_e5m2)],
}
CASES = [(name, spelling) for name, spellings in SPELLINGS.items() for spelling in spellings]
TEXTS = [(name, spelling) for name, spelling in CASES if isinstance(spelling, str)]


@pytest.mark.parametrize(("name", "spelling"), CASES)
def test_functions_and_plans_read_every_spelling(name, spelling):
    expected = fastinit.normal((3, 5), 17, dtype=name)
    assert bits(fastinit.normal((3, 5), 17, dtype=spelling).astype(expected.dtype)) == bits(expected)
    planned = PlannedTensor("w", (3, 5), spelling, "normal", Normal(), state=17)
    assert planned.dtype.name == name
    specs = {"w.weight": {"dtype": "F64", "shape": [3, 5]}}
    assert Plan.from_specs(specs, 17, dtype=spelling)["w.weight"].dtype.name == name
    specs["w.weight"]["dtype"] = spelling
    assert Plan.from_specs(specs, 17)["w.weight"].dtype.name == name


@pytest.mark.parametrize(("name", "spelling"), TEXTS)
def test_files_of_specs_and_the_command_line_read_every_spelling(name, spelling, tmp_path, capsys):
    described = tmp_path / "model.json"
    described.write_text(json.dumps({"w.weight": {"dtype": spelling, "shape": [3, 5]}}))
    assert shown_dtype(capsys, described) == name
    described.write_text(json.dumps({"w.weight": {"dtype": "F64", "shape": [3, 5]}}))
    assert shown_dtype(capsys, described, "--dtype", spelling) == name


def shown_dtype(capsys, described, *options):
    """Return the dtype that `show --json` prints of the one tensor."""
    status, out, _ = run(capsys, "show", described, "--json", *options)
    assert status == 0
    return next(iter(json.loads(out)["tensors"].values()))["dtype"]


@pytest.mark.parametrize("spelling", ["int64", "I64", "i64", "torch.int64", np.int64])
def test_a_buffer_of_integers_reads_every_spelling(spelling):
    plan = Plan.from_specs({"bn.num_batches_tracked": {"dtype": spelling, "shape": []}}, 17)
    assert plan["bn.num_batches_tracked"].dtype.name == "int64"


def test_the_header_of_a_file_must_spell_dtypes_as_the_format_does(tmp_path):
    """Other readers of the file know no other spelling, so ours must not call such a file good."""
    header = json.dumps({"w": {"dtype": "float32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(CheckpointError, match="has dtype 'float32'; safetensors has F64"):
        Plan.from_specs(path, 17)


@pytest.mark.parametrize("unknown", ["float33", "torch.", "bf", "", None, 5, object()])
def test_specs_refuse_what_names_no_dtype(unknown):
    with pytest.raises(CheckpointError, match=r"has dtype .* safetensors has F64"):
        Plan.from_specs({"w": {"dtype": unknown, "shape": [1]}}, 17)


def test_the_command_line_says_the_words(capsys):
    status, _, error = run(capsys, "show", "gpt2-124m", "--dtype", "float33")
    assert status == 2
    assert "weights are stored in f64, f32, f16, bf16, f8_e4m3, f8_e5m2" in error
