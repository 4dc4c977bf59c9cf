# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True, auto_pickle=False, autotestdict=False
"""Buffers in, one nogil call, status out. No arithmetic on weights and no CPU knowledge lives here: see csrc/."""

cimport cython
from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_STRIDED, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
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
        bint far
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
    int64_t fi_last_level_cache()
    int64_t fi_stream_bytes(int64_t last_level_cache)
    uint64_t fi_sum_draws(uint64_t state, size_t count)
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

cdef int CONSTANT = BASES["constant"]
cdef int FLOAT64 = DTYPES["float64"], FLOAT32 = DTYPES["float32"], FLOAT16 = DTYPES["float16"]


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

    @property
    def streams(self):
        """Whether the weights are written around the caches."""
        return bool(self.held and self.region.stream)


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


cdef enum:
    QUICK_BYTES = 1 << 14  # a fill without threads, streams or signals: a few microseconds
    QUICK_AXES = 8

# What the quick way knows by sight; `recognize` says it, where the classes are.
cdef object ndarray, generator
cdef dict fresh = {}  # the name of a dtype, or None -> a call that makes a new array of a shape


def recognize(*, array=None, empties=None, generator_class=None):
    """Tell the quick way numpy's array and what makes new ones, and the class of generators."""
    global ndarray, generator
    ndarray = ndarray if array is None else array
    generator = generator if generator_class is None else generator_class
    fresh.update(empties or {})


@cython.final
cdef class Recipe:
    """What an initializer draws into a tensor of any shape, as numbers.

    A kernel's base and parameters. With a `mode` ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"), the spread among
    them is that of `scale` and the fan, as `fi_scale` gives it for a `family` ("uniform": the limit; "normal": the
    standard deviation; "truncated_normal": that of the parent).
    """

    cdef int base, mode, place, result
    cdef double scale
    cdef double parameters[16]

    def __init__(self, int base, tuple parameters, mode=None, double scale=1.0, family=None):
        cdef int i
        self.base, self.scale = base, scale
        self.mode = -1 if mode is None else ("fan_in", "fan_out", "fan_avg", "fan_geo_avg").index(mode)
        self.result = 0 if mode is None else ("uniform", "normal", "truncated_normal").index(family)
        self.place = min(self.result, 1)  # the first parameter of a uniform, the second of a normal
        for i in range(FI_PARAMETERS):
            self.parameters[i] = parameters[i] if i < <int> len(parameters) else 0.0


cdef bint spec_of(fi_spec *spec, Recipe recipe, int dtype, int ndim, const Py_ssize_t *shape) noexcept:
    cdef fi_scale_result result
    cdef double values[16]
    cdef double fan, fan_in, fan_out
    cdef fi_fan kind = FI_FAN
    cdef int i
    for i in range(FI_PARAMETERS):
        values[i] = recipe.parameters[i]
    if recipe.mode >= 0:
        if ndim != 2:  # the axes have letters, or are refused
            return False
        fan_in, fan_out = <double> shape[0], <double> shape[1]
        fan = fan_in if recipe.mode == 0 else fan_out
        if recipe.mode == 2:
            fan, kind = fan_in + fan_out, FI_FAN_SUM
        if recipe.mode == 3:
            fan, kind = fan_in * fan_out, FI_FAN_PRODUCT
        fi_scale(&result, recipe.scale, fan, kind, 1.0)
        values[recipe.place] = (
            result.limit if recipe.result == 0 else result.std if recipe.result == 1 else result.parent_std
        )
        if not values[recipe.place] <= 1.7976931348623157e308:
            return False
    return fi_spec_init(spec, <fi_base> recipe.base, <fi_dtype> dtype, values) == FI_OK


cdef int native_dtype(const char *format) noexcept:
    """C's number of a buffer's dtype, which is in native order; -1 for others."""
    if format == NULL or format[0] == 0 or format[1] != 0:
        return -1
    return FLOAT64 if format[0] == c"d" else FLOAT32 if format[0] == c"f" else FLOAT16 if format[0] == c"e" else -1


@cython.final
cdef class Quick:
    """The quick way of one function: a few weights into memory in C's order, in one call.

    `make` gives the initializer of the arguments in `own`, and `leading` counts those before them. It knows the
    arguments that are common, and no errors: `fill_quickly` leaves everything else to the long way.
    """

    cdef object make
    cdef tuple own
    cdef int leading
    cdef dict recipes
    cdef Recipe plain  # without arguments of its own

    def __init__(self, make, tuple own, int leading):
        self.make, self.own, self.leading = make, own, leading
        self.recipes = {}

    cdef Recipe recipe(self, tuple given, dict options):
        """The initializer's numbers by its own arguments, where these are plain; None otherwise."""
        cdef tuple key = (len(given), *given[self.leading:])
        if options:
            for name in self.own:
                if name in options:
                    key += (name, options[name])
        for value in key:
            if type(value) is not float and type(value) is not str and type(value) is not int:
                return None  # True would be found under 1
            if value == 0 and type(value) is float and repr(value) == "-0.0":
                return None  # and -0.0 under 0.0
            if type(value) is str and len(value) > 64:
                return None  # a JSON text: not to be kept
        found = self.recipes.get(key, self)
        if found is not self:
            return found
        try:
            found = self.make(*given[self.leading:], **{name: options[name] for name in self.own if name in options})
            found = found.recipe()
        except Exception:  # the long way says what is wrong, in the order of its checks
            return None
        if len(self.recipes) < 256:
            found = self.recipes.setdefault(key, found)
            if len(key) == 1:  # set once: another thread may be reading it
                self.plain = found
        return found


cdef int64_t few_elements(tuple shape):
    """How many elements a shape of plain integers has; 0 where it has others, none, or too many."""
    cdef int64_t count = 1
    for length in shape:
        if type(length) is not int or not 0 < length <= QUICK_BYTES:
            return 0
        count *= <int64_t> length
        if count > QUICK_BYTES:
            return 0
    return count


cdef bint is_few_in_order(const Py_buffer *view, tuple shape):
    """Whether a buffer is small, in C's order and, where one is asked for, of this shape."""
    cdef int i
    cdef Py_ssize_t step = view.itemsize
    if not 0 < view.ndim <= QUICK_AXES or not 0 < view.len <= QUICK_BYTES:
        return False
    if shape is not None and <int> len(shape) != view.ndim:
        return False
    for i in range(view.ndim - 1, -1, -1):
        if view.strides[i] != step or (shape is not None and shape[i] != view.shape[i]):
            return False
        step *= view.shape[i]
    return True


def fill_quickly(Quick quick not None, tuple given not None, dict options not None):
    """Return what a function of these arguments returns, or None, with nothing done: take the long way."""
    cdef Py_buffer view
    cdef fi_spec spec
    cdef fi_region region
    cdef Recipe recipe
    cdef Cursor cursor = None
    cdef uint64_t state = 0
    cdef int dtype, leading = quick.leading
    cdef int64_t size = 0
    cdef tuple shape = None
    cdef bint is_plain = len(given) == leading, has_turn = False
    out = named = None
    if <int> len(given) < leading:
        return None
    for name, value in options.items():
        if name == "out":
            out = value
        elif name == "dtype":
            named = value
        elif name == "threads":
            if value is not None and (type(value) is not int or not 1 <= value <= 1024):
                return None
        elif name in quick.own:
            is_plain = False
        else:
            return None
    if given[0] is not None:
        if type(given[0]) is not tuple:
            return None
        shape = given[0]
        size = few_elements(shape)
        if not size:
            return None
    if leading == 2:
        if type(given[1]) is int:
            if not 0 <= given[1] < 1 << 64:
                return None
            state = given[1]
        elif generator is not None and type(given[1]) is generator:
            cursor = given[1]._cursor
        else:
            return None
    recipe = quick.plain if is_plain else None
    if recipe is None:
        recipe = quick.recipe(given, options)
        if recipe is None:
            return None
    if out is None:
        if shape is None or not 0 < <int> len(shape) <= QUICK_AXES or not (named is None or type(named) is str):
            return None
        make = fresh.get(named)
        if make is None or size > QUICK_BYTES // 8:
            return None
        try:
            out = make(shape)
        except Exception:  # no memory
            return None
    elif type(out) is not ndarray or named is not None:
        return None
    try:
        PyObject_GetBuffer(out, &view, PyBUF_STRIDED | PyBUF_FORMAT | PyBUF_WRITABLE)
    except Exception:  # read-only, or numpy warns
        return None
    try:
        dtype = native_dtype(view.format)
        if dtype < 0 or not is_few_in_order(&view, shape):
            return None
        if not spec_of(&spec, recipe, dtype, view.ndim, view.shape) or spec.far:
            return None  # refused, or so slow that signals must be looked for
        size = view.len // view.itemsize
        if cursor is not None:
            has_turn = cursor.acquire()  # with an argument it takes twice as long
            if cursor.drawing:
                return None
            state = cursor.state_
        region.data = <char *> view.buf
        region.swapped = region.stream = False
        region.ndim = 1
        region.first = 0
        region.length[0], region.stride[0], region.draws[0] = size, view.itemsize, 1
        fi_fill(&region, &spec, state, 0, size)
        if cursor is not None and recipe.base != CONSTANT:
            cursor.state_ = fi_advance(state, <uint64_t> size)
    finally:
        if has_turn:
            cursor.release()
        PyBuffer_Release(&view)
    return out


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
    cdef object acquire, release  # the turn to take while drawing

    def __init__(self, uint64_t state, turn):
        self.state_ = state
        self.acquire, self.release = turn.acquire, turn.release

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


def last_level_cache():
    """Bytes of the CPU's last level of cache; 0 where the system does not say."""
    return fi_last_level_cache()


def stream_bytes(int64_t last_level_cache):
    """Bytes of a resident target from which on it is streamed, beside a last cache of so many bytes."""
    return fi_stream_bytes(last_level_cache)


def sum_draws(uint64_t state, size_t count):
    """The sum modulo 2^64 of the first `count` draws, without the GIL: a fill that converts and stores nothing."""
    cdef uint64_t total
    with nogil:
        total = fi_sum_draws(state, count)
    return total
