"""Metric families of a registration service; `families` has the conventions."""

from __future__ import annotations

from typing import Final

from agent.metrics.families import COMMON, Family

# Upper bounds in seconds.
LOOKUP_S: Final = (
    0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25,
    1.0,
)  # fmt: skip

REQUESTS = Family(
    "sanderling_directory_requests_total",
    "counter",
    ("request", "outcome"),
    "requests",
    "Requests by kind; the outcome is ok, or why it was denied.",
)
REQUEST_DURATION = Family(
    "sanderling_directory_request_duration_seconds",
    "histogram",
    ("request",),
    "seconds",
    "From a request, decoded, to its reply; look-ups (discover, look_up) are in memory, changes "
    "wait for the disk.",
    LOOKUP_S,
)
ACCOUNTS = Family(
    "sanderling_directory_accounts", "gauge", ("kind",), "parties", "Accounts: iad or csp."
)
REGISTRATIONS = Family(
    "sanderling_directory_registrations",
    "gauge",
    (),
    "IADs",
    "IADs whose registration is in force.",
)
LEASES_EXPIRED = Family(
    "sanderling_directory_leases_expired_total",
    "counter",
    (),
    "leases",
    "Registrations that ended because nobody renewed them.",
)
FAILED_WRITES = Family(
    "sanderling_directory_failed_writes_total",
    "counter",
    (),
    "writes",
    "Changes that the disk refused.",
)
COPY_AGE = Family(
    "sanderling_directory_copy_age_seconds",
    "gauge",
    (),
    "seconds",
    "Since when a mirror's copy may lack changes; 0 at the primary.",
)
PRIMARY_UP = Family(
    "sanderling_directory_primary_up",
    "gauge",
    (),
    "",
    "1 if the primary answered this mirror within its interval and 5 s; always 1 at the primary.",
)

DRS: Final = (
    REQUESTS, REQUEST_DURATION, ACCOUNTS, REGISTRATIONS, LEASES_EXPIRED, FAILED_WRITES, COPY_AGE,
    PRIMARY_UP, *COMMON,
)  # fmt: skip
