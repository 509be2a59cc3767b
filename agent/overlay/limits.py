"""How much a broker keeps, and how long it waits."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """Notifications in custody, and origins remembered when they are done; after how many seconds
    one that is not settled is sent again, over a link and by a detour, and how many at a time; how
    long a neighbour that was asked again may say nothing before its link counts as down; how long
    word that one is settled waits for more of the kind; and how long after its start a broker
    takes one that it never heard of for one that may want everything."""

    # Beyond it some are given up, and come again from whoever has them before.
    most_held: int = 10_000
    # Some 300 bytes each; beyond it a repeat of the oldest would count as new.
    most_remembered: int = 65_536
    resend_s: float = 30.0
    detour_s: float = 1.0
    most_retried: int = 64
    stuck_s: float = 30.0
    batch_s: float = 0.0
    unknown_s: float = 3_600.0
