"""Queueing policies: the key by which each orders an `EdfQueue`. Times in seconds, one clock."""

from libc.math cimport NAN

cdef enum Policy:
    POLICY_FIFO = 0
    POLICY_SPR = 1
    POLICY_TEDFQ = 2
    POLICY_EDFQ = 3
    POLICY_SANDERLING = 4

# Added to the key of a demoted entry: it is served after all others, in order among the demoted.
cdef double DEMOTED_S

# The key of an entry, all times in s; the least is served first. NaN for an unknown policy, or if a
# time that the policy reads is NaN.
cdef inline double policy_key_c(
    int policy, double enqueued_s, double slo_s, double deadline_s, double advance_s
) noexcept nogil:
    if policy == POLICY_EDFQ:
        return deadline_s
    if policy == POLICY_TEDFQ:
        return enqueued_s + slo_s
    if policy == POLICY_SPR:
        return slo_s
    if policy == POLICY_FIFO:
        return enqueued_s
    if policy == POLICY_SANDERLING:
        return enqueued_s + slo_s - advance_s
    return NAN


cdef inline bint policy_demotes(int policy) noexcept nogil:
    """Whether the policy demotes hopeless entries."""
    return policy == POLICY_SANDERLING


cdef inline bint hopeless_c(double now_s, double expected_s, double latest_s) noexcept nogil:
    """Whether a subtask that takes `expected_s` and starts now would end after `latest_s`."""
    return now_s + expected_s > latest_s
