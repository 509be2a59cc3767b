"""Links as tests begin with them: new, joined, or with a choice of masters."""

from __future__ import annotations

from msgspec.structs import replace

from agent.edge.link import Instruction, Link, Send, Start
from agent.wire.messages import Window
from agent.wire.node_messages import Hello, Subtask, Welcome

HELLO = Hello("n1", "here", "history", ("b1/f4/r413",), ("temperature",), 2, "1.0")
WELCOME = Welcome("here", 1.0)
FIRST_S, MAX_S = 0.2, 30.0


def subtask(number: int) -> Subtask:
    return Subtask(number, Window(last_s=60.0))


def new_link(jitter: float = 0.5) -> Link:
    return Link(HELLO, first_pause_s=FIRST_S, longest_pause_s=MAX_S, jitter=lambda: jitter)


def joined() -> Link:
    link = new_link()
    link.handle(Start(), 0.0)
    link.handle(WELCOME, 0.0)
    return link


def kinds(instructions: list[Instruction]) -> list[type]:
    return [type(instruction) for instruction in instructions]


def hello(*running: int) -> Send:
    return Send(replace(HELLO, running=running))


CHOOSING = replace(HELLO, masters=("iad1", "iad2", "iad3"))


def choosing(*, follow_s: float = 0.0, home: str = "iad1") -> Link:
    return Link(
        CHOOSING,
        first_pause_s=FIRST_S,
        longest_pause_s=MAX_S,
        jitter=lambda: 0.5,
        home=home,
        follow_s=follow_s,
    )
