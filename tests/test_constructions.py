"""Constructions: identity and dirac through the public door; the random ones built from numpy's normals.

What they make of fastinit's own normals is in test_initializers_draws.py.
"""

import math
import tracemalloc
from fractions import Fraction

import host
import ml_dtypes
import numpy as np
import pytest
import reference
from bits import DTYPES, NUMPY, assert_bits, bits_of, patterns
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from memory import targets
from tables import EDGE_DRAWS, STATES

import fastinit
from fastinit import _core
from fastinit._engine import constructions, fill
from fastinit._engine.constructions import DeltaOrthogonal, Diagonal, Orthogonal, Sparse, WholeTensor
from fastinit._engine.dtypes import BY_NAME


def normals_of(shape, seed=1):
    """A stand-in for the stream's normals: what `build` is given."""
    whole = np.random.default_rng(seed).standard_normal(shape)

    def normals(std=1.0, index=None):
        return np.array(whole if index is None else whole[index]) * std

    return normals


def built(construction, shape, normals=None, state=17):
    construction.check(shape)
    if construction.is_divided:
        return fill.fill(state, shape, construction)
    return construction.build(shape, normals or normals_of(shape))


# ---- identity and dirac ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2), (1, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("layout", ["io", "oi"])
def test_identity(shape, layout):
    assert np.array_equal(fastinit.identity(shape, layout=layout), np.eye(*shape))
    assert np.array_equal(
        fastinit.identity(shape, layout=layout, gain=0.3, dtype="float32"), 0.3 * np.eye(*shape, dtype="f4")
    )


def test_identity_of_a_stack():
    assert np.array_equal(fastinit.identity((4, 2, 3), layout="eoi"), np.stack([np.eye(2, 3)] * 4))
    assert np.array_equal(fastinit.identity((2, 4, 3), layout="oei"), np.stack([np.eye(2, 3)] * 4, axis=1))


def dirac(shape, groups):
    """torch's loop, for (outputs, inputs, *field)."""
    whole = np.zeros(shape)
    share = shape[0] // groups
    for group in range(groups):
        for channel in range(min(share, shape[1])):
            whole[(group * share + channel, channel, *(n // 2 for n in shape[2:]))] = 1
    return whole


@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((4, 4, 3), 1),
        ((6, 2, 3), 3),
        ((4, 6, 3, 5), 2),
        ((6, 2, 2, 4), 2),
        ((3, 1, 3, 3, 3), 3),
        ((5, 7, 1, 2, 3), 1),
        ((4, 2), 2),
    ],
)
def test_dirac(shape, groups):
    """One tap too far, only the first group, or a kernel that loses channels."""
    layout = "oi" + "dhw"[: len(shape) - 2]
    assert np.array_equal(fastinit.dirac(shape, groups, layout=layout), dirac(shape, groups))
    moved = (*range(2, len(shape)), 1, 0)
    last = fastinit.dirac(tuple(shape[axis] for axis in moved), groups, layout="dhw"[: len(shape) - 2] + "io")
    assert np.array_equal(last, dirac(shape, groups).transpose(moved))


def test_dirac_convolves_to_its_input():
    """The very meaning: every group hands its inputs on."""
    kernel = fastinit.dirac((6, 3, 5), 2, layout="oiw")
    signal = np.random.default_rng(1).standard_normal((6, 20))
    for output in range(6):
        group = output // 3
        total = sum(np.correlate(signal[group * 3 + i], kernel[output, i], "same") for i in range(3))
        assert np.array_equal(total, signal[output])


@settings(max_examples=60)
@given(st.data())
def test_a_part_of_a_construction_is_that_part_in_any_memory(data):
    """C4 for what cannot be made in parts: cut from the whole, into any memory and every dtype."""
    shape = data.draw(st.sampled_from([(4, 2, 3), (6, 3, 1), (2, 2, 2)]))
    dtype = data.draw(st.sampled_from(DTYPES))
    index = data.draw(st.none() | hnp.basic_indices(shape, allow_ellipsis=True))
    whole = fastinit.dirac(shape, 2, layout="oiw", dtype=dtype)
    expected = bits_of(np.asarray(whole[... if index is None else index]))
    target = data.draw(targets(expected.shape, NUMPY[dtype]))
    assert fastinit.dirac(shape, 2, layout="oiw", out=target.array, index=index) is target.array
    assert_bits(target.array, expected, f"dirac {shape}, index {index}, {target}")
    target.assert_guards()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_bit_patterns_are_received_by_unsigned_arrays(dtype):
    width = NUMPY[dtype].itemsize
    for order in "<>":
        out = np.zeros((3, 3), f"{order}u{width}")
        fastinit.identity(None, out=out, dtype=dtype, gain=0.3)
        assert_bits(out, bits_of(fastinit.identity((3, 3), dtype=dtype, gain=0.3)), f"{order}u{width}")


# ---- rounding of a finished tensor -------------------------------------------------------------------


def awkward(form):
    """Zeros, subnormals, and values at and just off halfway points."""
    values = [0.0, -0.0, 1.0, 0.1, -0.3, 5e-324, 1e-45, 2.0**-149, 3 * 2.0**-150]
    low = 2.0 ** (min(form.precision, 24) - 1)
    for exponent in (-20, -14, -9, 0):
        unit = 2.0**exponent / low
        values += [sign * (low + m) * unit for sign in (1, -1) for m in (0.5, 1.5, 0.5 + 2.0**-20, 1.5 - 2.0**-20)]
    return values


@pytest.mark.parametrize("dtype", DTYPES)
def test_narrowing_rounds_once_to_nearest_even(dtype):
    """C11 for a finished array: float64 by way of float32 is wrong for one bfloat16 in 131,072."""
    form = reference.FORMATS[dtype]
    values = awkward(form)
    rng = np.random.default_rng(5)
    values += [float(x) for x in rng.standard_normal(2000) * 2.0 ** rng.integers(-16, 5, 2000)]
    out = np.empty(len(values), NUMPY[dtype])
    fill._store(out, BY_NAME[dtype], np.array(values))
    assert_bits(out, patterns([reference.narrowed(x, form) for x in values], dtype), "narrowing")


def test_the_values_above_would_show_a_double_rounding():
    """Otherwise the test above shows nothing."""
    values = np.array(awkward(reference.FORMATS["bfloat16"]))
    twice = values.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert (
        twice != patterns([reference.narrowed(x, reference.FORMATS["bfloat16"]) for x in values], "bfloat16")
    ).any()


def test_a_part_of_no_axes_is_stored():
    out = np.empty((), np.float32)
    fastinit.identity((3, 3), index=(1, 1), out=out, gain=0.5)
    assert out == 0.5


# ---- orthogonal --------------------------------------------------------------------------------------


def q_of(matrix):
    """C16 on one matrix, tall or square: Q with R's diagonal made positive, sign(0) = 1."""
    q, r = np.linalg.qr(matrix)
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


def assert_orthonormal(matrix, gain=1.0, atol=1e-14):
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    assert np.allclose(small @ small.T, gain**2 * np.eye(len(small)), rtol=0, atol=atol * max(1, gain**2))


@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (1, 1), (1, 9), (9, 1), (64, 48)])
@pytest.mark.parametrize("layout", ["io", "oi"])
def test_orthogonal_is_the_q_of_the_streams_normals(shape, layout):
    """pyhgf#418: not orthogonal when not square. A matrix is taken as it is stored, whatever its layout."""
    normals = normals_of(shape)
    found = built(Orthogonal(1.0, layout), shape, normals)
    x = normals()
    expected = q_of(x) if shape[0] >= shape[1] else q_of(x.T).T
    assert np.allclose(found, expected, rtol=0, atol=1e-14)
    assert_orthonormal(found)
    assert_orthonormal(built(Orthogonal(1.5, layout), shape, normals), 1.5)


@pytest.mark.parametrize(
    ("shape", "layout", "rows"),
    [
        ((3, 4, 5, 6), "oihw", (3, 120)),
        ((130, 4, 5, 6), "oihw", (130, 120)),
        ((3, 4, 5, 6), "hwio", (60, 6)),
        ((1, 2, 3, 16), "hwio", (6, 16)),
        ((5, 4, 6), "wio", (20, 6)),
        ((2, 1, 3, 4, 30), "dhwio", (24, 30)),
    ],
)
def test_orthogonal_flattens_as_torch_and_as_jax_do(shape, layout, rows):
    """pytorch PR#18915: 4 columns instead of 120."""
    normals = normals_of(shape)
    found = built(Orthogonal(1.0, layout), shape, normals).reshape(rows)
    assert_orthonormal(found)
    x = normals().reshape(rows)
    assert np.allclose(found, q_of(x) if rows[0] >= rows[1] else q_of(x.T).T, rtol=0, atol=1e-14)


def test_orthogonal_of_stacks_and_groups_is_one_matrix_each():
    """Experts orthogonal to each other instead of within; a depthwise kernel whose signal shrinks by sqrt(g)."""
    stack = built(Orthogonal(1.0, "eio"), (3, 6, 4))
    for matrix in stack:
        assert_orthonormal(matrix)
    grouped = built(Orthogonal(1.0, "oihw", 4), (8, 3, 2, 2))
    for group in grouped.reshape(4, 2, 12):
        assert_orthonormal(group)
    depthwise = built(Orthogonal(1.0, "hwIo", 6), (3, 3, 6, 1))
    assert np.allclose((depthwise**2).sum(axis=(0, 1, 3)), 1, rtol=0, atol=1e-14)
    transposed = built(Orthogonal(1.0, "Iow", 2), (8, 3, 5))
    for group in transposed.reshape(2, 4, 3, 5):
        assert_orthonormal(group.transpose(1, 0, 2).reshape(3, 20))


def test_orthogonal_of_a_rank_deficient_matrix():
    """sign(0) = 0 would zero a column."""
    zeros = np.zeros((4, 3))
    assert_orthonormal(built(Orthogonal(), (4, 3), lambda: zeros))
    repeated = np.ones((5, 4))
    assert_orthonormal(built(Orthogonal(), (5, 4), lambda: repeated))
    assert_orthonormal(built(Orthogonal(), (4, 5), lambda: repeated.T))


def haar(n, count, signs):
    """Eigenangles of `count` random n x n orthogonal matrices, with or without the sign rule."""
    shape = (count, n, n)
    if signs:
        matrices = built(Orthogonal(1.0, "eoi"), shape, normals_of(shape, 7))
    else:
        matrices = np.linalg.qr(normals_of(shape, 7)())[0]
    return np.trace(matrices, axis1=1, axis2=2), matrices[:, 0, 0]


def test_orthogonal_matrices_are_haar_distributed():
    """Without the sign rule LAPACK's Q is not uniform: E[trace] is not 0, and the first entry is one-sided.

    For Haar on O(n), E[trace] = 0 and E[trace**2] = 1 for n >= 2 (Diaconis and Shahshahani, 1994).
    """
    count = 20_000
    trace, first = haar(5, count, signs=True)
    assert abs(trace.mean()) < 5 / math.sqrt(count)
    assert abs((trace**2).mean() - 1) < 5 * math.sqrt(2 / count)
    assert abs(first.mean()) < 5 * math.sqrt(0.2 / count)
    assert abs((first**2).mean() - 0.2) < 5 * math.sqrt(0.08 / count)
    trace, first = haar(5, count, signs=False)
    assert abs(first.mean()) > 0.1, "the test cannot tell the sign rule from its absence"


# ---- delta orthogonal --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "layout", "groups", "middle"),
    [
        ((3, 3, 4, 8), "hwio", 1, (1, 1)),
        ((4, 3, 4, 4), "hwio", 1, (1, 1)),
        ((5, 2, 3), "wio", 1, (2,)),
        ((8, 4, 3, 3), "oihw", 1, (slice(None), slice(None), 1, 1)),
        ((8, 2, 3, 2), "oihw", 2, (slice(None), slice(None), 1, 0)),
        ((2, 3, 4, 4), "ewio", 1, (slice(None), 1)),
    ],
)
def test_delta_orthogonal(shape, layout, groups, middle):
    """Orthonormal over the whole kernel, or at another tap: the signal would be blurred or shifted."""
    normals = normals_of(shape)
    whole = built(DeltaOrthogonal(1.5, layout, groups), shape, normals)
    centre = whole[middle].copy()
    plain = "".join(letter for letter in layout if letter not in "dhw")
    assert np.array_equal(
        centre, built(Orthogonal(1.5, plain, groups), centre.shape, lambda: normals(index=middle))
    )
    whole[middle] = 0
    assert not whole.any()
    for matrix in centre.reshape(groups * (shape[0] if layout[0] == "e" else 1), -1, centre.shape[-1]):
        assert_orthonormal(matrix, 1.5)


def test_delta_orthogonal_keeps_the_length_of_every_input():
    kernel = built(DeltaOrthogonal(1.0, "oiw"), (8, 4, 3))
    signal = np.random.default_rng(2).standard_normal(4)
    assert np.linalg.norm(kernel[:, :, 1] @ signal) == pytest.approx(np.linalg.norm(signal), rel=1e-14)


# ---- sparse ------------------------------------------------------------------------------------------


def keys(state, count):
    return [reference.mix64(reference.draw(state, i)) for i in range(count)]


@pytest.mark.parametrize("state", STATES)
def test_keys_are_the_hash_of_the_draws(state):
    found = np.empty(20, np.uint64)
    _core.keys(found, state)
    assert found.tolist() == keys(state, 20)


@pytest.mark.parametrize(
    ("shape", "fraction", "zeros"),
    [
        ((5, 7), 0.25, 2),  # mlx PR#3725, pytorch PR#2130
        ((10, 3), 0.1, 1),  # the product in float64: 1.0, although float(0.1) * 10 is more than 1
        ((10, 3), 0.3, 3),
        ((7, 2), 0.0, 0),
        ((7, 2), -0.0, 0),
        ((7, 2), 5e-324, 1),
        ((7, 2), 1.0, 7),
        ((1, 4), 0.5, 1),
        ((3, 1), 0.99, 3),
    ],
)
def test_sparse_zeroes_the_smallest_keys_of_every_column(shape, fraction, zeros):
    """Zeros along the wrong axis, or a count that is right on average only."""
    rows, columns = shape
    for state in STATES:
        found = fastinit.sparse(shape, state, fraction, 0.5)
        assert ((found == 0).sum(axis=0) == zeros).all()
        key = keys(state, rows * columns)
        for column in range(columns):
            order = sorted(range(rows), key=lambda row: key[row * columns + column])
            assert set(np.flatnonzero(found[:, column] == 0)) == set(order[:zeros])
        kept = found != 0
        assert np.array_equal(found[kept], fastinit.normal(shape, state, 0.0, 0.5)[kept])
        assert not np.signbit(found[~kept]).any()


@pytest.mark.parametrize("fraction", [5e-324, 1e-310])
def test_a_host_that_flushes_subnormals_zeroes_as_many(fraction):
    """ceil of a product that is flushed to 0 on its way into Python."""
    with host.flushing():
        found = fastinit.sparse((4, 3), 17, fraction)
    assert ((found == 0).sum(axis=0) == 1).all()


@pytest.mark.parametrize("draw", EDGE_DRAWS)
def test_which_weights_survive_does_not_lean_on_their_size(draw):
    """Zeroing the smallest *draws* would zero the most negative weights."""
    shape = (64, 64)
    state = reference.state_before(draw)
    found = fastinit.sparse(shape, state, 0.5)
    rank = np.array([reference.draw(state, i) >> 1 for i in range(4096)], np.int64).reshape(shape)
    kept = rank[found != 0] / 2.0**63
    assert abs(kept.mean() - 0.5) < 5 * math.sqrt(1 / 12 / kept.size)


# ---- all of them -------------------------------------------------------------------------------------


def test_every_construction_is_data_with_a_bound():
    for construction, bound in [
        (Diagonal(2.0), 2.0),
        (Orthogonal(2.0), 2.0),
        (DeltaOrthogonal(2.0), 2.0),
        (Sparse(0.5, 2.0), 2 * 8.2924),
    ]:
        assert construction.largest == bound
        assert construction == type(construction)(
            *(getattr(construction, name) for name in construction.__match_args__)
        )
        assert isinstance(construction, WholeTensor)
        assert np.abs(built(construction, (8, 8))).max() <= bound * (1 + 1e-15)


def test_draws_of_constructions():
    """C3: a random construction consumes exactly prod(shape) draws, the fixed ones none."""
    assert [construction.draws_per_weight for construction in (Diagonal, Orthogonal, DeltaOrthogonal, Sparse)] == [
        0,
        1,
        1,
        1,
    ]


def test_what_does_not_fit_in_memory_is_refused_before_it_is_built():
    """Advice to ask for a part, to one who did: a part of an orthogonal matrix takes all of it."""
    with pytest.raises(fastinit.AllocationFailed, match="orthogonal is made whole"):
        fill.fill(17, (2**40, 2**40), Orthogonal(), index=(0, 0))
    with pytest.raises(fastinit.AllocationFailed, match="fill a part with index="):
        fill.fill(17, (2**40, 2**40), Diagonal())
    with pytest.raises(fastinit.AllocationFailed, match="a column of sparse is made whole"):
        fill.fill(17, (2**60, 2), Sparse(0.5), index=(0, 0))
    with pytest.raises(ValueError, match="2\\*\\*64 - 1"):  # two elements would have one number
        fill.fill(17, (2**33, 2**33), Diagonal(), index=(0, 0))


# ---- what a part needs -------------------------------------------------------------------------------


def test_a_part_of_a_huge_identity_or_kernel_is_that_part():
    """One row took the memory of the whole, and the refusal advised to ask for a part."""
    n = 10**6
    assert np.array_equal(
        fastinit.identity((n, n), index=(slice(n - 3, None), slice(n - 4, None))), np.eye(3, 4, 1)
    )
    row = fastinit.identity((n, n), index=(-1,), gain=0.5)
    assert (row.shape, np.flatnonzero(row).tolist(), row[-1]) == ((n,), [n - 1], 0.5)
    shape, layout = (n, n // 4, 3, 5), "oihw"
    taps = fastinit.dirac(shape, 4, layout=layout, index=(slice(n // 2 - 1, n // 2 + 2), slice(2), slice(None), 2))
    expected = np.zeros((3, 2, 3))
    expected[1, 0, 1] = expected[2, 1, 1] = 1  # the third of four groups begins
    assert np.array_equal(taps, expected)


def test_some_columns_of_a_huge_sparse_matrix_are_those_of_its_own_stream():
    """All of a column is hashed, and nothing of its neighbours."""
    rows, columns, state = 1000, 10**12, 17
    found = fastinit.sparse((rows, columns), state, 0.25, index=(slice(None), slice(-1, -8, -3)))
    for k, column in enumerate((columns - 1, columns - 4, columns - 7)):
        keys = [reference.mix64(reference.draw(state, row * columns + column)) for row in range(rows)]
        smallest = sorted(range(rows), key=keys.__getitem__)[:250]
        assert sorted(smallest) == np.flatnonzero(found[:, k] == 0).tolist()


def test_columns_made_together_and_apart_are_alike(monkeypatch):
    """Two ways to the keys, and a run that ends inside the matrix."""
    expected = fastinit.sparse((300, 20), 17, 0.5)
    monkeypatch.setattr(constructions, "RUN", 2100)
    assert np.array_equal(fastinit.sparse((300, 20), 17, 0.5), expected)
    assert np.array_equal(fastinit.sparse((300, 20), 17, 0.5, index=(7, slice(None, None, 3))), expected[7, ::3])
    assert np.array_equal(fastinit.sparse((300, 20), 17, 0.5, index=(slice(9, 2, -2), 19)), expected[9:2:-2, 19])


WHOLE = np.empty((2048, 2048), np.float16)
PARTS = {
    "identity": lambda: fastinit.identity((4096, 4096), index=(slice(1), ...), dtype="float32"),
    "identity, whole": lambda: fastinit.identity(WHOLE.shape, out=WHOLE),
    "dirac": lambda: fastinit.dirac((512, 512, 3, 3), layout="oihw", index=5),
    "sparse": lambda: fastinit.sparse((1024, 4096), 17, 0.5, index=(..., 3)),
    "sparse, a row": lambda: fastinit.sparse((1024, 4096), 17, 0.5, index=(3, ...)),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_needs_memory_of_the_part(name):
    """Scratch as large as the whole tensor: 128 MiB for a row of a 4096 x 4096 identity."""
    PARTS[name]()  # what is made once
    tracemalloc.start()
    try:
        PARTS[name]()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 14 << 20, f"{peak / 2**20:.1f} MiB"  # runs of 1 MiB, and their temporaries


@pytest.mark.parametrize("construction", [DeltaOrthogonal(), Sparse(0.5, 1.0), Diagonal(1.0, "io", 4)])
def test_a_shape_that_does_not_fit_is_refused_at_the_door(construction):
    """A construction from a plan's JSON meets its tensor here."""
    out = np.full((6, 5) if isinstance(construction, DeltaOrthogonal) else (6, 5, 1), 7.0)
    with pytest.raises(ValueError, match=r"needs|zeroes|names"):
        fill.fill(17, out.shape, construction, out=out)
    assert (out == 7).all()


def test_constructions_are_not_stored_as_integers():
    with pytest.raises(fastinit.DistributionError, match="int64"):
        Diagonal().prepare(BY_NAME["int64"])


def test_the_reference_of_the_ceiling():
    """Case 43's count in exact rationals."""
    assert math.ceil(Fraction(1, 4) * 5) == 2
