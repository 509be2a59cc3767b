"""The key that each queueing policy orders an `EdfQueue` by. All times in seconds, one clock."""

from libc.math cimport NAN

cdef enum Policy:
    POLICY_FIFO = 0
    POLICY_SPR = 1
    POLICY_TEDFQ = 2
    POLICY_EDFQ = 3

# The key of an entry, least first; NaN for an unknown policy or a NaN among the times it reads.
cdef inline double policy_key_c(
    int policy, double enqueued_s, double slo_s, double deadline_s
) noexcept nogil:
    if policy == POLICY_EDFQ:
        return deadline_s
    if policy == POLICY_TEDFQ:
        return enqueued_s + slo_s
    if policy == POLICY_SPR:
        return slo_s
    if policy == POLICY_FIFO:
        return enqueued_s
    return NAN
