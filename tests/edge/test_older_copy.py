"""A node whose history was put back from an older copy: its events are new to the master."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.alerts.event_state import EventState
from agent.edge.events.forwarding import AGAIN_S, Forwarding
from agent.edge.events.outbox import Cut, Joined, Raised, Taken, Tick
from agent.edge.history.file import HistoryError
from agent.edge.history.history import History
from agent.runtime.disk_writer import InlineDiskWriter
from agent.wire.node_messages import NodeEvent, NodeEvents
from tests.master.event_ends import Card


def event(sequence: int, text: str) -> NodeEvent:
    return NodeEvent(sequence, "test", 0, synchronised=True, text=text)


class Master:
    """What a master knows of the events of node n1; `texts` are those that it recorded."""

    def __init__(self) -> None:
        self.state = EventState()
        self.texts: list[str] = []

    def take(self, message: NodeEvents) -> tuple[int, ...]:
        """Record what is new; the sequences to acknowledge."""
        new = [e for e in message.events if not self.state.knows("n1", message.history, e.sequence)]
        self.texts += [event.text for event in new]
        self.state.recorded([("n1", message)], [])
        return tuple(event.sequence for event in message.events)


class Node:
    """A node's history, and what forwards its events."""

    def __init__(
        self, path: Path, master: Master, boot: str, disk: InlineDiskWriter | Card | None = None
    ) -> None:
        self.history = History(path, boot, group_readings=4, commit_s=10, retention_s=1e6)
        self.master = master
        self.acknowledged: list[int] = []
        self.complaints: list[str] = []
        self.forwarding = Forwarding(
            self.history.events,
            lambda: self.history.id,
            boot,
            backlog_per_s=100.0,
            send=self._send,
            complain=self.complaints.append,
            disk=disk or InlineDiskWriter(),
            clock=lambda: 0.0,
        )

    def _send(self, message: NodeEvents) -> None:
        self.acknowledged += self.master.take(message)

    def raise_(self, *texts: str) -> None:
        for text in texts:
            self.history.events.add(
                monotonic_ms=0, kind="test", time_ms=0, synchronised=True, text=text
            )

    def join(self) -> None:
        """Join the master, and send all that waits."""
        known = self.master.state.extent("n1", self.history.id)
        self.forwarding.handle(Joined(True, *known), 0.0)
        for now in range(1, 5):
            self.forwarding.handle(Tick(), float(now))
            if self.acknowledged:
                taken, self.acknowledged = tuple(self.acknowledged), []
                self.forwarding.handle(Taken(taken), float(now))

    def close(self) -> list[str]:
        self.history.close()
        assert not self.complaints
        return self.history.notices()


def test_events_raised_after_a_copy_was_put_back_are_recorded(tmp_path: Path) -> None:
    path, copy, master = tmp_path / "h.sqlite", tmp_path / "copy", Master()
    node = Node(path, master, "boot-1")
    node.raise_("a", "b")
    node.join()
    node.close()
    shutil.copyfile(path, copy)
    node = Node(path, master, "boot-2")
    node.raise_("c", "d", "e")
    node.join()
    assert node.close() == []
    shutil.copyfile(copy, path)
    node = Node(path, master, "boot-3")
    node.raise_("f", "g")  # their sequences are those of c and d
    node.join()
    assert master.texts == ["a", "b", "c", "d", "e", "f", "g"]
    assert node.history.events.count == 0
    node.raise_("h")
    node.join()
    (line,) = node.close()
    assert line == (
        f"history {path} is an older copy: the master has its events up to 5, and it ends at 4; "
        "2 that wait have new numbers, and may come twice"
    )
    node = Node(path, master, "boot-4")
    node.raise_("i")
    node.join()
    assert node.close() == []
    assert master.texts[-2:] == ["h", "i"]


def test_of_two_hosts_with_one_card_each_has_its_events_recorded(tmp_path: Path) -> None:
    """Also where the second one has raised more than the first: its numbers are beyond. That the
    first's are settled the master hears with its next event."""
    paths, master = (tmp_path / "1.sqlite", tmp_path / "2.sqlite"), Master()
    node = Node(paths[0], master, "boot-1")
    node.raise_("a")
    node.join()
    node.close()
    shutil.copyfile(*paths)
    first, second = Node(paths[0], master, "boot-2"), Node(paths[1], master, "boot-3")
    first.raise_("b")
    first.join()
    first.raise_("c")
    first.join()
    second.raise_("d", "e", "f", "g")
    second.join()
    assert master.texts == ["a", "b", "c", "d", "e", "f", "g"]
    assert first.close() == []
    assert len(second.close()) == 1


def test_nothing_is_sent_under_numbers_that_others_had_while_the_disk_refuses_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, master = tmp_path / "h.sqlite", Master()
    node = Node(path, master, "boot-1")
    had = tuple(event(number, "had") for number in range(1, 6))
    master.take(NodeEvents("boot-0", node.history.id, had, oldest=1))
    node.raise_("c", "d")
    whole, full = node.history.events.number_anew, HistoryError("the disk is full")

    def refuses(settled: int, to: int) -> None:
        raise full

    monkeypatch.setattr(node.history.events, "number_anew", refuses)
    node.join()
    node.raise_("e")
    node.forwarding.handle(Raised((event(3, "e"),)), 5.0)
    monkeypatch.setattr(node.history.events, "number_anew", whole)
    assert (master.texts, node.complaints) == (["had"] * 5, [str(full)])
    assert node.forwarding.wake_at == AGAIN_S
    node.complaints.clear()
    for later in range(5):
        node.forwarding.handle(Tick(), AGAIN_S + later)
    assert master.texts == [*["had"] * 5, "c", "d", "e"]
    assert len(node.close()) == 1


def test_a_link_that_is_cut_joins_no_more_once_the_numbers_are_new(tmp_path: Path) -> None:
    path, master, card = tmp_path / "h.sqlite", Master(), Card()
    node = Node(path, master, "boot-1", card)
    node.raise_("c")
    card.hangs = True
    node.forwarding.handle(Joined(True, 0, 2), 0.0)
    node.forwarding.handle(Cut(), 0.0)
    card.hangs = False
    card.drain()
    assert node.history.events.oldest == 3
    for now in range(1, 5):
        node.forwarding.handle(Tick(), float(now))
    assert master.texts == []
    assert len(node.close()) == 1


@pytest.mark.parametrize("waiting", [(), ("c", "d")])
def test_a_history_that_goes_on_keeps_its_numbers(tmp_path: Path, waiting: tuple[str, ...]) -> None:
    path, master = tmp_path / "h.sqlite", Master()
    node = Node(path, master, "boot-1")
    node.raise_("a", "b", *waiting)
    message = NodeEvents(
        "boot-1", node.history.id, tuple(node.history.events.waiting(0, 9)), oldest=1
    )
    master.take(message)  # its acknowledgement was lost
    assert node.close() == []
    node = Node(path, master, "boot-2")
    node.join()
    assert node.close() == []
    assert node.history.events.last == 2 + len(waiting)
    assert master.texts == ["a", "b", *waiting]


def test_numbers_that_leave_no_room_are_believed_of_no_master(tmp_path: Path) -> None:
    node = Node(tmp_path / "h.sqlite", Master(), "boot-1")
    node.raise_("a")
    node.forwarding.handle(Joined(True, 0, 2**53 - 1), 0.0)
    assert [event.sequence for event in node.history.events.waiting(0, 9)] == [1]
    assert node.close() == []
