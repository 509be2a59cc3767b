"""The subscriptions of one connection to a master, by id and by number."""

from __future__ import annotations

from agent.client.subscriptions import NAMES, Notifications
from agent.wire.push import Notified, SentPush, ShortNotified


class OpenSubscriptions:
    """Hands each message of a master to the subscription that it is for; one that is for none is
    dropped."""

    def __init__(self) -> None:
        self._by_id: dict[str, Notifications] = {}
        # Those that the master may name by a number.
        self._by_number: dict[int, Notifications] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def get(self, subscription_id: str) -> Notifications | None:
        """O(1)."""
        return self._by_id.get(subscription_id)

    def add(self, subscription: Notifications) -> None:
        """O(1)."""
        self._by_id[subscription.id] = subscription
        if (short := subscription.subscribe.short) is not None:
            self._by_number[short.number] = subscription

    def remove(self, subscription_id: str) -> None:
        """O(1)."""
        gone = self._by_id.pop(subscription_id, None)
        if gone is not None and gone.subscribe.short is not None:
            self._by_number.pop(gone.subscribe.short.number, None)

    def hand_over(self, message: SentPush) -> None:
        """O(subscriptions in the message)."""
        if isinstance(message, ShortNotified):
            notification = message.of.notification(NAMES)
            for number, position in message.to:
                if (taker := self._by_number.get(number)) is not None:
                    taker.take(Notified(taker.id, position, notification))
            return
        for each in message.apart() if isinstance(message, Notified) else (message,):
            if (taker := self._by_id.get(each.id)) is not None:
                taker.take(each)

    def cut(self) -> None:
        """The connection was cut: all of them must know, or they might wait in vain."""
        for subscription in self._by_id.values():
            subscription.cut()
