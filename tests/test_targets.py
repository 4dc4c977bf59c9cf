"""Where weights go: parts, memory, dtypes and indices that a writer gets wrong in silence."""

import array
import ctypes
import itertools
import math
import re
import sys
import types

import ml_dtypes
import numpy as np
import pytest
import reference
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memory import targets
from numpy.lib.stride_tricks import as_strided

from fastinit import SplitMix64
from fastinit import xavier_uniform as xavier

NARROW = [name for name in DTYPES if NUMPY[name].itemsize < 4]


def expected_bits(shape, state, dtype="float64", gain=1.0):
    """The whole tensor by the reference; the last two axes are rows and columns, the first ones a stack."""
    form = reference.FORMATS[dtype]
    limit = reference.xavier_scale(*shape[-2:])[2] * gain
    weights = [reference.centered_weight(reference.draw(state, i), limit, form) for i in range(math.prod(shape))]
    return patterns(weights, dtype, shape)


# ---- parts and targets -------------------------------------------------------------------------------

LAYOUTS = {2: "io", 3: "eio", 4: "hwio", 5: "ehwio"}


@settings(max_examples=150)
@given(st.data())
def test_a_part_is_that_part_of_the_whole_in_any_memory(data):
    """Shards that do not fit together: pytorch#80041, OLMo-core#319. numpy cuts the whole, and judges."""
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=5, min_side=0, max_side=5))
    dtype = data.draw(st.sampled_from(DTYPES))
    index = data.draw(st.none() | hnp.basic_indices(shape, allow_ellipsis=True))
    layout = LAYOUTS[len(shape)]
    rng = SplitMix64(data.draw(st.integers(0, 2**64 - 1)))
    state = rng.state
    whole = xavier(shape, state, dtype=dtype, layout=layout)
    expected = bits_of(np.asarray(whole[... if index is None else index]))
    target = data.draw(targets(expected.shape, NUMPY[dtype]))
    assert xavier(shape, rng, out=target.array, index=index, layout=layout) is target.array
    assert_bits(target.array, expected, f"whole {shape}, index {index}, {target}, state {state:#x}")
    target.assert_guards()
    assert rng.state == reference.advanced(state, math.prod(shape)), "a part must consume the whole's draws"


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_shards_differ_and_make_the_same_tensor_for_any_world_size(world, axis):
    """ms-swift#7944, OLMo-core#319: two ranks with equal shards; a model that depends on the number of ranks."""
    shape, rows = (24, 48), (24, 48)[axis] // world
    shards = []
    for rank in range(world):
        rng = SplitMix64(17)
        index = [slice(None), slice(None)]
        index[axis] = slice(rank * rows, (rank + 1) * rows)
        shards.append(xavier(shape, rng, index=tuple(index)))
        assert rng.state == reference.advanced(17, 24 * 48), f"rank {rank} is out of step"
    assert_bits(np.concatenate(shards, axis), expected_bits(shape, 17), f"{world} shards along axis {axis}")
    assert len({shard.tobytes() for shard in shards}) == world


class Subclass(np.ndarray):
    """Its items cannot be set: a fill must not go through them."""

    def __setitem__(self, key, value):
        raise AssertionError("the fill went through the subclass")


def memmap(tmp_path):
    return np.memmap(tmp_path / "weights", np.float64, "w+", shape=(3, 4))


def ctypes_array(tmp_path):
    return np.ctypeslib.as_array(((ctypes.c_double * 4) * 3)())


TARGETS = {
    "C": lambda tmp_path: np.empty((3, 4)),
    "F": lambda tmp_path: np.empty((3, 4), order="F"),
    "transposed": lambda tmp_path: np.empty((4, 3)).T,
    "strided": lambda tmp_path: np.empty((6, 12))[::2, ::3],
    "backwards": lambda tmp_path: np.empty((3, 4))[::-1, ::-1],
    "misaligned": lambda tmp_path: np.empty(97, np.uint8)[1:].view(np.float64).reshape(3, 4),
    "byte-swapped": lambda tmp_path: np.empty((3, 4), np.dtype(np.float64).newbyteorder()),
    "field of a struct": lambda tmp_path: np.empty((3, 4), "u1,f8,u1")["f1"],
    "memmap": memmap,
    "matrix": lambda tmp_path: np.empty((3, 4)).view(np.matrix),
    "subclass": lambda tmp_path: np.empty((3, 4)).view(Subclass),
    "masked": lambda tmp_path: np.ma.masked_array(np.zeros((3, 4)), mask=True),
    "memoryview": lambda tmp_path: memoryview(bytearray(96)).cast("B").cast("d", (3, 4)),
    "ctypes": ctypes_array,
    "as_strided, distinct": lambda tmp_path: as_strided(np.empty(40), (3, 4), (24, 80)),
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("shape", [(3, 4), None], ids=["shape", "shape=None"])
def test_targets_that_are_filled_in_place(kind, shape, tmp_path):
    """A copy filled in the target's place, or an honest target refused."""
    out = TARGETS[kind](tmp_path)
    rng = SplitMix64(17)
    assert xavier(shape, rng, out=out) is out
    assert_bits(np.asarray(memoryview(out) if kind == "memoryview" else out), expected_bits((3, 4), 17), kind)
    assert rng.state == reference.advanced(17, 12)


def test_a_memmap_keeps_its_weights_on_disk(tmp_path):
    out = memmap(tmp_path)
    xavier((3, 4), 17, out=out)
    out.flush()
    found = np.fromfile(tmp_path / "weights").reshape(3, 4)
    assert_bits(found, expected_bits((3, 4), 17), "read back")


def test_buffers_of_other_kinds_take_a_part():
    """array.array is 1-d, an integer index leaves a 0-d target."""
    row = array.array("d", bytes(32))
    assert xavier((3, 4), 17, out=row, index=1) is row
    assert_bits(np.array(row), expected_bits((3, 4), 17)[1], "array.array")
    for out in (np.empty(()), np.empty(5)[3:4].reshape(()), np.empty((), ">f8")):
        xavier((3, 4), 17, out=out, index=(2, -1))
        assert_bits(out, expected_bits((3, 4), 17)[2, 3], "0-d")
    narrow = bytearray(4)
    xavier((3, 4), 17, out=narrow, index=0, dtype="float8_e5m2")
    assert_bits(np.frombuffer(narrow, np.uint8), expected_bits((3, 4), 17, "float8_e5m2")[0], "bytearray")


# ---- dtypes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_by_every_name_they_have(dtype):
    for given_as in (dtype, NUMPY[dtype], NUMPY[dtype].type):
        found = xavier((3, 4), 17, dtype=given_as)
        assert found.dtype == NUMPY[dtype]
        assert_bits(found, expected_bits((3, 4), 17, dtype), f"dtype={given_as!r}")
    assert xavier((3, 4), 17).dtype == np.float64


def test_a_byte_swapped_dtype_is_kept():
    swapped = np.dtype(np.float32).newbyteorder()
    found = xavier((3, 4), 17, dtype=swapped)
    assert found.dtype.byteorder == swapped.byteorder
    assert_bits(found, expected_bits((3, 4), 17, "float32"), "swapped float32")


@pytest.mark.parametrize("dtype", NARROW)
def test_unsigned_targets_receive_the_bit_patterns_of_a_named_dtype(dtype):
    """Numbers converted to integers in place of bits; bits in the wrong byte order."""
    bits = f"u{NUMPY[dtype].itemsize}"
    named = xavier((3, 4), 17, dtype=dtype)
    for order in "=<>":
        out = np.zeros((3, 4), np.dtype(bits).newbyteorder(order))
        xavier((3, 4), 17, dtype=dtype, out=out)
        assert np.array_equal(out, named.view(bits)), f"{dtype} into {out.dtype.str}"
        assert_bits(out, expected_bits((3, 4), 17, dtype), f"{dtype} into {out.dtype.str}")


@pytest.mark.parametrize(
    ("out", "dtype"),
    [
        ("f8", "f4"),
        ("f4", "f8"),
        ("f2", "bfloat16"),
        (ml_dtypes.bfloat16, "float16"),
        (ml_dtypes.float8_e5m2, "float8_e4m3fn"),
        ("u1", None),
        ("u2", None),
        ("u4", "float32"),
        ("u8", "float64"),
        ("u1", "bfloat16"),
        ("u2", "float8_e5m2"),
        ("i2", "float16"),
        ("i8", None),
        ("i4", "f4"),
        ("?", None),
        ("c16", None),
        ("O", None),
        ("O", "f8"),
        ("V8", "f8"),
        ("S8", None),
        ("m8[s]", None),
        ("f4,f4", None),
        ("f4,f4", "f8"),
        (np.longdouble, None),
        (ml_dtypes.float8_e4m3b11fnuz, None),
    ],
)
def test_targets_of_another_dtype_are_refused_untouched(out, dtype):
    """A cast, a reinterpretation, or pointers of an object array overwritten with weights."""
    target, rng = np.zeros((2, 2), out), SplitMix64(17)
    before = target.tobytes()
    with pytest.raises(TypeError, match="dtype"):
        xavier((2, 2), rng, out=target, dtype=dtype)
    assert target.tobytes() == before
    assert rng.state == 17


@pytest.mark.parametrize("dtype", ["int64", int, bool, complex, object, "nonsense", "f4,f4", 5, "float8_e3m4"])
def test_dtypes_no_weight_is_stored_in_are_refused(dtype):
    rng = SplitMix64(17)
    with pytest.raises(TypeError, match="dtype must be one of float64"):
        xavier((2, 2), rng, dtype=dtype)
    assert rng.state == 17


# ---- targets refused ---------------------------------------------------------------------------------


class Foreign:
    """A tensor of another library: no buffer, and a `.numpy()`."""

    def numpy(self):
        raise AssertionError("nobody may ask for it")


def test_the_hint_for_a_tensor_is_never_its_view(monkeypatch):
    """Written through ``.detach().numpy()``, autograd does not notice, and a gradient was wrong in silence."""
    with pytest.raises(TypeError, match="got Foreign") as other:
        xavier((2, 2), 17, out=Foreign())
    assert "numpy()" not in str(other.value)
    assert "assign it with the library that made the tensor" in str(other.value)
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Foreign))
    with pytest.raises(TypeError, match=r"call fastinit\.torch\.xavier_uniform_") as torchs:
        xavier((2, 2), 17, out=Foreign())
    assert "numpy()" not in str(torchs.value)


def test_no_document_shows_the_view_of_a_tensor_as_a_target():
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "fastinit").rglob("*.py")]:
        assert not re.search(r"out=\w+(\.detach\(\))?\.numpy\(\)", page.read_text()), page


def read_only():
    out = np.zeros((3, 4))
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("out", "error", "reason"),
    [
        (read_only(), ValueError, "read-only"),
        (bytes(96), ValueError, "read-only"),
        (np.broadcast_to(np.zeros(4), (3, 4)), ValueError, "read-only"),
        (as_strided(np.zeros(4), (3, 4), (0, 8)), ValueError, "share memory"),
        (as_strided(np.zeros(20), (3, 4), (8, 8)), ValueError, "share memory"),
        (as_strided(np.zeros(20), (3, 4), (24, 8)), ValueError, "share memory"),
        (as_strided(np.zeros(20), (3, 4), (16, 32)), ValueError, "share memory"),
        (as_strided(np.zeros(20), (3, 4), (4, 16)), ValueError, "share memory"),
        (as_strided(np.zeros(20)[8:], (3, 4), (-8, 16)), ValueError, "share memory"),
        (np.zeros((4, 3)), ValueError, "shape"),
        (np.zeros(12), ValueError, "shape"),
        (np.zeros((1, 3, 4)), ValueError, "shape"),
        (np.zeros(()), ValueError, "shape"),
        ([[0.0] * 4] * 3, TypeError, "list"),
        (5, TypeError, "int"),
        ("weights", TypeError, "str"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_unfit_targets_are_refused_untouched(out, error, reason):
    """Elements that overwrite each other, memory that must not be written, and a copy filled in vain."""
    rng = SplitMix64(17)
    with pytest.raises(error, match=reason):
        xavier((3, 4), rng, out=out)
    assert rng.state == 17
    if isinstance(out, np.ndarray):
        assert not out.any()


@given(st.data())
def test_overlap_is_judged_as_brute_force_judges_it(data):
    """An overlapping target accepted, or a distinct one refused: any strides numpy can express."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=3)))
    strides = tuple(data.draw(st.lists(st.integers(-12, 12), min_size=len(shape), max_size=len(shape))))
    step = data.draw(st.sampled_from([1, 4, 8]))
    strides = tuple(step * stride for stride in strides)
    out = as_strided(np.zeros(300)[150:], shape, strides)
    offsets = [
        sum(map(int.__mul__, place, strides)) for place in itertools.product(*(range(length) for length in shape))
    ]
    bytes_written = [offset + b for offset in offsets for b in range(8)]
    call = {"out": out, "layout": LAYOUTS[len(shape)]}
    if len(set(bytes_written)) < len(bytes_written):
        with pytest.raises(ValueError, match="share memory"):
            xavier(shape, 17, **call)
    else:
        xavier(shape, 17, **call)
        assert_bits(out, bits_of(xavier(shape, 17, layout=call["layout"])), f"{shape}, strides {strides}")


# ---- index -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (None, None),
        ([0, 1], TypeError),
        ((0, [1]), TypeError),
        (np.array([0, 1]), TypeError),
        (np.ones((3, 4), bool), TypeError),
        (np.array(1), TypeError),
        (range(2), TypeError),
        ((None, 0), TypeError),
        (np.newaxis, None),
        (True, TypeError),
        (np.True_, TypeError),
        ((0, False), TypeError),
        (1.0, TypeError),
        ("0", TypeError),
        (3, IndexError),
        (-4, IndexError),
        ((0, 4), IndexError),
        ((0, -5), IndexError),
        ((..., 2**70), IndexError),
        ((0, 0, 0), IndexError),
        ((0, 0, ..., 0), IndexError),
        ((..., ...), IndexError),
        (slice(None, None, 0), ValueError),
        (slice(0.5, 2), TypeError),
    ],
    ids=repr,
)
def test_indices_that_are_no_part_are_refused(index, error):
    """numpy's fancy indexing taken for a slice; a wrong place filled instead of an error."""
    rng = SplitMix64(17)
    if error is None:
        assert xavier((3, 4), rng, index=index).shape == (3, 4), "index=None is no index"
        return
    with pytest.raises(error):
        xavier((3, 4), rng, index=index)
    assert rng.state == 17


@pytest.mark.parametrize("error", [IndexError, ValueError, TypeError])
def test_numpy_refuses_what_is_refused_here_for_its_value(error):
    """The judge of the table above: nothing numpy's basic indexing takes is refused."""
    whole = np.zeros((3, 4))
    for index in {
        IndexError: [3, -4, (0, 4), (0, -5), (..., 2**70), (0, 0, 0), (0, 0, ..., 0), (..., ...)],
        ValueError: [slice(None, None, 0)],
        TypeError: [slice(0.5, 2)],
    }[error]:
        with pytest.raises(error):
            whole[index]


def test_index_needs_the_whole_shape():
    """shape=None with index=: out's shape is the part's, and says nothing of the whole."""
    rng, out = SplitMix64(17), np.zeros(4)
    with pytest.raises(TypeError, match="shape must be given"):
        xavier(None, rng, out=out, index=0)
    with pytest.raises(TypeError, match="shape must be given"):
        xavier(None, rng)
    with pytest.raises(ValueError, match=r"shape \(3, 4\), but index=0"):
        xavier((3, 4), rng, out=np.zeros((3, 4)), index=0)
    assert rng.state == 17
    assert not out.any()
