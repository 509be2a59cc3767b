"""Many hosts at a time."""

from __future__ import annotations

import queue
import threading

import pytest

from fleet.hosts import fanout
from fleet.hosts.errors import HostError
from fleet.hosts.fanout import for_each
from fleet.inventory.model import Iad, Master, Node
from fleet.inventory.parties import HostOf

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
    assert errors == {"i/n3": "no answer", "i/n4": "ValueError: odd"}
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


class Interrupting(queue.SimpleQueue):  # type: ignore[type-arg]
    """Ctrl-C comes while the third outcome is waited for."""

    calls = 0

    def get(self, block: bool = True, timeout: float | None = None) -> object:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().get(block, timeout)


def test_ctrl_c_begins_no_more_and_yields_what_was_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            turn.release()

    monkeypatch.setattr(fanout.queue, "SimpleQueue", Interrupting)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert found == begun
    assert 2 <= len(begun) <= 5


def test_nobody_is_nothing() -> None:
    assert list(for_each([], lambda host: host, parallel=5)) == []
