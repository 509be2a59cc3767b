"""Metrics of the registration service: requests are counted as they are answered, the rest is read
at a scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.directory.leader import Leader
from agent.directory.replica import PATIENCE_S, ReadReplica
from agent.metrics import directory_families as f
from agent.metrics.families import KEY_EXPIRY, MALFORMED_FRAMES, MESSAGES_DROPPED
from agent.metrics.numbers import Count, Histogram, Samples, gauge, known
from agent.runtime.reactor import Reactor
from agent.wire.config import Metrics

if TYPE_CHECKING:
    from agent.metrics.page import Page


class DrsMetrics:
    """Serves /metrics if an address is configured. OSError if the address cannot be bound.

    `counters`, `dropped()` (replies that were not read) and `key_expiry_s()` (since the epoch) are
    read on the loop at each scrape. A replica polls its leader every `every_s` seconds.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: Metrics,
        rules: Leader | ReadReplica,
        counters: Mapping[str, int],
        dropped: Callable[[], int],
        key_expiry_s: Callable[[], float | None],
        *,
        every_s: float,
    ) -> None:
        self._reactor = reactor
        self._rules = rules
        self._counters = counters
        self._dropped = dropped
        self._key_expiry_s = key_expiry_s
        self._latest_s = every_s + PATIENCE_S
        self._requests = Count(f.REQUESTS)
        self._durations = Histogram(f.REQUEST_DURATION)
        self._page: Page | None = None
        if config.address:
            from agent.metrics.page import Page  # 10 MiB, with the HTTP server

            self._page = Page(config, f.DRS, self._take)
            reactor.listen(self._page.fileno, self._page.turn)

    def observe(self, request: str, outcome: str, seconds: float) -> None:
        """A request of that tag was answered; `outcome` is ok or the reason of a refusal."""
        if self._page is not None:
            self._requests.add((request, outcome))
            self._durations.observe((request,), (seconds,))

    def close(self) -> None:
        """Stop serving."""
        if self._page is not None:
            self._page.close()

    def _take(self) -> list[Samples]:
        rules, now = self._rules, self._reactor.clock()
        kinds = Counter(entry.account.kind for entry in rules.directory)
        registered = sum(bool(entry.address) for entry in rules.directory)
        age_s = rules.age_s(now) if isinstance(rules, ReadReplica) else 0.0
        counted = {
            MALFORMED_FRAMES: self._counters.get("malformed_frames", 0),
            f.LEASES_EXPIRED: self._counters.get("leases_expired", 0),
            f.FAILED_WRITES: self._counters.get("failed_writes", 0),
            MESSAGES_DROPPED: self._dropped(),
            f.REGISTRATIONS: registered,
            f.COPY_AGE: age_s,
            f.PRIMARY_UP: age_s <= self._latest_s,
        }
        return [
            self._requests.samples(),
            self._durations.samples(),
            known(KEY_EXPIRY, self._key_expiry_s()),
            *(gauge(family, [((), value)]) for family, value in counted.items()),
            gauge(f.ACCOUNTS, [((kind,), kinds[kind]) for kind in ("iad", "csp")]),
        ]
