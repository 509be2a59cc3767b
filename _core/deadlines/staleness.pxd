"""Staleness: bounds how far a cached distribution lags behind its samples, in standard errors.

A window of n samples estimates F(t) with a standard error of sqrt(F (1 - F) / n). Each change moves
F by at most 1 / n; it is counted relative to the standard error where that is smallest. The sum
bounds by how many standard errors F has moved at any t (docs/understand/deadlines.md).

Plain C, and inline: every sample calls these functions twice.
"""

from libc.math cimport sqrt
from libc.stdint cimport int16_t

cdef enum:
    LEVELS = 5

cdef struct Lag:
    double arrived                # weights of samples added since; unit: standard errors * sqrt(n)
    double departed               # weights of samples removed since, same unit
    double limit                  # a refresh is due when either sum exceeds this, same unit
    int16_t[LEVELS] level         # level i: the first bucket with 1 - F <= 4^-(1 + i) at its end


cdef inline double lag_weight(const Lag *lag, int bucket) noexcept nogil:
    """1 / sqrt(F (1 - F)) where a sample of `bucket` changes F furthest from the median.

    It changes 1 - F below its bucket, so the level at the bucket's lower bound counts. Below the
    third quartile all weigh the same: deadlines ask for no such percentiles.
    """
    cdef double q = 0.25
    cdef int i
    for i in range(LEVELS):
        if bucket <= lag.level[i]:
            return 1.0 / sqrt(q * (1.0 - q))
        q *= 0.25
    return 1e30  # above any limit: a change this far in the tail is due at once


cdef inline bint lag_any(const Lag *lag) noexcept nogil:
    return lag.arrived > 0.0 or lag.departed > 0.0


cdef inline bint lag_due(const Lag *lag) noexcept nogil:
    """If one sample replaces another, F moves by only one of the two: the larger sum counts."""
    return max(lag.arrived, lag.departed) > lag.limit


cdef inline void lag_force(Lag *lag) noexcept nogil:
    """Make it due."""
    lag.departed = 1e30


cdef inline void lag_restart(
    Lag *lag, const double *survival, int begin, int end, double errors, double count
) noexcept nogil:
    """F was computed from `count` samples: 1 - F is `survival` in [begin, end), about 0 from there.

    It may lag by `errors` standard errors. O(LEVELS log(end - begin)).
    """
    cdef double q = 0.25
    cdef int low = begin
    cdef int high
    cdef int middle
    cdef int i
    for i in range(LEVELS):
        high = end
        while low < high:
            middle = (low + high) // 2
            if survival[middle] <= q:
                high = middle
            else:
                low = middle + 1
        lag.level[i] = <int16_t>low
        q *= 0.25
    lag.arrived = 0.0
    lag.departed = 0.0
    lag.limit = errors * sqrt(count)
