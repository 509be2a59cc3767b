"""Watches under random interleavings: whatever gets lost, the client has every round once."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from agent.scheduling.watches.events import (
    AcknowledgeArrived,
    AskRound,
    CancelArrived,
    ClientGone,
    Cursor,
    ForgetWatch,
    RoundAnswered,
    RoundsDue,
    SaveCursor,
    SaveWatch,
    SendWatch,
    WatchArrived,
)
from agent.scheduling.watches.rounds import MAX_AHEAD, MAX_PAUSE_S, rounds_of
from agent.scheduling.watches.scheduler import EXPIRE_S, LAG_S, WatchScheduler
from agent.wire.messages import Slo
from agent.wire.principals import Sender
from agent.wire.watches import Acknowledge, Cancel, Round, Watch, Watching
from tests.examples import examples
from tests.scheduling.watch_client import WatchClient
from tests.scheduling.watch_rig import HOT, answer_to, read_stub

START_S = 1_700_000_000.0


class WatchMachine(WatchClient):
    """One watch; a network that loses what is under way when a connection ends; a master whose disk
    has the watch at once and the cursor a little later."""

    @initialize(
        style=st.sampled_from(["periodic", "streaming", "event"]),
        interval_s=st.sampled_from([0.3, 1.0, 10 / 3]),
        rounds=st.none() | st.integers(1, 12),
        hot=st.sets(st.integers(1, 60)),
        keyed=st.booleans(),
    )
    def start(self, style, interval_s, rounds, hot, keyed):
        self.now = START_S
        self.hot = hot
        self.keyed = keyed
        self.watch = Watch(
            "w", ("b1",), Slo(99.0, 100.0), style, interval_s,
            lasting_s=rounds and rounds * interval_s * 1.0001,
            trigger="hot" if style == "event" else "",
        )  # fmt: skip
        self.total = rounds_of(self.watch)
        assert self.total == rounds
        self.disk, self.cursors = {}, {}
        self.late_cursors = {}
        self.scheduler = self.make_scheduler()
        self.asked: list[AskRound] = []
        self.connection = 0
        self.to_client: list[Round | Watching] = []
        self.to_master: list[Acknowledge | Watch] = []
        self.received: list[Round] = []
        self.acknowledged = 0
        self.unheard = False
        self.state = self.word = ""
        self.to_master.append(self.watch)

    def make_scheduler(self):
        return WatchScheduler(
            read_stub, lambda _service: "", lambda _areas: (), lambda: "", most_watches=1
        )

    # --- the world ---------------------------------------------------------------------------

    @property
    def sender(self):
        name = "alice" if self.keyed else f"connection{self.connection}"
        return Sender("client" if self.keyed else "anyone", name)

    def do(self, event):
        for instruction in self.scheduler.handle(event, self.now):
            match instruction:
                case AskRound():
                    assert instruction.sender.role == self.sender.role
                    self.asked.append(instruction)
                case SendWatch():
                    if instruction.peer == self.connection:
                        self.to_client.append(instruction.message)
                    else:
                        key = ("alice" if self.keyed else "", "w")
                        self.do(ClientGone(key, instruction.peer))
                case SaveWatch():
                    self.disk[instruction.key] = instruction.saved
                case SaveCursor():
                    self.late_cursors[instruction.key] = instruction.cursor
                case ForgetWatch():
                    del self.disk[instruction.key]
                    self.cursors.pop(instruction.key, None)
                    self.late_cursors.pop(instruction.key, None)

    def number_of(self, query):
        return int(query.id.rpartition(".")[2])

    # --- rules -------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.01, 0.05, 0.4, 1.0, 3.0]))
    def time_passes(self, seconds):
        self.now += seconds
        if (due := self.scheduler.next_tick) is not None and due <= self.now:
            self.do(RoundsDue())
            assert self.scheduler.next_tick is None or self.scheduler.next_tick > self.now

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), reason=st.sampled_from([None, None, "over_rate", "overloaded"]))
    def a_round_is_answered(self, data, reason):
        ask = data.draw(st.sampled_from(self.asked))
        self.answer(ask, reason)

    def answer(self, ask, reason=None):
        self.asked.remove(ask)
        hot = self.number_of(ask.query) in self.hot
        self.do(RoundAnswered(ask.token, answer_to(ask.query, hot=hot, reason=reason)))

    @precondition(lambda self: self.to_master)
    @rule()
    def the_master_receives(self):
        message = self.to_master.pop(0)
        if isinstance(message, Watch):
            self.do(WatchArrived(self.connection, self.sender, message))
        else:
            self.do(AcknowledgeArrived(self.sender, message))

    @rule()
    def the_cursor_reaches_the_disk(self):
        self.cursors |= self.late_cursors
        self.late_cursors.clear()

    @rule()
    def the_master_restarts(self):
        self.late_cursors.clear()
        self.asked.clear()
        self.scheduler = self.make_scheduler()
        for key, saved in self.disk.items():
            self.scheduler.restore(saved, self.cursors.get(key, Cursor()), self.now)
        self.the_connection_ends(lost=True)

    # --- what must hold ----------------------------------------------------------------------

    @invariant()
    def the_scheduler_is_consistent(self):
        self.scheduler.check_invariants()
        assert len(self.asked) <= 3 * MAX_AHEAD

    @invariant()
    def rounds_come_once_in_order_with_their_answers(self):
        numbers = [r.number for r in self.received]
        if self.watch.style == "event":
            limit = self.last
            assert numbers == sorted(n for n in self.hot if n <= limit)
        else:
            assert numbers == list(range(1, len(numbers) + 1))
        for round_ in self.received:
            assert round_.answer.message == f"{round_.start_ms} to {round_.end_ms}"
            assert round_.fired == ((HOT,) if self.watch.style == "event" else ())
            assert self.now >= round_.end_ms / 1e3 + LAG_S - 1e-3
        if self.watch.style == "streaming":
            edges = [round_.start_ms for round_ in self.received[1:]]
            assert edges == [round_.end_ms for round_ in self.received[:-1]]

    def teardown(self):
        """Nothing goes wrong any more: the client gets all that is due."""
        if not hasattr(self, "scheduler"):
            return
        if self.state != "finished":
            self.the_connection_ends(lost=True)
        due = None
        for _ in range(3_000):
            if self.to_master:
                self.the_master_receives()
            elif self.asked:
                self.answer(self.asked[-1])
            elif self.to_client:
                self.the_client_receives()
            elif self.last > self.acknowledged:
                self.the_client_acknowledges()
            elif due is None:
                # A pause may be under way; after it, whatever was due before it must be here.
                due, self.now = self.due_rounds(), self.now + MAX_PAUSE_S + 1.0
                self.do(RoundsDue())
            else:
                break
        else:
            raise AssertionError("it never comes to rest")
        numbers = [r.number for r in self.received]
        if self.watch.style == "event":
            # Passed rounds need no word of the client: with time, all of them are looked at.
            assert [n for n in numbers if n <= due] == sorted(n for n in self.hot if n <= due)
        else:
            assert numbers[:due] == list(range(1, due + 1))
        if self.total is not None and due == self.total:
            assert self.state == "finished"
            self.expire_unheard()
            assert not self.disk
            assert self.scheduler.open_watches == 0
        elif self.state == "open":
            self.do(CancelArrived(self.connection, self.sender, Cancel("w")))
            assert not self.disk
            assert self.scheduler.open_watches == 0
            assert self.scheduler.next_tick is None
        assert self.to_client[-1].state == "cancelled" if self.to_client else True

    def expire_unheard(self):
        if self.unheard:
            # The client said once that it has all, and will not say it again.
            self.now += EXPIRE_S + 3 * self.watch.interval_s
            self.do(RoundsDue())

    def due_rounds(self):
        saved = self.disk.get(("alice" if self.keyed else "", "w"))
        if saved is None:
            assert self.state == "finished"
            return self.total
        ended = 0
        while (
            round((ended + 1) * self.watch.interval_s * 1e3) / 1e3 + LAG_S
            <= self.now - saved.start_ms / 1e3
        ):
            ended += 1
        return ended if self.total is None else min(ended, self.total)


def test_a_watch_whose_last_acknowledgement_was_lost_stays_until_it_expires():
    machine = WatchMachine()
    machine.start(style="event", interval_s=0.3, rounds=1, hot=set(), keyed=True)
    machine.the_master_receives()
    machine.the_client_receives()
    machine.time_passes(3.0)
    machine.ask_again()
    machine.answer(machine.asked[0])
    machine.the_client_receives()
    assert machine.state == "finished"
    machine.the_master_restarts()
    assert machine.unheard
    assert machine.disk
    machine.teardown()
    assert not machine.disk


def test_a_watch_whose_last_acknowledgement_arrives_is_gone_at_once():
    machine = WatchMachine()
    machine.start(style="event", interval_s=0.3, rounds=1, hot=set(), keyed=True)
    machine.the_master_receives()
    machine.the_client_receives()
    machine.time_passes(3.0)
    machine.answer(machine.asked[0])
    machine.the_client_receives()
    machine.the_master_receives()
    assert not machine.unheard
    assert not machine.disk
    machine.teardown()


TestEveryRoundComesOnce = WatchMachine.TestCase
TestEveryRoundComesOnce.settings = settings(
    max_examples=examples(200), stateful_step_count=60, deadline=None
)
