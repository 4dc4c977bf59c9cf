"""The command line: what a script relies on is the exit status, and that errors never look like output."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import safetensors.numpy
from conftest import ROOT, run, run_python, safetensors_bytes

import fastinit
from fastinit.cli import main as cli
from fastinit.cli import timing

COMMANDS = tuple(cli.COMMANDS)
SPECS = {"embed.weight": {"dtype": "F32", "shape": [7, 4]}, "norm.weight": {"dtype": "F32", "shape": [4]}}


@pytest.fixture
def specs(tmp_path):
    path = tmp_path / "specs.json"
    path.write_text(json.dumps(SPECS))
    return str(path)


@pytest.fixture
def made(tmp_path, specs, capsys):
    path = tmp_path / "made.safetensors"
    assert cli.main(["init", specs, "--out", str(path)]) == 0
    capsys.readouterr()
    return path


def test_init_writes_the_plan(capsys, tmp_path, specs):
    path = tmp_path / "w.safetensors"
    status, out, err = run(
        capsys, "init", specs, "--seed", 18, "--order", "sequential", "--dtype", "f64", "--out", path
    )
    assert (status, err) == (0, "")
    assert f"wrote {path}: 2 tensors, {path.stat().st_size:,} bytes" in out
    assert "GB/s" in out
    found = fastinit.verify_checkpoint(path)
    assert found
    assert found.plan == fastinit.Plan.from_specs(SPECS, 18, order="sequential", dtype="float64")


def test_init_defaults_to_seed_17_named_streams_and_the_models_dtypes(made):
    plan = fastinit.Plan.from_specs(SPECS, 17)
    assert fastinit.verify_checkpoint(made).plan == plan
    assert safetensors.numpy.load_file(made)["embed.weight"].tolist() == plan.array("embed.weight").tolist()


def test_init_as_json_and_beside_a_copy(capsys, tmp_path, specs):
    path = tmp_path / "w.safetensors"
    status, out, err = run(capsys, "init", specs, "--json", "--compare", "--out", path)
    facts = json.loads(out)
    assert (status, err) == (0, "")
    assert (facts["file"], facts["tensors"], facts["bytes"]) == (str(path), 2, path.stat().st_size)
    assert {"seconds", "fill_seconds", "gb_per_second", "copy_seconds", "ratio_to_copy"} <= facts.keys()
    _, out, _ = run(capsys, "init", specs, "--compare", "--force", "--out", path)
    assert "a synced copy of the same bytes" in out
    assert sorted(file.name for file in tmp_path.iterdir()) == ["specs.json", path.name]


@pytest.mark.parametrize("word", ["f64", "f32", "f16", "bf16", "f8_e4m3", "f8_e5m2"])
def test_every_dtype_word_names_a_dtype(capsys, tmp_path, specs, word):
    path = tmp_path / "w.safetensors"
    assert run(capsys, "init", specs, "--dtype", word, "--out", path)[0] == 0
    stored = {tensor.dtype.tag for tensor in fastinit.Plan.from_specs(path, 17).values()}
    assert stored == {word.upper()}


def test_verify_of_a_good_file(capsys, made):
    status, out, err = run(capsys, "verify", made)
    assert (status, err) == (0, "")
    assert (
        "all 128 bytes of 2 tensors follow from the plan in the file, "
        "and that plan from seed 17, policy xavier, order named"
    ) in out
    facts = json.loads(run(capsys, "verify", made, "--json")[1])
    assert (facts["good"], facts["seed"], facts["mismatches"], facts["bytes"]) == (True, 17, [], 128)
    assert (facts["follows"], facts["departures"], facts["approximate"]) == (True, [], [])


def test_verify_of_a_wrong_byte(capsys, made):
    content = bytearray(made.read_bytes())
    content[-1] ^= 1  # of the norm's last gain
    made.write_bytes(content)
    status, out, err = run(capsys, "verify", made)
    assert (status, out) == (1, "")
    assert "tensor 'norm.weight' differs first at index 3: stored 0x3e800000, expected 0x3f800000" in err
    status, out, err = run(capsys, "verify", made, "--json")
    assert status == 1
    assert json.loads(out)["good"] is False
    assert json.loads(out)["mismatches"] == [
        {"name": "norm.weight", "index": 3, "stored": "3e800000", "expected": "3f800000"}
    ]
    assert "norm.weight" in err


def test_show_is_a_table_of_what_every_tensor_will_be(capsys, specs):
    status, out, err = run(capsys, "show", specs)
    assert (status, err) == (0, "")
    header, embed, norm, total = out.splitlines()
    assert header.split() == ["name", "shape", "dtype", "initializer", "parameters", "draws"]
    assert embed.split() == ["embed.weight", "7x4", "float32", "xavier_uniform", "limit=0.738549", "28"]
    assert norm.split() == ["norm.weight", "4", "float32", "ones", "value=1", "0"]
    assert total == "2 tensors, 128 bytes, 28 draws; seed 17, policy xavier, order named"
    assert len({header.index("draws") + 5, len(embed), len(norm)}) == 1, "columns are not aligned"


def test_show_as_json_is_the_plan(capsys, specs):
    status, out, _ = run(capsys, "show", specs, "--json", "--seed", 2**64 - 1)
    assert status == 0
    assert fastinit.Plan.from_json(out) == fastinit.Plan.from_specs(SPECS, 2**64 - 1)


def test_scale(capsys):
    status, out, err = run(capsys, "scale", 4, 2)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "fan in: 4",
        "fan out: 2",
        "target variance: 0.333333333333",
        "standard deviation: 0.577350269190",
        "uniform limit: 1.000000000000",
    ]
    assert json.loads(run(capsys, "scale", 4, 2, "--json")[1]) == {
        "fan_in": 4,
        "fan_out": 2,
        "target_variance": 1 / 3,
        "standard_deviation": (1 / 3) ** 0.5,
        "uniform_limit": 1.0,
    }


def test_report(capsys):
    status, out, err = run(capsys, "report", "--seed", 18)
    assert (status, err) == (0, "")
    assert out.startswith("seed: 18\n")
    assert len(out.splitlines()) == 12


REFUSED = [
    ("no command", [], "usage"),
    ("an unknown command", ["trian"], "trian"),
    ("no model", ["init"], "MODEL"),
    ("no --out", ["init", "gpt2-124m"], "--out"),
    ("an unknown model", ["show", "gpt5"], "'gpt5'"),
    ("an unknown dtype", ["show", "gpt2-124m", "--dtype", "f12"], "f12"),
    ("an unknown policy", ["show", "gpt2-124m", "--policy", "magic"], "magic"),
    ("an unknown order", ["show", "gpt2-124m", "--order", "random"], "random"),
    ("a float seed", ["show", "gpt2-124m", "--seed", "1.9"], "1.9"),
    ("a word for a seed", ["show", "gpt2-124m", "--seed", "x"], "'x'"),
    ("a negative seed", ["show", "gpt2-124m", "--seed", "-1"], "seed"),
    ("a seed of 2**64", ["show", "gpt2-124m", "--seed", str(2**64)], "seed"),
    ("a seed of 2**64 for the report", ["report", "--seed", str(2**64)], "seed"),
    ("a seed of 2**64 for the trace", ["trace", "--seed", str(2**64)], "seed"),
    ("a figure of an unknown format", ["trace", "--figure", "trace.gif"], ".svg or .png"),
    ("one fan", ["scale", "4"], "FAN_OUT"),
    ("a zero fan", ["scale", "0", "2"], "fan_in must be greater than zero"),
    ("both fans zero", ["scale", "0", "0"], "fan_in"),
    ("a fan sum too large", ["scale", str(2**64 - 1), "1"], "2**64 - 1"),
    ("a negative fan", ["scale", "--", "-1", "2"], "fan_in"),
    ("a fan of 5000 digits", ["scale", "9" * 5000, "2"], "FAN_IN"),
    ("a missing file", ["verify", "missing.safetensors"], "missing.safetensors"),
    ("no file", ["verify"], "FILE"),
    ("a file of another kind", ["verify", "pyproject.toml"], "pyproject.toml"),
    ("a folder", ["verify", "tests"], "tests"),
    ("a missing folder", ["init", "resnet-50", "--out", "missing/folder/w"], "missing/folder/w"),
    ("a buffer of no size", ["bench", "--mib", "0"], "--mib"),
]


@pytest.mark.parametrize(("arguments", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_refused_request_is_status_2_and_speaks_on_standard_error_only(monkeypatch, capsys, arguments, said):
    """A pipeline that reads an error message as data writes it into the next file."""
    monkeypatch.chdir(ROOT)
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_tensor_no_rule_knows_is_refused_by_name(capsys, tmp_path):
    path = tmp_path / "w.safetensors"
    header = {"rotary.inv_freq": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}
    path.write_bytes(safetensors_bytes(header))
    status, out, err = run(capsys, "init", path, "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert "'rotary.inv_freq'" in err
    assert not (tmp_path / "out").exists()


def test_ctrl_c_is_status_130_and_leaves_no_half_written_file(capsys, tmp_path, specs, monkeypatch, interrupted):
    monkeypatch.setattr("fastinit._engine.stretches.fill", interrupted)
    status, out, err = run(capsys, "init", specs, "--out", tmp_path / "w")
    assert (status, out) == (130, "")
    assert err == "fastinit: interrupted; nothing was changed\n"
    assert sorted(os.listdir(tmp_path)) == ["specs.json"]


def test_a_defect_is_not_dressed_up_as_a_refusal(capsys, monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr("fastinit._engine.gains.check_fans", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["scale", "2", "2"])


@pytest.mark.parametrize(("given", "said"), [((), "not enough memory"), (("Unable to allocate 9 PiB",), "9 PiB")])
def test_too_little_memory_is_status_2_and_a_sentence(capsys, monkeypatch, given, said):
    def fail(*arguments):
        raise MemoryError(*given)

    monkeypatch.setattr("fastinit._engine.gains.check_fans", fail)
    status, out, err = run(capsys, "scale", "2", "2")
    assert (status, out) == (2, "")
    assert err.startswith("fastinit: ")
    assert said in err


def test_the_version_and_the_kernels(capsys):
    status, out, err = run(capsys, "--version")
    assert (status, err) == (0, "")
    assert out.startswith(f"fastinit {fastinit.__version__} (kernels: ")


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)], ids=" ".join)
def test_help_is_output_and_status_0(capsys, command):
    status, out, err = run(capsys, *command, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: {' '.join(['fastinit', *command])}")
    if not command:
        assert all(name in out for name in COMMANDS)
        assert "exit status" in out
    else:
        assert "--json" in out


HELP = """
    import sys
    from fastinit.cli.main import main
    try:
        main([*sys.argv[1:], "--help"])
    finally:
        print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)], ids=" ".join)
def test_help_loads_the_commands_own_file_and_no_numpy(command):
    """numpy alone would take most of the 0.15 s that help may take."""
    ended = run_python("-c", textwrap.dedent(HELP), *command)
    assert ended.returncode == 0
    loaded = set(ended.stderr.split())
    assert [name for name in cli.COMMANDS if f"fastinit.cli.{name}" in loaded] == command
    assert not {"numpy", "fastinit.plan", "hashlib", "ml_dtypes", "fastinit.cli.timing"} & loaded


def test_info_says_what_a_timing_depends_on(capsys):
    status, out, err = run(capsys, "info")
    assert (status, err) == (0, "")
    assert f"fastinit: {fastinit.__version__}\n" in out
    facts = json.loads(run(capsys, "info", "--json")[1])
    assert facts["levels"]["portable"] is True
    assert {"cpu", "level", "compiler", "flags", "numpy", "commit"} <= facts.keys()


def test_bench_stands_beside_memory(capsys):
    arguments = ("bench", "--mib", 1, "--rounds", 1, "--dtype", "bf16")
    status, out, err = run(capsys, *arguments)
    assert (status, err) == (0, "")
    title, *lines, limit = out.splitlines()
    assert title.startswith("bfloat16, 1,048,576 bytes")
    assert [line[2:38].strip() for line in lines] == [timing.FASTINIT, timing.STORES, timing.MIX, timing.MEMSET]
    assert limit.startswith(
        ("  no fill beats the store limit; this one is at ", "  no fill beats the mix alone; ")
    )
    seconds = json.loads(run(capsys, *arguments, "--json")[1])["seconds"]
    assert list(seconds) == ["bfloat16"]
    assert all(0 < times["low"] <= times["median"] <= times["high"] for times in seconds["bfloat16"].values())


def test_memset_writes_no_zeros():
    """Some CPUs write zeros three times as fast as anything else: no fill could come near."""
    buffer = np.zeros(1000, np.uint8)
    timing.memset(buffer)()
    assert (buffer == buffer[0]).all()
    assert buffer[0] != 0


@pytest.mark.parametrize(
    ("stores", "limit"), [(1.0, "mix alone; this one is at 50%"), (3.0, "store limit; this one is at 75%")]
)
def test_the_limit_of_a_fill_is_the_slower_of_its_two_halves(stores, limit):
    seconds = {timing.FASTINIT: 4.0, timing.STORES: stores, timing.MIX: 2.0, timing.MEMSET: 9.0}
    timings = {name: timing.Timing(median, median, median) for name, median in seconds.items()}
    assert timing.table("float16", 8, timings)[-1] == f"  no fill beats the {limit}"


def test_the_beginning_of_an_option_is_the_option(capsys):
    """Scripts say --init and --residual, which were the whole names once."""
    few = ("propagate", "--width", 8, "--inputs", 4, "--seeds", 1, "--json")
    for short, whole, value in (("--init", "--initializer", "zeros"), ("--residual", "--residual-layers", 2)):
        status, out, err = run(capsys, *few, short, value)
        assert (status, err) == (0, "")
        assert out == run(capsys, *few, whole, value)[1]


def test_python_m_fastinit_returns_the_status():
    ended = run_python("-m", "fastinit", "scale", "0", "2")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("fastinit: fan_in")
    assert run_python("-m", "fastinit", "scale", "2", "2").returncode == 0


@pytest.mark.parametrize("arguments", [["show", "llama-3.1-405b"], ["report"]], ids=["long", "short"])
def test_a_reader_that_has_seen_enough_is_no_error(arguments):
    """`fastinit show ... | head -1` must not print a traceback."""
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "fastinit", *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    os.close(writing)
    os.close(reading)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_a_failed_check_is_status_1_though_nobody_reads_it(made, arguments):
    """`fastinit verify FILE 2>&1 | grep -q ...` under pipefail that calls a damaged file good."""
    content = bytearray(made.read_bytes())
    content[-1] ^= 1
    made.write_bytes(content)
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fastinit", "verify", str(made), *arguments]
    ended = subprocess.run(command, stdout=writing, stderr=writing, cwd=ROOT, timeout=60, check=False)
    os.close(writing)
    assert ended.returncode == 1


def test_a_closed_standard_output_is_no_traceback():
    command = f"'{sys.executable}' -m fastinit scale 2 2 >&-"
    ended = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_progress_is_for_terminals_only(made):
    ended = run_python("-m", "fastinit", "verify", str(made))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_progress_on_a_terminal_can_be_silenced(capsys, made, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "embed.weight" in run(capsys, "verify", made)[2]
    assert run(capsys, "verify", made, "--quiet")[2] == ""


SLOW_WRITE = """
    import sys, time, fastinit.writing.writer as writer, fastinit.cli.main
    def slow(*arguments):
        print("filling", flush=True)
        time.sleep(60)
    writer._write_regions = slow
    sys.argv = ["fastinit", "init", "all-minilm-l6-v2", "--out", sys.argv[1]]
    sys.exit(fastinit.cli.main.main())
"""


def test_sigterm_leaves_no_temporary_file(tmp_path):
    """A scheduler that ends the job: a full-size hidden file would stay behind each time."""
    code = textwrap.dedent(SLOW_WRITE)
    command = [sys.executable, "-c", code, str(tmp_path / "model.safetensors")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "filling\n"
        child.terminate()
        child.communicate(timeout=30)
    finally:
        child.kill()
    assert child.returncode == 143
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("option", "path", "message"),
    [
        ("--figure", "curves.pdf", "ends in .svg or .png"),
        ("--figure", "absent/curves.svg", "there is no folder"),
        ("--html", "absent/page.html", "there is no folder"),
        ("--html", ".", "is a folder"),
    ],
)
def test_a_view_that_cannot_be_written_is_refused_before_the_work(
    capsys, tmp_path, monkeypatch, option, path, message
):
    """A typo in a file's name cost the whole training run."""
    from fastinit.lessons import training  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "compare_starts", lambda *_, **__: pytest.fail("computed first"))
    status, out, err = run(capsys, "train", option, path)
    assert (status, out) == (2, "")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_a_view_names_the_extra_before_the_work(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, err = run(capsys, "trace", "--html", tmp_path / "page.html")
    assert (status, out) == (2, "")
    assert "pip install 'fastinit-weights[figures]'" in err
