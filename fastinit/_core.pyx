# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True, auto_pickle=False, autotestdict=False
"""Buffers in, one nogil call, status out. No arithmetic and no CPU knowledge lives here: see csrc/."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_STRIDED, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "fastinit.h" nogil:
    ctypedef enum fi_status:
        FI_OK, FI_NOT_AN_INTERVAL, FI_EMPTY_INTERVAL, FI_BEYOND_RANGE, FI_NOT_A_SPREAD
        FI_UNKNOWN_LEVEL, FI_UNSUPPORTED_LEVEL
    ctypedef enum fi_base:
        pass
    ctypedef enum fi_dtype:
        pass
    const int FI_BASES
    const int FI_DTYPES
    const char *fi_base_name(fi_base)
    const char *fi_dtype_name(fi_dtype)
    ctypedef enum fi_fan:
        FI_FAN, FI_FAN_SUM, FI_FAN_PRODUCT
    const int FI_PARAMETERS
    const int FI_MAX_DIMS
    ctypedef struct fi_spec:
        fi_dtype dtype
    ctypedef struct fi_region:
        char *data
        bint swapped
        int ndim
        int64_t length[64]
        int64_t stride[64]
        uint64_t draws[64]
        uint64_t first
        bint stream
    ctypedef struct fi_scale_result:
        double variance
        double std
        double limit
        double parent_std
    fi_status fi_spec_init(fi_spec *, fi_base, fi_dtype, const double *)
    void fi_region_normalize(fi_region *)
    int64_t fi_region_size(const fi_region *)
    ctypedef enum fi_stores:
        FI_STORES_AUTO, FI_STORES_ORDINARY, FI_STORES_STREAMING
    void fi_region_prepare(fi_region *, fi_dtype, fi_stores)
    void fi_fill(const fi_region *, const fi_spec *, uint64_t state, int64_t begin, int64_t end)
    void fi_scale(fi_scale_result *, double scale, double fan, fi_fan kind, double gain)
    void fi_rescale(double *x, double factor, double p, double q)
    void fi_rectifier_scale(double *scale, double slope, double moment)
    uint64_t fi_share(double fraction, double count)
    void fi_keys(uint64_t *keys, int64_t count, uint64_t state)
    void fi_multilinear(uint64_t *sums, const void *words, const uint64_t *weights, int64_t count)
    void fi_narrow(const double *values, int64_t count, fi_dtype dtype, void *bits)
    ctypedef struct fi_summary:
        int64_t count, nan, inf, zeros, at_low, at_high
        double low, high, anchor, mean, m2, m3, m4
    void fi_summarize(fi_summary *, const void *bits, int64_t count, fi_dtype dtype)
    void fi_summary_merge(fi_summary *, const fi_summary *)
    void fi_widen(double *values, const void *bits, int64_t count, fi_dtype dtype)
    const char *fi_build_compiler()
    const char *fi_build_flags()
    bint fi_self_test()
    const char *fi_level_name()
    int fi_level_count()
    const char *fi_level_at(int)
    bint fi_level_supported(int)
    fi_status fi_level_select(const char *)
    uint64_t fi_advance(uint64_t state, uint64_t draws)
    uint64_t fi_next_u64(void *)
    uint32_t fi_next_u32(void *)
    double fi_next_unit(void *)


OK = FI_OK
NOT_AN_INTERVAL = FI_NOT_AN_INTERVAL
EMPTY_INTERVAL = FI_EMPTY_INTERVAL
BEYOND_RANGE = FI_BEYOND_RANGE
NOT_A_SPREAD = FI_NOT_A_SPREAD
UNKNOWN_LEVEL = FI_UNKNOWN_LEVEL
UNSUPPORTED_LEVEL = FI_UNSUPPORTED_LEVEL

# {name: number} of C's own lists.
BASES = {fi_base_name(<fi_base> i).decode(): i for i in range(FI_BASES)}
DTYPES = {fi_dtype_name(<fi_dtype> i).decode(): i for i in range(FI_DTYPES)}


STORES_AUTO = FI_STORES_AUTO
STORES_ORDINARY = FI_STORES_ORDINARY
STORES_STREAMING = FI_STORES_STREAMING

FAN = FI_FAN
FAN_SUM = FI_FAN_SUM
FAN_PRODUCT = FI_FAN_PRODUCT


cdef int make_spec(fi_spec *spec, int base, int dtype, tuple parameters) except -1:
    cdef double values[16]
    cdef int i, given = <int> len(parameters)
    if not (0 <= base < FI_BASES and 0 <= dtype < FI_DTYPES):
        raise ValueError(f"base {base} or dtype {dtype} is not in C's lists")
    for i in range(FI_PARAMETERS):
        values[i] = parameters[i] if i < given else 0.0
    return fi_spec_init(spec, <fi_base> base, <fi_dtype> dtype, values)


cdef int make_region(fi_region *region, Py_buffer *view, bint swapped, uint64_t first, tuple draws) except -1:
    cdef int i
    if view.ndim > FI_MAX_DIMS:
        raise ValueError(f"out has {view.ndim} dimensions; at most {FI_MAX_DIMS} are supported")
    region.data = <char *> view.buf
    region.swapped = swapped
    region.ndim = view.ndim
    region.first = first
    for i in range(view.ndim):
        region.length[i] = view.shape[i]
        region.stride[i] = view.strides[i]
        region.draws[i] = <uint64_t> draws[i]
    fi_region_normalize(region)
    return 0


@cython.final
cdef class Spec:
    """What to draw into which dtype; `status` is OK, or why it cannot be drawn."""

    cdef fi_spec spec
    cdef readonly int status

    def __init__(self, int base, int dtype, tuple parameters):
        self.status = make_spec(&self.spec, base, dtype, parameters)


@cython.final
cdef class Job:
    """One fill, ready to run in any number of ranges at once.

    Element (i0, i1, ...) of the writable strided buffer `out` takes draw ``first + sum(i * draws)`` of the
    stream at `state`. `size` counts the elements.
    """

    cdef fi_spec spec
    cdef fi_region region
    cdef Py_buffer view
    cdef bint held
    cdef uint64_t state
    cdef readonly int64_t size

    def __init__(
        self, Spec spec not None, object out, bint swapped, uint64_t state, uint64_t first, tuple draws, int stores
    ):
        if self.held:
            raise RuntimeError("a Job is made once")
        PyObject_GetBuffer(out, &self.view, PyBUF_STRIDED | PyBUF_WRITABLE)
        self.held = True
        make_region(&self.region, &self.view, swapped, first, draws)
        self.spec = spec.spec
        self.state = state
        self.size = 0
        if self.view.len:
            fi_region_prepare(&self.region, self.spec.dtype, <fi_stores> stores)
            self.size = fi_region_size(&self.region)

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    def run(self, int64_t begin, int64_t end):
        """Fill elements [begin, end), counted in the order memory is walked, without the GIL."""
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"range [{begin}, {end}) leaves the {self.size} elements of the job")
        if begin < end:
            with nogil:
                fi_fill(&self.region, &self.spec, self.state, begin, end)
        PyErr_CheckSignals()


def draw(int base, int dtype, tuple parameters, object out, uint64_t state, uint64_t first, tuple draws):
    """Fill a small native buffer at once, as a Job would; return the status, and write nothing unless it is OK."""
    cdef fi_spec spec
    cdef fi_region region
    cdef Py_buffer view
    cdef int status = make_spec(&spec, base, dtype, parameters)
    if status != FI_OK:
        return status
    PyObject_GetBuffer(out, &view, PyBUF_STRIDED | PyBUF_WRITABLE)
    try:
        make_region(&region, &view, False, first, draws)
        region.stream = False
        if view.len:
            fi_fill(&region, &spec, state, 0, fi_region_size(&region))
    finally:
        PyBuffer_Release(&view)
    return status


def scale(double scale, double fan, int kind, double gain):
    """(variance, std, limit, parent_std) of a fan-scaled scheme; see fi_scale."""
    cdef fi_scale_result result
    fi_scale(&result, scale, fan, <fi_fan> kind, gain)
    return result.variance, result.std, result.limit, result.parent_std


def rescale(double x, double factor, double p, double q):
    """x * factor / sqrt(p / q)."""
    fi_rescale(&x, factor, p, q)
    return x


def rectifier_scale(double slope, double moment):
    """2 / (1 + moment * slope * slope); see fi_rectifier_scale."""
    cdef double scale
    fi_rectifier_scale(&scale, slope, moment)
    return scale


def share(double fraction, double count):
    """ceil(fraction * count); see fi_share."""
    return fi_share(fraction, count)


def keys(object out, uint64_t state):
    """Fill the contiguous uint64 buffer `out` with mix64(draw i) of the stream at `state`."""
    cdef Py_buffer view
    PyObject_GetBuffer(out, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        with nogil:
            fi_keys(<uint64_t *> view.buf, view.len // 8, state)
    finally:
        PyBuffer_Release(&view)


def multilinear(object words, object weights):
    """Sum words * weights, and (words >> 32) * weights, modulo 2**64; both are contiguous uint64 buffers."""
    cdef Py_buffer held, factors
    cdef uint64_t sums[2]
    PyObject_GetBuffer(words, &held, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(weights, &factors, PyBUF_SIMPLE)
        try:
            if factors.len < held.len:
                raise ValueError("there are fewer weights than words")
            with nogil:
                fi_multilinear(sums, held.buf, <const uint64_t *> factors.buf, held.len // 8)
        finally:
            PyBuffer_Release(&factors)
    finally:
        PyBuffer_Release(&held)
    return sums[0], sums[1]


def narrow(object values, object out, int dtype, int itemsize):
    """Round the contiguous float64 buffer `values` into the contiguous bits `out` of `itemsize` bytes each."""
    cdef Py_buffer source, target
    PyObject_GetBuffer(values, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if target.len * 8 != source.len * itemsize:
                raise ValueError("values and out differ in size")
            with nogil:
                fi_narrow(<const double *> source.buf, source.len // 8, <fi_dtype> dtype, target.buf)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)


def widen(object bits, object out, int dtype, int itemsize):
    """Decode the contiguous little-endian `bits`, of `itemsize` bytes each, into the contiguous float64 `out`."""
    cdef Py_buffer source, target
    PyObject_GetBuffer(bits, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &target, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            if target.len * itemsize != source.len * 8:
                raise ValueError("bits and out differ in size")
            with nogil:
                fi_widen(<double *> target.buf, source.buf, target.len // 8, <fi_dtype> dtype)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&source)


@cython.final
cdef class Summary:
    """Counts, extremes and central moments of stored weights, gathered run by run; see fi_summary."""

    cdef fi_summary summary

    def __init__(self, double anchor):
        self.summary.anchor = anchor

    def add(self, object bits, int dtype, int itemsize):
        """Add the contiguous little-endian `bits`, of `itemsize` bytes each, without the GIL."""
        cdef Py_buffer source
        PyObject_GetBuffer(bits, &source, PyBUF_SIMPLE)
        try:
            with nogil:
                fi_summarize(&self.summary, source.buf, source.len // itemsize, <fi_dtype> dtype)
        finally:
            PyBuffer_Release(&source)

    def merge(self, Summary other not None):
        """Add what `other`, of the same anchor, has seen after this one."""
        if other.summary.anchor != self.summary.anchor:
            raise ValueError("the summaries differ in their anchors")
        fi_summary_merge(&self.summary, &other.summary)

    def facts(self):
        """{field: value} of the fi_summary."""
        return self.summary


def simd_level():
    """The name of the kernels in use."""
    return fi_level_name().decode()


def levels():
    """{name: supported here} of every level built in, best first."""
    return {fi_level_at(i).decode(): bool(fi_level_supported(i)) for i in range(fi_level_count())}


def build():
    """(compiler, flags) this module was built with."""
    return fi_build_compiler().decode(), fi_build_flags().decode()


def self_test():
    """Whether the kernels in use give the bits they must, on a few runs."""
    return bool(fi_self_test())


def select_level(name):
    """Use the kernels called `name` (None: the best supported); return the status."""
    cdef bytes encoded
    if name is None:
        return fi_level_select(NULL)
    encoded = name.encode()
    return fi_level_select(encoded)


# numpy's documented bit generator interface (numpy/random/bitgen.h).
ctypedef struct bitgen_t:
    void *state
    uint64_t (*next_uint64)(void *) noexcept nogil
    uint32_t (*next_uint32)(void *) noexcept nogil
    double (*next_double)(void *) noexcept nogil
    uint64_t (*next_raw)(void *) noexcept nogil


cdef uint64_t next_u64(void *state) noexcept nogil:
    return fi_next_u64(state)


cdef uint32_t next_u32(void *state) noexcept nogil:
    return fi_next_u32(state)


cdef double next_unit(void *state) noexcept nogil:
    return fi_next_unit(state)


@cython.final
cdef class Cursor:
    """A raw state at a fixed address, which numpy's bit generator struct can point to."""

    cdef uint64_t state_
    cdef readonly bint drawing  # whether `transact` is inside its call

    def __init__(self, uint64_t state):
        self.state_ = state

    @property
    def state(self):
        return self.state_

    @state.setter
    def state(self, uint64_t state):
        self.state_ = state

    def next_u64(self):
        return fi_next_u64(&self.state_)

    def next_unit_f64(self):
        return fi_next_unit(&self.state_)

    def advance(self, uint64_t draws):
        self.state_ = fi_advance(self.state_, draws)

    def transact(self, object draws, object draw, tuple arguments):
        """Return ``draw(state, *arguments)`` and move `draws` on, if it returns; the caller holds a lock.

        `draws` may be any integer before that: `draw` refuses what is too many, in the order of its checks.
        """
        self.drawing = True
        try:
            result = draw(self.state_, *arguments)
            self.state_ = fi_advance(self.state_, <uint64_t> draws)
        finally:
            self.drawing = False
        return result

    def install(self, object capsule):
        """Point the bitgen_t inside numpy's capsule at this cursor, which must outlive it."""
        cdef bitgen_t *bitgen = <bitgen_t *> PyCapsule_GetPointer(capsule, "BitGenerator")
        bitgen.state = &self.state_
        bitgen.next_uint64 = next_u64
        bitgen.next_uint32 = next_u32
        bitgen.next_double = next_unit
        bitgen.next_raw = next_u64


def advance(uint64_t state, uint64_t draws):
    """The state `draws` draws on (modulo 2^64)."""
    return fi_advance(state, draws)
