"""The fleets whose sockets are attacked: one without keys and with all that connects in it, and one
with keys."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Self

from agent.client import Client
from agent.wire import directory as d
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.codec import encode
from agent.wire.operator import StatusRequest
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.page import GATEWAY
from fleet.testbed.testbed import DRS
from lab.chaos.fleet import SERVICE, SLO_MS, sensor
from lab.chaos.fleet import Fleet as HurtFleet
from testkit.waiting import wait_until
from tests.fuzz.connections import Door, Link
from tests.trust import rig
from tests.wire.samples import SAMPLES

WINDOW: Final = m.Window(last_s=60.0)
# Of messages what changes nothing: what they may do is for mutated frames to try.
TO_PUBLIC: Final = (encode(m.Query("q", ("b1",), WINDOW, m.Slo(99.0, 500.0), service="none")),)
TO_NODES: Final = (
    encode(nm.Heartbeat("boot")),
    encode(nm.SubtaskResult(9, "no_data", 0.0, 0.0)),
)
TO_OPERATOR: Final = (encode(StatusRequest()),)
TO_DRS: Final = (encode(d.LookUp("l", ("iad1", "none"))), encode(d.ListAccounts("a")))
TO_NODE: Final = (
    encode(nm.Welcome("boot", 1.0)),
    encode(nm.HelloWanted()),
    encode(nm.Subtask(9, WINDOW)),
)
TO_CLIENT: Final = (encode(SAMPLES["answer_last"]),)
TO_MASTER: Final = (encode(SAMPLES["task_result"]),)
FROM_DRS: Final = (encode(d.Denied("l", "not_ready", "")),)
CLIENT: Final = "client"
# A program that asks now and then, and reads only then.
ASKS: Final = f"""
import sys, time
from agent.client import Client, NoReplyError
from agent.wire.codec import WireError
with Client(sys.argv[1]) as client:
    while True:
        try:
            client.query(["b1"], last_s=5.0, timeout_ms=500.0, service="{SERVICE}")
        except (NoReplyError, WireError):  # An impostor says what it likes.
            pass
        time.sleep(0.2)
"""


class Plain:
    """Two masters with a node each, a registration service, a gateway and a client: sockets of this
    host, open to anybody there. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> Self:
        layout = part_of(building_fleet(emulate=False), 2, 1)
        first, second = [iad.name for iad in layout.iads]
        [node] = [each.name for each in layout.iads[0].nodes]
        self._areas = [each.area for each in layout.nodes]
        self._names = [first, second, *(each.name for each in layout.nodes), DRS, GATEWAY, CLIENT]
        with ExitStack() as stack:
            fleet = stack.enter_context(HurtFleet(layout, self._folder, sensor(0.25), market=True))
            self._bed = bed = fleet.bed
            self._client = stack.enter_context(Client(bed.public(first)))
            asked = fleet.network.route(CLIENT, first, bed.public(first))
            bed.add(CLIENT, [sys.executable, "-c", ASKS, asked])
            self.doors = (
                Door("public", bed.public(first), TO_PUBLIC),
                Door("operator", bed.operator(first), TO_OPERATOR),
                # Without keys its queue of 64 messages may be full when a connection is reset,
                # which may end the master: docs/decisions/0080-full-queues-and-resets.md
                Door("nodes", bed.nodes(first), TO_NODES, floods=False),
                Door("DRS", bed.directory_address, TO_DRS),
            )
            impersonate = fleet.network.impersonate
            self.links = (
                Link("a node's master", partial(impersonate, node, first), TO_NODE),
                Link("a client's master", partial(impersonate, CLIENT, first), TO_CLIENT),
                Link("a master's other", partial(impersonate, first, second), TO_MASTER),
                Link("a master's DRS", partial(impersonate, first, DRS), FROM_DRS),
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pids(self) -> dict[str, int]:
        """Those of all processes."""
        gone = self._bed.let_go()
        assert not gone, "\n".join(each.how_it_ended() for each in gone)
        return {name: self._bed.child(name).pid for name in self._names}

    def serves(self) -> None:
        """All are connected again, and a query of all areas is answered."""
        wait_until(self._apart, lambda apart: not apart, what="not connected again:")
        wait_until(self._ask, lambda answer: answer.status == "complete")

    def _apart(self) -> list[str]:
        """Who does not reach whom."""
        statuses = self._bed.statuses()
        found = [iad.name for iad in self._bed.plan.iads if iad.name not in statuses]
        for iad, status in statuses.items():
            found += [f"{iad} from {other}" for other in status.unreachable_iads]
            found += [f"{iad} from {DRS}"] * (not status.registered)
            live = any(each.state == "live" for each in status.nodes)
            found += [f"{iad} from its node"] * (not live)
        return found

    def _ask(self) -> m.Answer:
        return self._client.query(
            self._areas, last_s=5.0, latency_ms=SLO_MS, form="aggregate", service=SERVICE
        )


class Keyed:
    """Two masters with a node each, whose sockets want keys. A context manager."""

    links: Final = ()

    def __init__(self, folder: Path) -> None:
        self._fleet = rig.Fleet(folder, keyed=True)
        self.doors = tuple(
            Door(f"{name}, with keys", address, (), keyed=True)
            for name, address in self._fleet.sockets["iad1"].items()
        )

    def __enter__(self) -> Self:
        try:
            self._fleet.start()
        except BaseException:
            self._fleet.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._fleet.stop()

    def pids(self) -> dict[str, int]:
        """Those of all processes."""
        for name, process in self._fleet.processes.items():
            assert process.poll() is None, f"{name} ended: {self._fleet.said(name)}"
        return {name: process.pid for name, process in self._fleet.processes.items()}

    def serves(self) -> None:
        """A new client is let in, and its query is answered."""
        with self._fleet.client("iad1") as client:
            wait_until(partial(rig.ask, client), lambda answer: answer.status == "complete")


FLEETS: Final = (Plain, Keyed)
