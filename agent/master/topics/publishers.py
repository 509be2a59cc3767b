"""Whether a client may publish to a topic now."""

from __future__ import annotations

from typing import Final

from agent.master.push.topic_spool import TopicSpool
from agent.scheduling.admission import ClientRates, may_publish
from agent.topics.area_shares import AreaShares
from agent.topics.contents import why_not
from agent.wire.principals import Sender
from agent.wire.topics import Publish

CROWDED: Final = "too much waits for masters that are away; try again later"


class Publishers:
    """The rights, rates and shares of clients that publish."""

    def __init__(self, rates: ClientRates, spool: TopicSpool) -> None:
        self._rates = rates
        self._spool = spool
        self._areas = AreaShares()

    def why_not(self, sender: Sender, client: str, message: Publish, now: float) -> str:
        """Why this message is refused; empty if it is not, and it counts."""
        refused = may_publish(sender) or self._rates.refused(sender, now)
        if refused is not None:
            return refused.message
        if problem := why_not(message.attributes):
            return f"attributes: {problem}"
        if self._spool.crowded or self._spool.crowded_by(client):
            return CROWDED
        area = message.attributes.get("area")
        if not isinstance(area, str):
            return ""
        return self._areas.why_not(client, message.topic, area, now)
