"""Outages of masters, connections and clocks: afterwards each thing is at one place, and each query
was answered once. `make fuzz` runs as many histories as wanted."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from agent.wire.topics import CreateTopic, RemoveTopic, Topic
from tests.fuzz import outages
from tests.fuzz.campaign import Finding
from tests.fuzz.outages import run
from tests.fuzz.world import World

SERIES = [
    ("ci", 100),
    *(pytest.param(f"ci {n}", 400, marks=pytest.mark.long) for n in range(1, 9)),
]


@pytest.mark.parametrize(("seed", "actions"), SERIES)
def test_after_outages_each_thing_is_at_one_place(tmp_path, seed, actions):
    assert run(tmp_path, actions, seed) > 0


def test_without_outages_too(tmp_path):
    assert run(tmp_path, 100, "ci", share=0.0) == 0


def test_a_seed_gives_the_same_history_again(tmp_path, monkeypatch):
    def frames():
        seen = hashlib.sha256()

        def put(world, channel, frame, deliver):
            seen.update(channel.encode() + frame)
            send(world, channel, frame, deliver)

        monkeypatch.setattr(World, "put", put)
        folder = tmp_path / "same"  # it is in the addresses
        folder.mkdir()
        run(folder, 40, "again", share=0.3)
        shutil.rmtree(folder)
        return seen.hexdigest()

    send = World.put
    assert frames() == frames()


def test_a_topic_at_two_masters_is_found(tmp_path, monkeypatch):
    def twice(world):
        for iad in ("iad2", "iad3"):
            world.masters[iad].ask(RemoveTopic("r", "twice"))
            world.masters[iad]._world.masters[iad].master._topics.elsewhere = dict
            world.masters[iad].ask(CreateTopic("c", Topic("twice")))
        return seen(world)

    seen = outages.unrest
    monkeypatch.setattr(outages, "unrest", twice)
    with pytest.raises(Finding, match=r"topic twice is at \['iad2', 'iad3'\]"):
        run(tmp_path, 5, "x")
