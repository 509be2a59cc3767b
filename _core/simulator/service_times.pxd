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

cdef struct Distribution:
    int kind                      # a ServiceKind
    int summands                  # exponential sum
    double[MAX_SUMMANDS] mean_s   # exponential sum
    double mu                     # lognormal: mean and standard deviation of the logarithm
    double sigma
    double plus_s
    double *values                # quantiles ascending, or given times by subtask; all >= 0
    int64_t size                  # of values
    double tail_s                 # quantiles: mean of the exponential beyond the last
    double known                  # 0..1: the share of the execution that is known in advance
    double unknown_s              # mean of the rest; lognormal: factor by which the rest counts
    double *expected              # given times: what each was expected to be; NULL if not told

# The stream of a node: other seeds and other nodes give independent ones.
cdef void stream_seed(Stream *stream, uint64_t seed, uint64_t node) noexcept nogil

# One service time in s, >= 0; infinity only where parameters ask for more than a double holds. Not
# for SERVICE_GIVEN.
cdef double service_draw(const Distribution *d, Stream *stream) noexcept nogil

# The same as `count` calls of service_draw.
cdef void service_fill(
    const Distribution *d, Stream *stream, double *times_s, int64_t count
) noexcept nogil

# The same draw, with what was expected of it: the mean, given what is known in advance.
cdef double service_draw_expected(
    const Distribution *d, Stream *stream, double *expected_s
) noexcept nogil

# The same as `count` calls of service_draw_expected.
cdef void service_fill_expected(
    const Distribution *d, Stream *stream, double *times_s, double *expected_s, int64_t count
) noexcept nogil


cdef class ServiceTimes:
    cdef Distribution d
