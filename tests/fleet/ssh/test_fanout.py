"""Many hosts at a time."""

from __future__ import annotations

import itertools
import signal
import threading

import pytest

from fleet.inventory.model import Iad, Master, Node
from fleet.inventory.parties import HostOf
from fleet.ssh import ctrl_c, fanout
from fleet.ssh.errors import HostError
from fleet.ssh.fanout import for_each
from tests.fleet.ssh.pressing import pressed

IAD = Iad("i", Master("m"), node=tuple(Node(f"n{n}", "a", ("x",)) for n in range(20)))
HOSTS = [HostOf(IAD, node) for node in IAD.node]


def test_what_happens_on_a_host_stays_with_it() -> None:
    def work(host: HostOf) -> str:
        if host.name == "i/n3":
            raise HostError("dead", "no answer")
        if host.name == "i/n4":
            raise ValueError("odd")
        return host.name

    found = {each.host.name: each for each in for_each(HOSTS, work, parallel=4)}
    assert len(found) == 20
    errors = {name: str(each.error) for name, each in found.items() if each.error}
    assert errors.keys() == {"i/n3", "i/n4"}
    assert errors["i/n3"] == "no answer"
    assert errors["i/n4"].startswith("ValueError: odd; the traceback is in ")
    assert found["i/n5"].value == "i/n5"


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_ends_the_work_on_a_host_is_an_outcome(raised: BaseException) -> None:
    def work(host: HostOf) -> str:
        if host.name in {"i/n3", "i/n9"}:
            raise raised
        return host.name

    # In a thread of its own: if it hangs, so that this test fails instead of hanging.
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(for_each(HOSTS, work, parallel=2)))
    thread.daemon = True
    thread.start()
    thread.join(30)
    assert len(found) == 20


def test_a_dead_host_holds_up_nobody() -> None:
    """It answers only when all others have come."""
    others = threading.Event()

    def work(host: HostOf) -> str:
        if host.name == "i/n0":
            assert others.wait(60)
        return host.name

    order = []
    for each in for_each(HOSTS, work, parallel=2):
        order.append(each.host.name)
        if len(order) == 19:
            others.set()
    assert order[-1] == "i/n0"


def test_ctrl_c_begins_no_more_and_yields_what_was_under_way() -> None:
    begun: list[str] = []
    found: list[str] = []
    turn = threading.Semaphore(2)

    def work(host: HostOf) -> str:
        begun.append(host.name)
        assert turn.acquire(timeout=60)
        return host.name

    def run() -> None:
        for each in for_each(HOSTS, work, parallel=1):
            found.append(each.host.name)
            if len(found) == 2:  # while an outcome is being dealt with
                signal.raise_signal(signal.SIGINT)
            turn.release()

    with pressed(), pytest.raises(KeyboardInterrupt):
        run()
    assert found == begun
    assert 2 <= len(begun) <= 4


def interrupted_at(*instructions: int) -> int:
    """Work on two hosts, with Ctrl-C before these instructions of the loop; how many it had.
    What was begun is yielded, and that it was interrupted is not forgotten."""
    begun: list[str] = []
    found: list[str] = []
    raised = False

    def work(host: HostOf) -> str:
        begun.append(host.name)
        return host.name

    def run() -> None:
        found.extend(each.host.name for each in for_each(HOSTS[:2], work, parallel=1))

    with pressed(fanout, ctrl_c, at=instructions) as presser:
        try:
            run()
        except KeyboardInterrupt:
            raised = True
    assert found == begun, instructions
    assert raised == any(number <= presser.count for number in instructions), instructions
    return presser.count


def test_wherever_ctrl_c_comes_no_outcome_is_lost() -> None:
    for number in itertools.count(1):
        if interrupted_at(number) < number:
            break
    assert number > 100


def test_what_ctrl_c_does_besides_is_done_at_once() -> None:
    """As of `fleet exec`, whose hosts are told to end; and it is as before afterwards."""
    told = threading.Event()

    def usual(number: int, frame: object) -> None:
        told.set()
        raise KeyboardInterrupt

    def work(host: HostOf) -> None:
        signal.raise_signal(signal.SIGINT)
        assert told.wait(60)

    def run() -> None:
        errors.extend(each.error for each in for_each(HOSTS, work, parallel=1))

    errors: list[HostError | None] = []
    before = signal.signal(signal.SIGINT, usual)
    try:
        with pressed(), pytest.raises(KeyboardInterrupt):
            run()
        assert errors == [None]
        assert signal.getsignal(signal.SIGINT) is usual
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_says_what_it_waits_for() -> None:
    entered, left = threading.Event(), threading.Event()
    said: list[str] = []

    def work(_: HostOf) -> None:
        entered.set()
        left.wait()

    def say(text: str) -> None:
        said.append(text)
        left.set()

    def press() -> None:
        entered.wait()
        signal.raise_signal(signal.SIGINT)

    presses = threading.Thread(target=press)
    presses.start()
    with pressed(), pytest.raises(KeyboardInterrupt):
        list(for_each(HOSTS[:1], work, progress=fanout.Told(say)))
    presses.join()
    assert said == [fanout.WAITING]


def test_ctrl_c_waits_for_no_host_that_is_only_looked_at() -> None:
    entered, left = threading.Event(), threading.Event()

    def look(_: HostOf) -> None:
        entered.set()
        left.wait()

    def press() -> None:
        entered.wait()
        signal.raise_signal(signal.SIGINT)

    presses = threading.Thread(target=press)
    presses.start()
    try:
        with pressed(), pytest.raises(KeyboardInterrupt):
            list(for_each(HOSTS[:1], look, only_looks=True))
    finally:
        left.set()
        presses.join()


def test_nobody_is_nothing() -> None:
    assert list(for_each([], lambda host: host, parallel=5)) == []
