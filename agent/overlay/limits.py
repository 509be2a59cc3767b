"""Capacity limits and time-outs of a broker."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Notifications in custody, and settled origins that are remembered; the seconds after which an
    unsettled notification is resent, over a link and by a detour, and how many are resent at a
    time; the seconds that a neighbour may stay silent after a resend before its link counts as
    down; the seconds that a report of settlement waits to be batched; and the seconds after its
    start for which a broker takes a broker not heard of yet for one that may want everything."""

    # Of 2 KiB each; a larger one counts as several. Beyond it some are given up; the broker that
    # sent them will resend.
    most_held: int = 10_000
    # Some 120 bytes each; beyond it a repeat of the oldest would count as new.
    most_remembered: int = 65_536
    resend_s: float = 30.0
    detour_s: float = 1.0
    most_retried: int = 64
    stuck_s: float = 30.0
    batch_s: float = 0.0
    unknown_s: float = 3_600.0
