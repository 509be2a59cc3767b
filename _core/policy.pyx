"""The four queueing policies: one stable queue (`_core.edf`) under four keys.

| policy | key | order |
|---|---|---|
| FIFO | time of enqueueing | arrival |
| SPR | the SLO | strict priority to the tighter SLO, arrival within a class |
| TEDFQ | time of enqueueing + the SLO | deadline without regard to fanout (TailGuard) |
| EDFQ | t_D | deadline from fanout and unloaded response times (DSSP Eq. 6) |
"""

from libc.math cimport isnan

FIFO = POLICY_FIFO
SPR = POLICY_SPR
TEDFQ = POLICY_TEDFQ
EDFQ = POLICY_EDFQ
POLICIES = {"fifo": FIFO, "spr": SPR, "tedfq": TEDFQ, "edfq": EDFQ}


def policy_key(int policy, double enqueued_s, double slo_s, double deadline_s):
    """The queue key (seconds, least first) of an entry under `policy`.

    `enqueued_s` and `deadline_s` (t_D) are on one monotonic clock, `slo_s` is a duration.
    ValueError for an unknown policy or if the time that the policy reads is NaN. O(1).
    """
    cdef double key
    if not 0 <= policy <= POLICY_EDFQ:
        raise ValueError(f"unknown policy {policy}")
    key = policy_key_c(policy, enqueued_s, slo_s, deadline_s)
    if isnan(key):
        raise ValueError("time is NaN")
    return key
