"""A master whose state is put back from an older copy, under a stream of messages: what its topics
put out reaches subscribers, and one that moved away since lives at one master."""

from __future__ import annotations

import shutil
import signal

import pytest

from agent.wire.topics import ListTopics, Topic
from testkit.agent_process import AgentProcess
from tests.master.handover_masters import Masters
from tests.master.moves.test_handover_process import Stream
from tests.master.worker_rig import package

CODE = """
def count(message, state):
    state["seen"] = state.get("seen", 0) + 1
    return [{"n": message["n"], "seen": state["seen"]}]
"""


@pytest.fixture
def masters(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(package(tmp_path / "acme", CODE, count="acme:count")))
    masters = Masters(tmp_path)
    yield masters
    masters.stop()


class Copied:
    """The topic at `a`, and a copy of the state of `a`."""

    def __init__(self, masters, context, copy):
        self.masters, self.copy = masters, copy
        masters.create("a", Topic("counted", processor="count"))
        self.stream = Stream(context, masters)
        self.more(5)
        masters["a"].stop(signal.SIGKILL)
        shutil.copytree(masters["a"].folder, copy)
        AgentProcess.start(masters["a"])
        self.more(20)

    def more(self, count):
        """So many messages more, each of which is put out."""
        self.stream.publish(count)
        wanted = {float(n) for n in range(self.stream.publisher.number)}
        assert self.stream.until(lambda: {n for n, _ in self.stream.outputs.got} >= wanted)

    def put_back(self):
        folder = self.masters["a"].folder
        self.masters["a"].stop(signal.SIGKILL)
        shutil.rmtree(folder)
        shutil.copytree(self.copy, folder)
        AgentProcess.start(self.masters["a"])


@pytest.mark.long
def test_what_a_topic_puts_out_after_that_reaches_subscribers(masters, context, tmp_path):
    copied = Copied(masters, context, tmp_path / "copy")
    copied.put_back()
    copied.more(20)


@pytest.mark.long
def test_a_topic_that_moved_away_since_is_let_go(masters, context, tmp_path):
    copied = Copied(masters, context, tmp_path / "copy")
    copied.stream.move("a", "b")
    copied.put_back()
    # It works there until the other tells.
    found = lambda: masters.ask("a", ListTopics("l")).moved == {"counted": "b"}  # noqa: E731
    assert copied.stream.until(found)
    assert masters.homes("counted") == ["b"]
    before = len(copied.stream.outputs.got)
    copied.more(20)
    # Nothing more is doubled.
    later = [n for n, _ in copied.stream.outputs.got[before:]]
    assert sorted(later)[-20:] == sorted({*later})[-20:]
