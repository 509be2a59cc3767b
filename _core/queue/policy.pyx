"""Queueing policies: one stable queue (`_core.queue.edf`) with five different keys.

| policy | key | order |
|---|---|---|
| FIFO | time of enqueueing | arrival |
| SPR | the SLO | strict priority to the tighter SLO, arrival within a class |
| TEDFQ | time of enqueueing + the SLO | deadline without regard to fanout (TailGuard) |
| EDFQ | t_D | deadline from fanout and unloaded response times (DSSP Eq. 6) |
| SANDERLING | as TEDFQ, less the advance of the query's class | docs/understand/policy.md |

SANDERLING also checks each entry before dispatching it: one that is unlikely to finish in time is
demoted, which means that it waits until nothing else does.
"""

from libc.math cimport isnan

FIFO = POLICY_FIFO
SPR = POLICY_SPR
TEDFQ = POLICY_TEDFQ
EDFQ = POLICY_EDFQ
SANDERLING = POLICY_SANDERLING
POLICIES = {
    "fifo": FIFO, "spr": SPR, "tedfq": TEDFQ, "edfq": EDFQ, "sanderling": SANDERLING
}
DEMOTING = frozenset(name for name, code in POLICIES.items() if policy_demotes(code))

# Longer than any clock has run, and small enough that a key keeps its microseconds.
DEMOTED_S = 2.0**31
DEMOTED = DEMOTED_S


def policy_key(
    int policy, double enqueued_s, double slo_s, double deadline_s, double advance_s=0.0
):
    """The queue key (seconds, least first) of an entry under `policy`.

    `enqueued_s` and `deadline_s` (t_D) are on one monotonic clock, `slo_s` and `advance_s` are
    durations. ValueError for an unknown policy or if a time that the policy reads is NaN. O(1).
    """
    cdef double key
    if not 0 <= policy <= POLICY_SANDERLING:
        raise ValueError(f"unknown policy {policy}")
    key = policy_key_c(policy, enqueued_s, slo_s, deadline_s, advance_s)
    if isnan(key):
        raise ValueError("time is NaN")
    return key


def hopeless(double now_s, double expected_s, double latest_s):
    """Whether a subtask that is expected to take `expected_s` and is begun now ends after
    `latest_s`, the end of its query's SLO. All in seconds on one clock. O(1)."""
    return hopeless_c(now_s, expected_s, latest_s)
