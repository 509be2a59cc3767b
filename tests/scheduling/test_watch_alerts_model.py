"""Watches on alerts under random interleavings: whatever is lost or killed, every alert is in one
round that the client gets, or is said to be missed."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from agent.scheduling.watches.alerts import AHEAD_S, HISTORY_S, SUBSCRIBE_AGAIN_S
from agent.scheduling.watches.events import (
    AcknowledgeArrived,
    AskInbox,
    AskRound,
    CancelArrived,
    ClientGone,
    Cursor,
    ForgetWatch,
    InboxSaid,
    RoundAnswered,
    RoundsDue,
    SaveAlerts,
    SaveCursor,
    SaveWatch,
    SendWatch,
    WatchArrived,
)
from agent.scheduling.watches.rounds import MAX_PAUSE_S
from agent.scheduling.watches.scheduler import EXPIRE_S, LAG_S, SETTLE_S, WatchScheduler
from agent.wire.messages import Slo
from agent.wire.overlay import Notification, Origin
from agent.wire.principals import Sender
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.watches import MAX_ALERTS, Cancel, Watch
from tests.examples import examples
from tests.scheduling.watch_client import WatchClient
from tests.scheduling.watch_rig import answer_to, read_stub

START_S = 1_700_000_000.0
ALICE = Sender("client", "alice")
KEY = ("alice", "w")
WINDOW = 64


class Killed(Exception):
    """The master, between any two instructions."""


class NaiveInbox:
    """One durable client's subscriptions: what it has at each position, all of it on disk."""

    def __init__(self):
        self.kept = {}
        self.last, self.had, self.sent = {}, {}, {}
        self.attached = set()

    def subscribe(self, message):
        id_ = message.id
        if id_ not in self.kept:
            if message.after is not None:
                return [Subscribed(id_, "refused", message="nothing is kept")]
            self.kept[id_], self.last[id_], self.had[id_] = {}, 0, 0
        assert message.after is None or message.after <= self.last[id_]
        self.acknowledge(id_, message.after or 0)
        self.sent[id_] = self.had[id_]
        self.attached = {id_}
        return [Subscribed(id_, "open", self.had[id_], 60_000.0), *self.more(id_)]

    def acknowledge(self, id_, position):
        self.had[id_] = max(self.had[id_], position)
        self.kept[id_] = {n: a for n, a in self.kept[id_].items() if n > self.had[id_]}

    def more(self, id_):
        if id_ not in self.attached:
            return []
        told = []
        while self.sent[id_] < min(self.last[id_], self.had[id_] + WINDOW):
            first = self.sent[id_] + 1
            if first in self.kept[id_]:
                told.append(Notified(id_, first, self.kept[id_][first]))
                self.sent[id_] = first
            else:
                self.sent[id_] = min(self.kept[id_], default=self.last[id_] + 1) - 1
                told.append(Gap(id_, first, self.sent[id_]))
        return told


class AlertsMachine(WatchClient):
    """One watch; a network that loses what is under way when a connection ends; a master that is
    killed between any two instructions, and whose disk has some of it later; an inbox that refuses
    for a while, lets go of the watch, drops what nobody took, and may lose all that it has when the
    master is down."""

    @initialize(
        interval_s=st.sampled_from([0.3, 2.0, 10.0]),
        lasting_s=st.sampled_from([None, None, 4.0, 15.0]),
    )
    def start(self, interval_s, lasting_s):
        self.now = START_S
        self.watch = Watch(
            "w", ("b1",), Slo(99.0, 100.0), "event", interval_s,
            window_s=3.0, lasting_s=lasting_s, on="value > 1",
        )  # fmt: skip
        self.ends_s = None
        self.ids = 0
        self.disk, self.unsaved = {}, {}
        self.inbox = NaiveInbox()
        self.refusing = False
        self.to_end = []
        self.kill_after = None
        self.said = []
        self.scheduler = self.make_scheduler()
        self.asked = []
        self.connection = 0
        self.to_client, self.to_master = [], [self.watch]
        self.received = []
        self.acknowledged = 0
        self.state = self.word = ""
        self.wanted = []  # every alert that is to come, in the inbox's order
        self.late = 0
        self.dates = {}
        self.dropped = set()
        self.forgotten = False
        self.made_s = {}

    def make_scheduler(self):
        return WatchScheduler(read_stub, lambda _: "", lambda _: (), self.new_id, most_watches=1)

    def new_id(self):
        self.ids += 1
        return f"s{self.ids}"

    # --- the world ---------------------------------------------------------------------------

    def do(self, event):
        try:
            for instruction in self.scheduler.handle(event, self.now):
                if self.kill_after is not None:
                    self.kill_after -= 1
                    if self.kill_after < 0:
                        raise Killed
                self.perform(instruction)
        except Killed:
            self.the_master_restarts(forgets=False)

    def perform(self, instruction):
        match instruction:
            case AskRound():
                self.asked.append(instruction)
            case SendWatch():
                if instruction.peer == self.connection:
                    self.to_client.append(instruction.message)
                else:
                    self.do(ClientGone(KEY, instruction.peer))
            case SaveWatch():
                self.unsaved["watch"] = saved = instruction.saved
                if self.watch.lasting_s is not None:
                    self.ends_s = saved.start_ms / 1e3 + self.watch.lasting_s
                self.the_disk_is_written()
            case SaveCursor():
                self.unsaved["cursor"] = instruction.cursor
            case SaveAlerts():
                self.unsaved["alerts"] = saved = instruction.saved
                if saved.made:
                    self.made_s[saved.made] = saved.made_ms / 1e3
                if instruction.at_once:
                    self.the_disk_is_written()
            case AskInbox():
                self.ask_inbox(instruction.message)
            case ForgetWatch():
                self.disk.clear()
                self.unsaved.clear()

    def ask_inbox(self, message):
        match message:
            case Subscribe() | AcknowledgeNotifications() if self.refusing:
                self.said.append(None)
            case Subscribe():
                self.said += self.inbox.subscribe(message)
            case AcknowledgeNotifications():
                # What is acknowledged is on disk.
                assert self.disk["alerts"].position >= message.position
                self.inbox.acknowledge(message.id, message.position)
                self.said += self.inbox.more(message.id)
            case Unsubscribe():
                self.to_end.append(message.id)

    def let_inbox_speak(self):
        """In one process that takes no time."""
        for _ in range(1_000):
            if not self.said:
                break
            self.do(InboxSaid(KEY, self.said.pop(0)))
        else:
            raise AssertionError("they never stop talking")
        if not self.refusing:
            for id_ in self.to_end:
                self.inbox.kept.pop(id_, None)
            self.to_end.clear()

    # --- rules -------------------------------------------------------------------------------

    @rule(
        count=st.sampled_from([1, 1, 2, 5, 40, 90]),
        ago_s=st.sampled_from([0.0, 0.0, 0.01, 3.0, 100.0, HISTORY_S + 9.0, -1.0, -3600.0]),
        drop=st.sampled_from([0, 0, 0, 1, 3]),
    )
    def alerts_come(self, count, ago_s, drop):
        for id_, kept in self.inbox.kept.items():
            for _ in range(count):
                number = self.inbox.last[id_] = self.inbox.last[id_] + 1
                date_ms = round((self.now - ago_s) * 1e3)
                alert = Notification(Origin("iad1", id_, number), date_ms, {"value": 2.0})
                kept[number] = alert
                true = -AHEAD_S <= ago_s <= HISTORY_S
                self.dates[alert.origin] = date_ms if true else None
                when_ms = date_ms if true else self.now * 1e3
                if self.ends_s is None or when_ms <= self.ends_s * 1e3:
                    self.wanted.append(alert)
                    # As long as a master that was down waits for it, it may come; and what has no
                    # date of its own may be taken too late.
                    late = self.ends_s is not None and self.now > self.ends_s + LAG_S
                    self.late += late or not true
            for number in sorted(kept)[:drop]:
                self.dropped.add(kept.pop(number).origin)
            self.said += self.inbox.more(id_)
            break
        self.let_inbox_speak()

    @rule(seconds=st.sampled_from([0.01, 0.1, 0.4, 1.0, 3.0, 11.0]))
    def time_passes(self, seconds):
        self.let_inbox_speak()
        self.now += seconds
        if (due := self.scheduler.next_tick) is not None and due <= self.now:
            scheduler = self.scheduler
            self.do(RoundsDue())
            if self.scheduler is scheduler:
                due = self.scheduler.next_tick
                assert due is None or due > self.now
        self.let_inbox_speak()

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), reason=st.sampled_from([None, None, None, "over_rate"]))
    def a_round_is_answered(self, data, reason):
        self.answer(data.draw(st.sampled_from(self.asked)), reason)

    def answer(self, ask, reason=None):
        self.asked.remove(ask)
        self.do(RoundAnswered(ask.token, answer_to(ask.query, reason=reason)))

    @precondition(lambda self: self.to_master)
    @rule()
    def the_master_receives(self):
        message = self.to_master.pop(0)
        if isinstance(message, Watch):
            if self.refusing and not self.disk:
                return  # it would be refused; he tries again
            self.do(WatchArrived(self.connection, ALICE, message))
        else:
            self.do(AcknowledgeArrived(ALICE, message))
        self.let_inbox_speak()

    @rule()
    def nothing_is_in_the_way(self):
        """All that is under way arrives, and rounds are answered."""
        for _ in range(100):
            if self.to_master:
                self.the_master_receives()
            elif self.to_client:
                self.the_client_receives()
            elif self.asked:
                self.answer(self.asked[0])
            else:
                return

    @rule(
        seconds=st.sampled_from([0.1, 3.0, 11.0]),
        count=st.sampled_from([1, 3]),
        ago_s=st.sampled_from([0.0, 4.0]),
    )
    def a_while_goes_well(self, seconds, count, ago_s):
        self.nothing_is_in_the_way()
        if self.last > self.acknowledged:
            self.the_client_acknowledges()
        self.time_passes(seconds)
        self.alerts_come(count, ago_s, 0)
        self.nothing_is_in_the_way()

    @rule()
    def the_disk_is_written(self):
        self.disk |= self.unsaved
        self.unsaved.clear()

    @rule()
    def the_inbox_heard_nothing_for_too_long(self):
        self.said += [Subscribed(id_, "unknown") for id_ in self.inbox.attached]
        self.inbox.attached.clear()
        self.let_inbox_speak()

    @rule(refusing=st.sampled_from([False, False, True]))
    def the_inbox_takes_nothing_or_does_again(self, refusing):
        self.refusing = refusing

    @rule(instructions=st.integers(0, 4))
    def the_master_is_about_to_be_killed(self, instructions):
        self.kill_after = instructions

    @rule(forgets=st.sampled_from([False, False, False, True]))
    def the_master_restarts(self, forgets):
        self.kill_after = None
        self.unsaved.clear()
        self.asked.clear()
        self.said.clear()
        self.to_end.clear()
        self.inbox.attached.clear()
        self.scheduler = self.make_scheduler()
        known = ""
        if "watch" in self.disk:
            alerts = self.disk.get("alerts")
            known = "" if alerts is None else alerts.subscription
            cursor = self.disk.get("cursor", Cursor())
            self.scheduler.restore(self.disk["watch"], cursor, self.now, alerts)
        elif self.state != "finished":
            self.state = ""  # he was told nothing
        # As the plane does at its start: those of watches that are no more.
        if not known:
            self.inbox.kept.clear()
        if forgets and self.inbox.kept:
            self.inbox.kept.clear()
            self.forgotten = True
        self.the_connection_ends(lost=True)

    # --- what must hold ----------------------------------------------------------------------

    @invariant()
    def the_scheduler_is_consistent(self):
        self.scheduler.check_invariants()

    @invariant()
    def every_alert_is_in_one_round_in_order(self):
        assert [r.number for r in self.received] == list(range(1, len(self.received) + 1))
        places = {alert.origin: n for n, alert in enumerate(self.wanted)}
        before = -1
        for round_ in self.received:
            assert len(round_.alerts) == min(round_.alert_count, MAX_ALERTS) > 0
            at = [places[alert.origin] for alert in round_.alerts]
            assert at == sorted(set(at))
            assert before < at[0]
            before = at[-1]
            if round_.alert_count > MAX_ALERTS:
                continue
            dates = [self.dates[alert.origin] for alert in round_.alerts]
            latest = [date for date in dates if date is not None]
            if len(latest) == len(dates):
                assert round_.end_ms == max(latest) + 1
            else:
                assert max(latest, default=0) < round_.end_ms <= (self.now + AHEAD_S) * 1e3 + 2
            assert round_.end_ms - round_.start_ms == 3_000
            assert round_.answer.message == f"{round_.start_ms} to {round_.end_ms}"

    @invariant()
    def no_two_rounds_are_in_one_interval(self):
        times = [self.made_s[n] for n in sorted(self.made_s)]
        assert sorted(self.made_s) == list(range(1, len(times) + 1))
        for a, b in pairwise(times):
            assert b - a >= self.watch.interval_s - 2e-3

    def teardown(self):
        """Nothing goes wrong any more: the client gets all that is due."""
        if not hasattr(self, "scheduler"):
            return
        self.kill_after = None
        self.refusing = False
        if self.state != "finished":
            self.the_connection_ends(lost=True)
        self.come_to_rest()
        self.count_alerts()
        if self.ends_s is not None:
            assert self.state == "finished"
            # What he said of it may have been lost.
            self.now += EXPIRE_S + 3 * self.watch.interval_s
            self.do(RoundsDue())
            self.let_inbox_speak()
        elif self.state == "open":
            self.do(CancelArrived(self.connection, ALICE, Cancel("w")))
            self.let_inbox_speak()
        assert not self.disk
        assert not self.inbox.kept
        assert self.scheduler.open_watches == 0
        assert self.scheduler.next_tick is None

    def come_to_rest(self):
        quiet_s = MAX_PAUSE_S + SUBSCRIBE_AGAIN_S + SETTLE_S + LAG_S + 10.0
        waits = 0
        for _ in range(3_000):
            self.let_inbox_speak()
            if self.to_master:
                self.the_master_receives()
            elif self.asked:
                self.answer(self.asked[-1])
            elif self.to_client:
                self.the_client_receives()
            elif self.last > self.acknowledged:
                self.the_client_acknowledges()
            elif waits < 4:
                waits, self.now = waits + 1, self.now + quiet_s
                self.do(RoundsDue())
            else:
                break
        else:
            raise AssertionError("it never comes to rest")

    def count_alerts(self):
        came = sum(r.alert_count for r in self.received)
        missed = int(self.word.split()[0]) if "given up" in self.word else 0
        if not self.forgotten:
            assert missed <= len(self.dropped)
            if self.ends_s is None:
                assert came + missed == len(self.wanted)
            else:
                due = len(self.wanted) - self.late - len(self.dropped)
                assert due <= came <= len(self.wanted)


TestEveryAlertIsInOneRound = AlertsMachine.TestCase
TestEveryAlertIsInOneRound.settings = settings(
    max_examples=examples(100), stateful_step_count=50, deadline=None
)
