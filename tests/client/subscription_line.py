"""A subscription at its client, and the line to a master that the test plays."""

from collections import deque

from msgspec.structs import replace

from agent.client import NoReplyError
from agent.client import subscriptions as subscriptions_module
from agent.client.connection import ConnectionCutError
from agent.client.subscriptions import Notifications
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed

HOT = 'metric = "temperature" and value > 30'
WANTED = read_filter(HOT)
CUT = "cut"
RENEW_S = 60.0


def notified(position, subscription_id="s"):
    origin = Origin("iad1", "4f1d2a", position)
    return Notified(subscription_id, position, Notification(origin, 0, {"value": float(position)}))


def opened(position=0):
    return Subscribed("s", "open", position, RENEW_S * 1e3)


def acknowledged(position):
    return AcknowledgeNotifications("s", position)


def asked(after=None, **fields):
    return Subscribe("s", WANTED, after=after, **fields)


class Line:
    """A client without a socket, in virtual time: what is put into `coming` is taken, in order;
    where that is nothing, time passes."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.patch = monkeypatch.setattr
        self.patch(subscriptions_module, "time", self)
        self.sent = deque()
        self.times = deque()
        self.coming = deque()
        self.forgotten = []
        self.always = ()  # in answer to each message
        self.says_all()

    def says_all(self, most_owed=0):
        """Each position is acknowledged, as those of a durable subscription are."""
        self.patch(subscriptions_module, "MAX_OWED", most_owed)

    def monotonic(self):
        return self.now

    def send_message(self, message):
        self.sent.append(message)
        self.times.append(self.now)
        self.coming.extend(self.always)

    def take(self, timeout_ms, *, until_cut=False):
        if not self.coming:
            self.now += timeout_ms / 1e3 + 1e-6
            raise NoReplyError("silent")
        message = self.coming.popleft()
        if message == CUT:
            self.notifications.cut()
            assert until_cut
            raise ConnectionCutError("cut")
        self.notifications.take(message)

    def forget_subscription(self, subscription_id):
        self.forgotten.append(subscription_id)

    def given_masters(self):
        return ()

    def open(self, *coming, position=0, durable=False, after=None, patience_s=3_600.0):
        subscribe = Subscribe("s", WANTED, durable, after)
        self.notifications = Notifications(self, subscribe, patience_s)
        self.coming.extend((opened(position), *coming))
        self.notifications.open()
        assert [replace(each, masters=()) for each in self.said()] == [subscribe]
        return self.notifications

    def said(self):
        """What was sent since the last look."""
        sent = list(self.sent)
        self.sent.clear()
        self.times.clear()
        return sent


def positions(found, count):
    return [next(found).position for _ in range(count)]
