"""The naive twin of a master's notification store: dicts, and what a transaction promises."""

from __future__ import annotations

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.event_state import SaveNodeState
from agent.alerts.inbox_handover import STANDBY
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.topics.events import ForgetProgress, SaveProgress


class Disk:
    """Keeps what was written, each write whole or not at all."""

    def __init__(self):
        self.spooled = {}
        self.taken = {}
        self.lost = {}
        self.nodes = {}
        self.topics = {}
        self.units = {}
        self.subscriptions = {}
        self.items = {}
        self.positions = {}

    def write(self, changes):
        for change in changes:
            if isinstance(change, SaveNodeState):
                self.nodes[change.kind, change.node] = change
            elif isinstance(change, SaveProgress):
                self.topics[change.name] = change
            elif isinstance(change, ForgetProgress):
                self.topics.pop(change.name, None)
            elif isinstance(change, SaveUnit):
                self.units[change.record.unit] = change.record
            elif isinstance(change, ForgetUnit):
                self.units.pop(change.unit, None)
            elif isinstance(change, s.SpoolChange):
                self._write_spool(change)
            else:
                self._write_inbox(change)
        return True

    def load(self):
        spool = s.SavedSpool(
            tuple(sorted(self.spooled.items())),
            tuple([(*key, taken) for key, taken in self.taken.items()]),
            tuple(self.lost.values()),
        )
        inboxes = i.SavedInboxes(
            tuple([(n, saved, had) for n, (saved, had) in sorted(self.subscriptions.items())]),
            tuple([(n, key, body) for n, (key, body) in sorted(self.items.items())]),
            tuple([(*place, item) for place, item in sorted(self.positions.items())]),
        )
        return spool, inboxes

    def load_nodes(self):
        return [self.nodes[key] for key in sorted(self.nodes)]

    def load_topics(self):
        return [self.topics[key] for key in sorted(self.topics)]

    def load_units(self):
        return [self.units[unit] for unit in sorted(self.units)]

    def close(self):
        pass

    def _write_spool(self, change):
        match change:
            case s.StoreSpooled(number, body):
                assert number not in self.spooled
                self.spooled[number] = body
            case s.ForgetSpooled(number):
                del self.spooled[number]
            case s.SaveTaken(node, history, taken):
                self.taken.pop((node, history), None)
                self.taken[node, history] = taken
            case s.ForgetTaken(node, history):
                self.taken.pop((node, history), None)
            case s.SaveLost(lost):
                self.lost.pop((lost.publisher, lost.history), None)
                self.lost[lost.publisher, lost.history] = lost
            case s.ForgetLost(publisher, history):
                self.lost.pop((publisher, history), None)
            case _:
                raise TypeError(change)

    def _write_inbox(self, change):
        match change:
            case i.SaveSubscription(number, saved):
                _, had = self.subscriptions.get(number, (None, 0))
                self.subscriptions[number] = (saved, had)
            case i.SaveCursor(number, acknowledged):
                saved, had = self.subscriptions[number]
                assert acknowledged > had
                self.subscriptions[number] = (saved, acknowledged)
            case i.ForgetSubscription(number):
                del self.subscriptions[number]
                self.positions = {k: v for k, v in self.positions.items() if abs(k[0]) != number}
            case i.StoreItem(number, key, None):
                assert number not in self.items
                self.items[number] = (key, None)
            case i.StoreItem(number, key, body):
                assert number not in self.items or self.items[number] == (key, None)
                self.items.pop(number, None)
                self.items[number] = (key, body)
            case i.ForgetBody(number):
                self.items[number] = (self.items[number][0], None)
            case i.ForgetItem(number):
                del self.items[number]
            case i.StorePosition(subscription, position, item):
                assert subscription in self.subscriptions
                assert (subscription, position) not in self.positions
                if not self.subscriptions[subscription][0].client.startswith(STANDBY):
                    assert self.items[item][1] is not None
                self.positions[subscription, position] = item
            case i.ForgetPositions(subscription, upto):
                self.positions = {
                    k: v for k, v in self.positions.items() if k[0] != subscription or k[1] > upto
                }
            case _:
                self._set_apart(change)

    def _set_apart(self, change):
        match change:
            case i.SetPositionApart(subscription, position):
                self.positions[-subscription, position] = self.positions.pop(
                    (subscription, position)
                )
            case i.ForgetPosition(subscription, position):
                del self.positions[-subscription, position]
            case _:
                raise TypeError(change)
