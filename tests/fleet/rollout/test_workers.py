"""The threads of a rollout."""

from __future__ import annotations

import itertools
import signal
import threading

import pytest

from fleet.rollout import workers
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Healthy,
    Instruction,
    Interrupted,
    Planned,
    Staged,
    Switched,
)
from fleet.rollout.rollout import Member, Rollout
from fleet.rollout.workers import carry_out
from fleet.ssh import ctrl_c
from tests.fleet.ssh.pressing import pressed


def attempt(instruction: Instruction) -> AnyEvent:
    host = instruction.host
    match instruction.do:
        case "gather":
            return Planned(host, changes=True, disturbs=True, serving=True)
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


def interrupted_at(*instructions: int) -> int:
    """Deploy to two hosts, with Ctrl-C before these instructions of the loop; how many it had.
    Whatever was begun came to its end, or it was not begun at all."""
    rollout = Rollout([Member(f"iad4/n{n}", "iad4", "node") for n in range(2)])
    begun: dict[str, set[str]] = {}

    def act(instruction: Instruction) -> AnyEvent:
        begun.setdefault(instruction.host, set()).add(instruction.do)
        return attempt(instruction)

    with pressed(workers, ctrl_c, at=instructions) as presser:
        try:
            carry_out(rollout, act, rollout.handle, 1, threading.Event())
        except KeyboardInterrupt:
            assert rollout.ended or not begun, instructions
    if begun:
        assert rollout.ended, instructions
    for name, result in rollout.results.items():
        assert result.outcome == ("changed" if "switch" in begun[name] else "skipped")
    return presser.count


def test_wherever_ctrl_c_comes_what_was_begun_comes_to_its_end() -> None:
    for number in itertools.count(1):
        if interrupted_at(number) < number:
            break
    assert number > 200


def test_ctrl_c_while_an_event_is_dealt_with_begins_nothing_more() -> None:
    rollout = Rollout([Member(f"iad4/n{n}", "iad4", "node") for n in range(5)])
    stopping = threading.Event()

    def take(event: AnyEvent) -> list[Instruction]:
        instructions = rollout.handle(event)
        if isinstance(event, Confirmed) and len(rollout.results) == 1:
            signal.raise_signal(signal.SIGINT)
        return instructions

    with pressed():
        carry_out(rollout, attempt, take, 2, stopping)
    assert stopping.is_set()
    assert rollout.stopped == "interrupted"
    outcomes = [result.outcome for result in rollout.results.values()]
    assert outcomes.count("skipped") >= 2
    assert set(outcomes) == {"changed", "skipped"}


def test_a_second_ctrl_c_is_raised() -> None:
    rollout = Rollout([Member("iad4/n0", "iad4", "node")])
    over = threading.Event()

    def act(instruction: Instruction) -> AnyEvent:
        if instruction.do == "switch":
            signal.raise_signal(signal.SIGINT)
            over.wait(60)
        return attempt(instruction)

    def take(event: AnyEvent) -> list[Instruction]:
        instructions = rollout.handle(event)
        if isinstance(event, Interrupted):
            signal.raise_signal(signal.SIGINT)
        return instructions

    try:
        with pressed(), pytest.raises(KeyboardInterrupt):
            carry_out(rollout, act, take, 1, threading.Event())
    finally:
        over.set()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_switched_host_is_checked_before_an_upload_begins() -> None:
    """It undoes the switch if its verdict is late, and uploads take as long as they like."""
    rollout = Rollout([Member(name, "iad4", "node") for name in ("a", "b")])
    begun: list[str] = []
    uploads = threading.Event()

    def act(instruction: Instruction) -> AnyEvent:
        begun.append(f"{instruction.do} {instruction.host}")
        if instruction.do == "stage":
            uploads.set()
            return Staged(instruction.host)
        if begun[-1] == "gather b":
            return Planned("b", changes=True, stores=True, disturbs=True, serving=True)
        return attempt(instruction)

    def take(event: AnyEvent) -> list[Instruction]:
        if event == Switched("a"):
            uploads.wait(0.5)  # a thread that is free takes it by then
        return rollout.handle(event)

    carry_out(rollout, act, take, 1, threading.Event())
    assert begun.index("confirm a") < begun.index("stage b")
