"""A real master whose disk is full: operators see what there is; changes are refused in words."""

from __future__ import annotations

import psutil
import pytest

from agent.client import Operator
from agent.master.storage.state import LATER, NOT_NOW
from agent.wire.clones import ListClones
from agent.wire.placement import SetPlacementMode, ShowPlacement
from agent.wire.topics import CreateTopic, ListTopics, RemoveTopic, Topic
from testkit.waiting import wait_until
from tests.master.push_rig import PushMaster
from tests.master.rig import PATIENCE_MS


def remove(operator):
    return operator.ask_topic(RemoveTopic("r", "one"), PATIENCE_MS).message


def freeze(operator):
    return operator.ask_placement(SetPlacementMode("f", "iad1", "frozen"), PATIENCE_MS).message


def create(operator):
    return operator.ask_topic(CreateTopic("c", Topic("three")), PATIENCE_MS).message


def limit_files(master, most_bytes):
    process = psutil.Process(master.process.pid)
    _, hard = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (most_bytes, hard))


@pytest.mark.parametrize("first", [remove, create, freeze])
def test_what_there_is_can_be_asked_while_the_disk_is_full(tmp_path, first):
    master = PushMaster(tmp_path / "iad1", "iad1")
    try:
        with Operator(master.operator) as operator:
            for name in ("one", "two"):
                assert operator.ask_topic(CreateTopic(name, Topic(name)), PATIENCE_MS).ok
            limit_files(master, 0)
            # Of the disk nobody knew yet that it is full.
            assert first(operator) == LATER
        with Operator(master.operator) as operator:
            refused = wait_until(
                lambda: operator.ask_topic(CreateTopic("c", Topic("two")), PATIENCE_MS),
                lambda report: not report.ok,
            )
            assert refused.message == NOT_NOW
            assert freeze(operator) == NOT_NOW
            topics = operator.ask_topic(ListTopics("l"), PATIENCE_MS).topics
            assert {each.topic.name for each in topics} >= {"two"}
            assert operator.ask_clone(ListClones("l"), PATIENCE_MS).ok
            assert operator.ask_placement(ShowPlacement("s"), PATIENCE_MS).iad == "iad1"
            limit_files(master, psutil.RLIM_INFINITY)
            wait_until(
                lambda: operator.ask_topic(CreateTopic("t", Topic("three")), PATIENCE_MS),
                lambda report: report.ok,
            )
            topics = operator.ask_topic(ListTopics("l"), PATIENCE_MS).topics
            left = {"two", "three"} if first is remove else {"one", "two", "three"}
            assert {each.topic.name for each in topics} == left
            own = operator.ask_placement(ShowPlacement("s"), PATIENCE_MS).known[0]
            assert own.facts.mode == ("frozen" if first is freeze else "open")
    finally:
        master.stop()


def test_lines_about_records_name_their_master(tmp_path):
    (tmp_path / "iad1" / "records" / "current.jsonl").mkdir(parents=True)
    master = PushMaster(tmp_path / "iad1", "iad1", overlay='[records]\ndirectory = "records"\n')
    _, said = master.stop()
    lines = said.splitlines()
    assert any("current.jsonl: Is a directory" in line for line in lines)
    assert all(line.startswith("sanderling-master iad1: ") for line in lines)
