"""What tests of watches share: a trigger that looks at nothing but a name, answers, a scheduler."""

from agent.scheduling.watches.events import (
    AcknowledgeArrived,
    AskRound,
    RoundAnswered,
    RoundsDue,
    SendWatch,
    WatchArrived,
)
from agent.scheduling.watches.scheduler import WatchScheduler
from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage, Slo
from agent.wire.principals import Sender
from agent.wire.watches import Acknowledge, Round, Watch

HOT = "b1/hot"
SOMETHING = Aggregate(0, 0, {"co2": ChannelAggregate(1, 400.0, 400.0, 400.0)})


class StubTrigger:
    """Holds for the area that is called hot."""

    def __init__(self, channels=(), needs_series=False):
        self.channels = channels
        self.needs_series = needs_series

    def holds(self, result):
        return result.area == HOT


def read_stub(text):
    """The stub for the text "hot", and for nothing else."""
    if text != "hot":
        raise ValueError(f"at character 1: expected hot; got {text!r}")
    return StubTrigger()


def answer_to(query, *, hot=False, reason=None, status="complete"):
    """An answer that says which window it is for."""
    window = query.window
    return Answer(
        query.id,
        "refused" if reason else status,
        1.0,
        not reason,
        Coverage(1, 1 if status == "complete" else 2),
        results=() if reason else (AreaResult(HOT if hot else "b1/cold", aggregate=SOMETHING),),
        reason=reason,
        message=f"{window.start_ms} to {window.end_ms}",
    )


T0 = 1_700_000_000.0
ALICE, BOB = Sender("client", "alice"), Sender("client", "bob")


def watch(style="periodic", **fields):
    fields = {"id": "w", "interval_s": 1.0} | fields
    areas = fields.pop("areas", ("b1",))
    return Watch(areas=areas, slo=Slo(99.0, 100.0), style=style, **fields)


class Rig:
    """A scheduler, its time, and what it sent and asked."""

    def __init__(self, **options):
        self.now = T0
        options = {"most_watches": 3} | options
        self.services = {"default": "", "air": "humidity"}
        read_trigger = options.pop("read_trigger", read_stub)
        self.channels = ()
        self.scheduler = WatchScheduler(
            read_trigger, self.services.get, lambda _areas: self.channels, self.new_id, **options
        )
        self.all, self.sent, self.asked = [], [], []
        self.ids = 0

    def new_id(self):
        self.ids += 1
        return f"s{self.ids}"

    def do(self, event):
        done = self.scheduler.handle(event, self.now)
        self.scheduler.check_invariants()
        self.all += done
        self.sent += [i.message for i in done if isinstance(i, SendWatch)]
        self.asked += [i for i in done if isinstance(i, AskRound)]
        return done

    def watch(self, message, sender=ALICE, peer="link"):
        self.do(WatchArrived(peer, sender, message))
        return self.sent[-1]

    def until(self, seconds):
        """All that is due up to `seconds` after the start."""
        while (due := self.scheduler.next_tick) is not None and due <= T0 + seconds:
            self.now = due
            self.do(RoundsDue())
        self.now = T0 + seconds

    def answer(self, ask=None, **fields):
        ask = ask or self.asked[0]
        self.asked.remove(ask)
        return self.do(RoundAnswered(ask.token, answer_to(ask.query, **fields)))

    def acknowledge(self, number, sender=ALICE):
        return self.do(AcknowledgeArrived(sender, Acknowledge("w", number)))

    @property
    def rounds(self):
        return [m.number for m in self.sent if isinstance(m, Round)]


def windows(asked):
    return [(a.query.window.start_ms - T0 * 1000, a.query.window.end_ms - T0 * 1000) for a in asked]
