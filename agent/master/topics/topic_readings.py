"""Readings of topics: queries of the master's own, and which of them cannot be asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from agent.master.topics.processor_plane import ProcessorPlane
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import unknown_service
from agent.scheduling.events import QueryArrived
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.topics.events import AskReadings, RoundAnswered
from agent.wire.listing import alike, few, hint
from agent.wire.messages import Answer
from agent.wire.principals import Sender
from agent.wire.topics import Topic

# Readings are asked for, and inboxes kept, under this client's name and the topic's.
CLIENT: Final = "topic/"
# Names in a line for people.
MAX_NAMED: Final = 8


class TopicReadings:
    """Asks the query scheduler for the readings of topics. `channels` returns those of the nodes in
    some areas, `came` gets each answer, `wall` reads the wall clock in seconds since 1970 UTC."""

    def __init__(
        self,
        reactor: Reactor,
        queries: QueryScheduler,
        processors: ProcessorPlane,
        channels: Callable[[tuple[str, ...]], Collection[str]],
        came: Callable[[RoundAnswered], object],
        wall: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._queries = queries
        self._processors = processors
        self._channels = channels
        self._came = came
        self._wall = wall

    @property
    def wall_ms(self) -> int:
        """This master's wall clock."""
        return round(self._wall() * 1e3)

    def why_not(self, topic: Topic) -> str:
        """Why a topic's readings cannot be asked for; empty if they can."""
        capability = self._queries.capability(topic.service)
        if capability is None:
            # An operator asked, who may know all of them.
            operator = Sender("anyone", "")
            return unknown_service(topic.service, self._queries.services, operator)
        if capability and (others := sorted({*topic.channels} - {capability})):
            return f"service {topic.service} gives {capability}, not {', '.join(others)}"
        return ""

    def remark(self, topic: Topic) -> str:
        """Which channels the topic's processor uses, and its readings do not have; empty: none is
        known. Published messages may have them, so this is no reason to refuse the topic."""
        if not topic.areas:
            return ""
        if topic.channels:
            return self.unmet(topic, topic.channels, "its readings have only")
        if capability := self._queries.capability(topic.service):
            return self.unmet(topic, (capability,), f"service {topic.service} gives only")
        return self.unmet(topic, self._channels(topic.areas), "nodes here give")

    def unmet(self, topic: Topic, given: Collection[str], those: str) -> str:
        """Which channels the topic's processor uses, and `those` do not have, who have `given`; in
        words, or empty if it has all of them, or none is given."""
        lacking = [each for each in self._processors.channels(topic) if each not in given]
        if not lacking or not given:
            return ""
        meant = [near for each in lacking if (near := alike(each, given))]
        line = f"{topic.processor} uses {few(lacking, MAX_NAMED)}; {those} "
        return line + few(sorted(given), MAX_NAMED) + hint(few(meant, MAX_NAMED))

    def ask(self, ask: AskReadings) -> None:
        """Ask for a round of readings."""
        # The master's own: no client's rate bounds it.
        sender = Sender("client", f"{CLIENT}{ask.name}", rate_per_s=math.inf)
        answered = partial(self._answered, ask.name, ask.epoch)
        event = QueryArrived(answered, ask.query, sender)
        self._reactor.perform(self._queries.handle(event, self._reactor.clock()))

    def _answered(self, name: str, epoch: int, answer: Answer, _now: float) -> None:
        self._came(RoundAnswered(name, epoch, answer, self.wall_ms))
