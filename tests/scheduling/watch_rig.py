"""What tests of watches share: a trigger that looks at nothing but a name, and answers."""

from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage

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
