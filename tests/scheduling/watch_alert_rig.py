"""Watches on alerts, with inboxes in a test's hands."""

from agent.scheduling.watches.events import AskInbox, InboxSaid, WatchArrived
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from agent.wire.push import Notified, Subscribe, Subscribed
from tests.scheduling.watch_rig import ALICE, T0, Rig, watch

ON = "value > 1"
KEY = ("alice", "w")
SUBSCRIBE = AskInbox(KEY, Subscribe("s1", read_filter(ON), durable=True))


def alert(number, date_s=0.0):
    """At so many seconds after the start."""
    return Notification(Origin("iad2", "h", number), round((T0 + date_s) * 1e3), {"value": 2.0})


class AlertRig(Rig):
    """A watch on alerts, which is open, and its inbox in the test's hands."""

    def __init__(self, opened=True, **fields):
        super().__init__()
        self.watched = watch("event", **{"on": ON, "interval_s": 10.0, "window_s": 3.0} | fields)
        self.position = 0
        if opened:
            self.watch(self.watched)
            self.say(Subscribed("s1", "open", 0, 60_000.0))

    def watch(self, message, sender=ALICE, peer="link"):
        self.do(WatchArrived(peer, sender, message))
        return self.sent[-1] if self.sent else None

    def say(self, message):
        return self.do(InboxSaid(KEY, message))

    def alerts(self, count=1, date_s=None, id_="s1"):
        """Each is dated now, if not otherwise."""
        for _ in range(count):
            self.position += 1
            dated = alert(self.position, self.now - T0 if date_s is None else date_s)
            done = self.say(Notified(id_, self.position, dated))
        return done

    def of(self, *kinds):
        return [each for each in self.all if isinstance(each, kinds)]

    @property
    def windows(self):
        return [
            (a.query.window.start_ms - T0 * 1000, a.query.window.end_ms - T0 * 1000)
            for a in self.asked
        ]


def numbers(told):
    return [each.origin.sequence for each in told.alerts]
