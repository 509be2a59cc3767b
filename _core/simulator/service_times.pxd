"""Service times of subtasks: distributions, and the random streams that draw from them."""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    MAX_SUMMANDS = 4

cdef enum ServiceKind:
    SERVICE_EXPONENTIAL_SUM = 0
    SERVICE_LOGNORMAL = 1
    SERVICE_QUANTILES = 2
    SERVICE_GIVEN = 3             # no draw: values[number of the subtask]

cdef struct Stream:               # xoshiro256++
    uint64_t[4] state

cdef struct Distribution:         # owned by a ServiceTimes, with its arrays
    int kind                      # a ServiceKind
    int summands                  # exponential sum: number of exponentials, up to MAX_SUMMANDS
    double[MAX_SUMMANDS] mean_s   # exponential sum: the mean of each
    double mu                     # lognormal: mean of the logarithm
    double sigma                  # lognormal: standard deviation of the logarithm
    double plus_s                 # lognormal: constant added to every draw
    double *values                # [size] s, >= 0: ascending quantiles, or given times by subtask
    int64_t size
    double tail_s                 # quantiles: mean of the exponential beyond the last
    double known                  # 0..1: the share of the execution that is known in advance
    double unknown_s              # mean of the rest in s; lognormal: factor of the rest
    double *expected              # [size] given times: expected time of each; NULL if not given

# Seeds the stream of a node. Different seeds or nodes give independent streams.
cdef void stream_seed(Stream *stream, uint64_t seed, uint64_t node) noexcept nogil

# Draws one service time in s, >= 0; infinite only if the parameters exceed a double's range. Not
# for SERVICE_GIVEN.
cdef double service_draw(const Distribution *d, Stream *stream) noexcept nogil

# Writes `count` draws to `times_s` [count], the same as `count` calls of service_draw.
cdef void service_fill(
    const Distribution *d, Stream *stream, double *times_s, int64_t count
) noexcept nogil

# The same draw; also writes its expectation in s to `*expected_s`: the mean given what is known in
# advance.
cdef double service_draw_expected(
    const Distribution *d, Stream *stream, double *expected_s
) noexcept nogil

# Writes to both arrays [count], the same as `count` calls of service_draw_expected.
cdef void service_fill_expected(
    const Distribution *d, Stream *stream, double *times_s, double *expected_s, int64_t count
) noexcept nogil


cdef class ServiceTimes:
    cdef Distribution d
