"""What crosses an IAD's border, in the bytes on the wire: design's "Never" list does not."""

import re
from typing import get_args

import msgspec
import pytest

from agent.wire import codec
from agent.wire import messages as m
from agent.wire.clones import ResolveClones
from agent.wire.directory import DirectoryRequest
from agent.wire.market import MarketReply, MarketRequest
from agent.wire.messages import Query
from agent.wire.push import PushRequest
from agent.wire.topics import Publish
from agent.wire.unions import ClientReply, PublicReply, PublicRequest
from agent.wire.watches import WatchRequest
from testkit.waiting import PATIENCE_MS
from tests.trust.border import (
    ALLOWED,
    COUNTS_VERSIONS,
    FORBIDDEN,
    TO_DIRECTORY,
    TO_NEIGHBOUR,
    TO_PARTNER,
    decoded,
    keys_of,
    names_in,
    texts_of,
)
from tests.trust.rig import IADS, NODES, ROOMS, ask
from tests.trust.tap import Tap


@pytest.fixture
def tapped(fleet):
    """Starts a fleet whose masters reach each other through taps."""
    taps = []

    def tapped(*, keyed):
        made = fleet(keyed=keyed)
        for iad in IADS:
            taps.append(Tap(made.sockets[iad]["public"]))
            made.via[iad] = taps[-1].address
        made.start()
        return made, taps

    yield tapped
    for tap in taps:
        tap.close()


def traffic(fleet):
    """Queries of every kind that make masters talk: answered, aggregated, refused, given up."""
    for iad in IADS:
        with fleet.client(iad) as client:
            assert ask(client).coverage == m.Coverage(2, 2)
            client.query(["b1"], last_s=60, form="aggregate", latency_ms=5_000)
            client.query(["b1"], last_s=60, latency_ms=5_000, channels=["pressure"])
            client.query(["b1/f4/r1", "b1/f5/r1"], last_s=60, latency_ms=5_000)
            slo = m.Slo(99.0, 0.01)
            client.send(m.Query("late", ("b1",), m.Window(last_s=1), slo, timeout_ms=0.01))
            client.receive(PATIENCE_MS)
            client.query(["b1"], last_s=60, latency_ms=5_000, service="none")
    fleet.wait_until("iad1", lambda s: not s.open_tasks)


def test_nothing_about_nodes_is_in_the_bytes_between_masters(tapped):
    fleet, taps = tapped(keyed=False)
    traffic(fleet)
    # The queries with nodes gone: the partial results of an IAD in trouble.
    for name in NODES.values():
        fleet.processes[name].kill()
    for iad in IADS:
        fleet.wait_until(iad, lambda s: s.nodes[0].state == "lost")
    for iad in IADS:
        with fleet.client(iad) as client:
            assert ask(client).missing
    seen = b"".join(tap.bytes for tap in taps)
    assert all(room.encode() in seen for room in ROOMS.values())  # it can be read

    for iad in IADS:
        assert NODES[iad].encode() not in seen
        for kind in ("nodes", "operator"):
            assert fleet.sockets[iad][kind].removeprefix("tcp://").encode() not in seen
            assert fleet.sockets[iad][kind].rpartition(":")[2].encode() not in seen
    assert not re.findall(rb"\d+\.\d+\.\d+\.\d+:\d+", seen)

    kinds = decoded(taps)
    assert {"task", "task_result"} <= set(kinds)
    assert len(kinds["task_result"]) >= 8
    for kind, found in kinds.items():
        for message in found:
            assert keys_of(message) <= ALLOWED[kind], kind
            assert not keys_of(message) & (FORBIDDEN - ALLOWED[kind])
            for text in texts_of(message):
                assert not any(name in text for name in NODES.values())
    # One time for the whole task, and no more numbers than the schema has.
    for result in kinds["task_result"]:
        assert set(result) <= {f.name for f in msgspec.structs.fields(m.TaskResult)} | {"type"}


def test_the_schemas_have_no_room_for_nodes():
    """The lists of names are the whole of the messages, and none is the operator's."""
    masters = (m.Task, m.TaskResult, m.CancelTask, *MarketRequest.__args__, *MarketReply.__args__)
    requests = DirectoryRequest.__args__
    assert {kind.__struct_config__.tag for kind in masters} == ALLOWED.keys()
    assert {kind.__struct_config__.tag for kind in requests} == TO_DIRECTORY.keys()
    channels = {"temperature", "humidity"}
    innocent = {"id", "status", "message", "missing"}
    for kind in (*masters, *requests):
        tag = kind.__struct_config__.tag
        allowed = (ALLOWED | TO_DIRECTORY)[tag]
        assert names_in(kind) | {"type"} == allowed - channels, tag
        counted = {"version"} if tag in COUNTS_VERSIONS else set()
        assert not allowed & (FORBIDDEN - innocent - counted), tag


def test_every_message_between_masters_has_its_list_of_names():
    """Whatever the public socket takes or sends, and is not a client's, is listed."""
    clients = {*get_args(Query | WatchRequest | PushRequest | Publish), *get_args(ClientReply)}
    masters = {*get_args(PublicRequest), *get_args(PublicReply)} - clients
    kinds = {kind.__struct_config__.tag: kind for kind in masters}
    assert kinds.keys() == ALLOWED.keys() | TO_NEIGHBOUR.keys() | TO_PARTNER.keys()
    for tag, allowed in TO_PARTNER.items():
        assert names_in(kinds[tag]) | {"type"} == allowed, tag
        assert not allowed & (FORBIDDEN - {"message"}), tag


def test_devices_of_partners_are_asked_for_by_digests():
    decode = codec.Decoder(PublicRequest).decode
    question = ResolveClones("q", "iad2", ("0" * 64,))
    assert decode(codec.encode(question))[0] == question
    with pytest.raises(codec.WireError, match="matching regex"):
        decode(codec.encode(ResolveClones("q", "iad2", ("iad2/n3",))))


def test_with_keys_not_even_areas_can_be_read(tapped):
    fleet, taps = tapped(keyed=True)
    traffic(fleet)
    seen = b"".join(tap.bytes for tap in taps)
    assert len(seen) > 20_000
    assert b"CURVE" in seen
    words = [*ROOMS.values(), *IADS.values(), *NODES.values(), "task_result", "temperature"]
    assert [word for word in words if word.encode() in seen] == []
