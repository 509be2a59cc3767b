"""Clients that ask all the time, and what they were told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from agent.client import Client, NoReplyError
from agent.wire.messages import Answer
from testkit.desk import Desk
from tests.hosts.testbed import IAD

EVERY_S: Final = 0.1
LATENCY_MS: Final = 1_000.0
WINDOW_S: Final = 60.0


class Asked(NamedTuple):
    """One query: through which master, when (monotonic seconds), and the answer; None: silence."""

    iad: str
    began_s: float
    ended_s: float
    answer: Answer | None


class Load:
    """One client of each of these masters, each of which asks all areas of the fleet ten times a
    second, or as often as it is answered; a context manager."""

    def __init__(self, desk: Desk, iads: Iterable[str]) -> None:
        self._areas = desk.areas(IAD)
        self._over = threading.Event()
        self._clients = [
            threading.Thread(target=self._ask, args=(iad, desk.client(iad))) for iad in iads
        ]
        self.asked: list[Asked] = []
        self.epoch_s = time.time() - time.monotonic()  # when monotonic seconds began

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for client in self._clients:
            client.join()

    def _ask(self, iad: str, client: Client) -> None:
        with client:
            while not self._over.wait(EVERY_S):
                began_s = time.monotonic()
                try:
                    answer = client.query(
                        self._areas, last_s=WINDOW_S, latency_ms=LATENCY_MS, form="aggregate"
                    )
                except NoReplyError:
                    answer = None
                self.asked.append(Asked(iad, began_s, time.monotonic(), answer))

    # --- afterwards -----------------------------------------------------------------------------

    def of(self, status: str) -> list[Answer]:
        """The answers of this status."""
        found = [each.answer for each in self.asked]
        return [answer for answer in found if answer is not None and answer.status == status]

    def silences(self) -> int:
        """Queries that were never answered."""
        return sum(each.answer is None for each in self.asked)

    def reasons(self) -> Counter[str]:
        """Why areas were missing, and how often."""
        return Counter(gap.reason for answer in self.of("partial") for gap in answer.missing)

    def last_with(self, area: str, gap: str, iad: str) -> float:
        """When the last query was asked whose answer misses `area` for the reason `gap`, or, if
        that is empty, has it; 0 if none was."""

        def has(answer: Answer) -> bool:
            if gap:
                return any(each.area == area and each.reason == gap for each in answer.missing)
            return any(each.area == area for each in answer.results)

        found = (
            each.began_s
            for each in list(self.asked)
            if each.iad == iad and each.answer is not None and has(each.answer)
        )
        return max(found, default=0.0)

    def longest_s(self) -> float:
        """How long the slowest query took."""
        return max(each.ended_s - each.began_s for each in self.asked)

    def counts(self) -> str:
        """All of this in a line."""
        kinds = ", ".join(
            f"{len(self.of(status))} {status}" for status in ("complete", "partial", "refused")
        )
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons().most_common())
        return (
            f"{len(self.asked)} queries: {kinds}, {self.silences()} without an answer"
            f"{f' (areas missing: {reasons})' if reasons else ''}; "
            f"the longest took {self.longest_s():.1f} s"
        )
