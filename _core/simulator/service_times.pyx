"""Service times of subtasks: distributions, and the random streams that draw from them.

Each node has its own stream, derived from the seed and the node's number, and a subtask's time is
drawn when it is enqueued. Every policy therefore sees the same times (common random numbers), and
nodes may be simulated one after another or all at once. The share of a time that is known in
advance does not change the times: it is drawn from a separate stream.
"""

from libc.math cimport exp, isfinite, log, pow, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef extern from "check.h":
    void CHECK(bint condition) noexcept nogil

cdef enum:
    LAYERS = 256
    BESIDE = 0x6B6E6F776E         # the number of the streams that say what is known

# Where the last layer of the exponential's ziggurat begins, and the area of each (Marsaglia and
# Tsang, "The Ziggurat Method for Generating Random Variables", 2000).
cdef double ZIGGURAT_END = 7.69711747013104972
cdef double ZIGGURAT_AREA = 3.949659822581572e-3
cdef double TWO_53 = 9007199254740992.0

cdef uint64_t[LAYERS] _inside     # a draw below this is under the curve for certain
cdef double[LAYERS] _width        # of a layer, over 2^53
cdef double[LAYERS] _height       # the density at its right end


cdef void _fill_tables() noexcept:
    cdef double right = ZIGGURAT_END
    cdef double x
    cdef int i
    x = ZIGGURAT_AREA / exp(-right)
    _inside[0] = <uint64_t>(right / x * TWO_53)
    _inside[1] = 0
    _width[0] = x / TWO_53
    _width[LAYERS - 1] = right / TWO_53
    _height[0] = 1.0
    _height[LAYERS - 1] = exp(-right)
    for i in range(LAYERS - 2, 0, -1):
        x = -log(ZIGGURAT_AREA / right + exp(-right))
        _inside[i + 1] = <uint64_t>(x / right * TWO_53)
        right = x
        _width[i] = x / TWO_53
        _height[i] = exp(-x)


_fill_tables()


# Streams.

cdef inline uint64_t _mixed(uint64_t *state) noexcept nogil:
    """splitmix64, which spreads seeds that differ in one bit."""
    cdef uint64_t z
    state[0] += 0x9E3779B97F4A7C15u
    z = state[0]
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu
    return z ^ (z >> 31)


cdef void stream_seed(Stream *stream, uint64_t seed, uint64_t node) noexcept nogil:
    cdef uint64_t state = seed
    cdef int i
    state = _mixed(&state) ^ node
    for i in range(4):
        stream.state[i] = _mixed(&state)


cdef inline uint64_t _next(Stream *stream) noexcept nogil:
    cdef uint64_t *s = stream.state
    cdef uint64_t sum = s[0] + s[3]
    cdef uint64_t value = ((sum << 23) | (sum >> 41)) + s[0]
    cdef uint64_t shifted = s[1] << 17
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= shifted
    s[3] = (s[3] << 45) | (s[3] >> 19)
    return value


cdef inline double _uniform(Stream *stream) noexcept nogil:
    """In [0, 1)."""
    return <double>(_next(stream) >> 11) * (1.0 / TWO_53)


cdef inline double _exponential(Stream *stream) noexcept nogil:
    """Of mean 1."""
    cdef uint64_t bits
    cdef uint64_t place
    cdef int layer
    cdef double x
    while True:
        bits = _next(stream)
        layer = <int>(bits & (LAYERS - 1))
        place = bits >> 11
        x = <double>place * _width[layer]
        if place < _inside[layer]:
            return x
        if layer == 0:  # beyond the end it is an exponential again
            return ZIGGURAT_END - log(1.0 - _uniform(stream))
        if (
            _height[layer] + _uniform(stream) * (_height[layer - 1] - _height[layer])
            < exp(-x)
        ):
            return x


cdef inline double _normal(Stream *stream) noexcept nogil:
    """Of mean 0 and variance 1 (the polar method)."""
    cdef double x
    cdef double y
    cdef double square
    while True:
        x = 2.0 * _uniform(stream) - 1.0
        y = 2.0 * _uniform(stream) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * sqrt(-2.0 * log(square) / square)


# Distributions.

cdef inline double _exponential_sum(const Distribution *d, Stream *stream) noexcept nogil:
    cdef double total = 0.0
    cdef int i
    for i in range(d.summands):
        total += d.mean_s[i] * _exponential(stream)
    return total


cdef inline double _lognormal(const Distribution *d, Stream *stream) noexcept nogil:
    return d.plus_s + exp(d.mu + d.sigma * _normal(stream))


cdef inline double _quantile(const Distribution *d, Stream *stream) noexcept nogil:
    """The n values cut the range into n + 1 parts, all as likely."""
    cdef double place = _uniform(stream) * <double>(d.size + 1)
    cdef int64_t i = <int64_t>place
    cdef double share = place - <double>i
    if i == 0:
        return d.values[0] * (0.5 + 0.5 * share)
    if i >= d.size:
        return d.values[d.size - 1] + d.tail_s * _exponential(stream)
    CHECK(i < d.size)
    return d.values[i - 1] + share * (d.values[i] - d.values[i - 1])


cdef double service_draw(const Distribution *d, Stream *stream) noexcept nogil:
    CHECK(d.kind != SERVICE_GIVEN)
    if d.kind == SERVICE_EXPONENTIAL_SUM:
        return _exponential_sum(d, stream)
    if d.kind == SERVICE_LOGNORMAL:
        return _lognormal(d, stream)
    return _quantile(d, stream)


cdef void service_fill(
    const Distribution *d, Stream *stream, double *times_s, int64_t count
) noexcept nogil:
    cdef int64_t i
    if d.kind == SERVICE_EXPONENTIAL_SUM:
        for i in range(count):
            times_s[i] = _exponential_sum(d, stream)
    elif d.kind == SERVICE_LOGNORMAL:
        for i in range(count):
            times_s[i] = _lognormal(d, stream)
    else:
        CHECK(d.kind == SERVICE_QUANTILES)
        for i in range(count):
            times_s[i] = _quantile(d, stream)


# What is known in advance.

cdef inline double _beta(double a, Stream *stream) noexcept nogil:
    """Beta(a, 1 - a) for 0 < a < 1 (Jöhnk 1964; of two tries at least one succeeds, mostly)."""
    cdef double x
    cdef double y
    while True:
        x = pow(_uniform(stream), 1.0 / a)
        y = pow(_uniform(stream), 1.0 / (1.0 - a))
        if 0.0 < x + y <= 1.0:
            return x / (x + y)


cdef inline double _exponential_sum_expected(
    const Distribution *d, Stream *stream, double *expected_s
) noexcept nogil:
    """An exponential is the sum of Gamma(h) and Gamma(1 - h), and their ratio tells nothing of it:
    so it is drawn as ever and then cut in two."""
    cdef double total = 0.0
    cdef double last_s = 0.0
    cdef Stream beside
    cdef int i
    for i in range(d.summands):
        last_s = d.mean_s[i] * _exponential(stream)
        total += last_s
    if d.known == 0.0:
        last_s = 0.0
    elif d.known < 1.0:
        stream_seed(&beside, stream.state[0], BESIDE)
        last_s *= _beta(d.known, &beside)
    expected_s[0] = d.unknown_s + last_s
    return total


cdef inline double _lognormal_expected(
    const Distribution *d, Stream *stream, double *expected_s
) noexcept nogil:
    """Of a normal z the part of variance h has mean h·z and variance h·(1 - h), given z."""
    cdef double z = _normal(stream)
    cdef double part = d.known * z
    cdef Stream beside
    if 0.0 < d.known < 1.0:
        stream_seed(&beside, stream.state[0], BESIDE)
        part += sqrt(d.known * (1.0 - d.known)) * _normal(&beside)
    expected_s[0] = d.plus_s + exp(d.mu + d.sigma * part) * d.unknown_s
    return d.plus_s + exp(d.mu + d.sigma * z)


cdef double service_draw_expected(
    const Distribution *d, Stream *stream, double *expected_s
) noexcept nogil:
    CHECK(d.kind != SERVICE_GIVEN)
    if d.kind == SERVICE_EXPONENTIAL_SUM:
        return _exponential_sum_expected(d, stream, expected_s)
    if d.kind == SERVICE_LOGNORMAL:
        return _lognormal_expected(d, stream, expected_s)
    expected_s[0] = d.unknown_s
    return _quantile(d, stream)


cdef void service_fill_expected(
    const Distribution *d, Stream *stream, double *times_s, double *expected_s, int64_t count
) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        times_s[i] = service_draw_expected(d, stream, &expected_s[i])


cdef int _check_duration(str name, double value) except -1:
    if not isfinite(value) or value < 0.0:
        raise ValueError(f"{name} = {value!r} s is negative or not finite")
    return 0


cdef int _check_known(double known) except -1:
    if not 0.0 <= known <= 1.0:
        raise ValueError(f"known = {known!r} is not a share, 0..1")
    return 0


cdef double *_copied(const double[::1] values) except NULL:
    """The times in memory of their own, checked."""
    cdef int64_t i
    cdef double *copy
    if values.shape[0] == 0:
        raise ValueError("no service times are given")
    for i in range(values.shape[0]):
        if not isfinite(values[i]) or values[i] < 0.0:
            raise ValueError(f"service time {i} is {values[i]!r} s, negative or not finite")
    copy = <double *>malloc(values.shape[0] * sizeof(double))
    if copy == NULL:
        raise MemoryError
    memcpy(copy, &values[0], values.shape[0] * sizeof(double))
    return copy


cdef class ServiceTimes:
    """Distribution of the time a subtask occupies a pod, in seconds: communication and execution.

    Create it with one of the class methods below, one object per kind of node. ValueError for
    invalid parameters.

    `known` is the share of the execution (the last summand; all of a lognormal) that is known in
    advance, 0..1: what a subtask is expected to take is the mean, given that. It changes no time.
    """

    def __init__(self):
        raise TypeError("ServiceTimes are made by their class methods")

    def __dealloc__(self):
        free(self.d.values)
        free(self.d.expected)

    @classmethod
    def exponential_sum(cls, means, *, double known=0.0):
        """The sum of one to four independent exponentials with these means (seconds).

        The last, of mean m, is the sum of a known and an unknown part, independent, which are
        Gamma distributed: shapes `known` and 1 - `known`, both of scale m.
        """
        cdef ServiceTimes times = ServiceTimes.__new__(ServiceTimes)
        cdef double mean_s
        means = tuple(means)
        if not 1 <= len(means) <= MAX_SUMMANDS:
            raise ValueError(f"a sum of {len(means)} exponentials; it takes 1..{MAX_SUMMANDS}")
        times.d.kind = SERVICE_EXPONENTIAL_SUM
        times.d.summands = len(means)
        for i, mean_s in enumerate(means):
            _check_duration("mean", mean_s)
            times.d.mean_s[<int>i] = mean_s
        _check_known(known)
        times.d.known = known
        # The last mean_s is the execution's.
        times.d.unknown_s = sum(means) - known * mean_s
        return times

    @classmethod
    def lognormal(cls, double mean_s, double sigma, double plus_s=0.0, *, double known=0.0):
        """Lognormal of mean `mean_s`, `sigma` that of its logarithm, and a constant `plus_s`.

        It is the product of a known and an unknown part, independent: `known` is the former's share
        of the logarithm's variance.
        """
        cdef ServiceTimes times = ServiceTimes.__new__(ServiceTimes)
        _check_duration("mean_s", mean_s)
        _check_duration("plus_s", plus_s)
        if not mean_s > 0.0:
            raise ValueError("mean_s is 0 s; a lognormal time is positive")
        if not isfinite(sigma) or sigma < 0.0:
            raise ValueError(f"sigma = {sigma!r} is negative or not finite")
        times.d.kind = SERVICE_LOGNORMAL
        times.d.mu = log(mean_s) - 0.5 * sigma * sigma
        times.d.sigma = sigma
        times.d.plus_s = plus_s
        _check_known(known)
        times.d.known = known
        times.d.unknown_s = exp(0.5 * (1.0 - known) * sigma * sigma)
        return times

    @classmethod
    def quantiles(cls, const double[::1] values not None, *, double exponential_tail_s):
        """Measured quantiles: one drawn uniformly, interpolated to its neighbour.

        `values` (float64, ascending) cut the range into equally likely parts. Below the first, q,
        uniform in [q/2, q]; beyond the last, that and an exponential of mean `exponential_tail_s`.
        Nothing of such a time is known in advance: the mean is expected.
        """
        cdef ServiceTimes times = ServiceTimes.__new__(ServiceTimes)
        cdef int64_t i
        _check_duration("exponential_tail_s", exponential_tail_s)
        times.d.kind = SERVICE_QUANTILES
        times.d.tail_s = exponential_tail_s
        times.d.size = values.shape[0]
        times.d.values = _copied(values)
        for i in range(1, times.d.size):
            if times.d.values[i] < times.d.values[i - 1]:
                raise ValueError(f"quantiles must ascend, but quantile {i} is less than the last")
        # 3/4 of the first, the middles between neighbours, the last and the tail: all as likely.
        times.d.unknown_s = (
            sum(values) + 0.25 * values[0] + 0.5 * values[times.d.size - 1] + exponential_tail_s
        ) / (times.d.size + 1)
        return times

    @classmethod
    def given(cls, const double[::1] values not None, const double[::1] expected=None):
        """One time for each subtask of a trace (float64, in the order of its subtasks): recorded
        ones, or those of a test. `expected`: what was expected of each, which a policy that demotes
        asks for."""
        cdef ServiceTimes times = ServiceTimes.__new__(ServiceTimes)
        times.d.kind = SERVICE_GIVEN
        times.d.size = values.shape[0]
        times.d.values = _copied(values)
        if expected is not None:
            if expected.shape[0] != times.d.size:
                raise ValueError(
                    f"{expected.shape[0]} expected times for {times.d.size} service times"
                )
            times.d.expected = _copied(expected)
        return times
