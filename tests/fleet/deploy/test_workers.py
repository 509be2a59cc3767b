"""The threads of a rollout."""

from __future__ import annotations

import threading

from fleet.deploy.events import AnyEvent, Confirmed, Healthy, Instruction, Planned, Switched
from fleet.deploy.rollout import Member, Rollout
from fleet.deploy.workers import carry_out


def attempt(instruction: Instruction) -> AnyEvent:
    host = instruction.host
    match instruction.do:
        case "gather":
            return Planned(host, changes=True, disturbs=True)
        case "switch":
            return Switched(host)
        case "check":
            return Healthy(host)
        case _:
            return Confirmed(host)


def test_they_end_with_it() -> None:
    before = set(threading.enumerate())
    rollout = Rollout([Member(f"iad4/n{n}", "iad4", "node") for n in range(5)])
    carry_out(rollout, attempt, rollout.handle, 30, threading.Event())
    assert {result.outcome for result in rollout.results.values()} == {"changed"}
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), thread.name
