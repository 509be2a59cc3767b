"""The real masters of a run, each as far from every other as its world says."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from agent.client import NoReplyError, Operator
from agent.overlay.scot import BrokerId
from agent.placement.view import View
from agent.wire import master_config as config
from agent.wire.clones import CloneOf, CloneReport, CreateClone, ListClones
from agent.wire.operator import IadStatus
from agent.wire.placement import PlacementFacts, ShowPlacement
from agent.wire.records import MoveRecord
from fleet.common.toml import dump
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed import processes
from fleet.testbed.ports import free_address
from fleet.testbed.run_records import read_records
from lab.placement.flock import counting
from lab.placement.flock.devices import Devices
from lab.placement.flock.world import Setting, World, node
from testkit.network import Network

PATIENCE_S: Final = 300.0
STOP_S: Final = 20.0
LOOK_EVERY_S: Final = 0.25
ANSWER_MS: Final = 60_000.0
BUSY: Final = "no answer"
FILES: Final = 16_384


class FlockError(RuntimeError):
    """The masters did not do what was requested; one line says what."""


def area(home: str, number: int) -> str:
    """Where a device is."""
    return f"b1/{home}/r{number}"


class Masters:
    """Masters with their files below `folder`, and the devices of `world` at them. A context
    manager: leaving it stops all."""

    def __init__(self, world: World, setting: Setting, folder: Path) -> None:
        self.world = world
        self._setting = setting
        self._folder = folder
        vertex = {iad: BrokerId("v", n) for n, iad in enumerate(world.iads)}
        self._overlay = OverlayPlan((), len(vertex), vertex)
        self._own = {iad: free_address() for iad in world.iads}
        self._stack = ExitStack()
        self._children: dict[str, processes.Child] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        _allow_files()
        with ExitStack() as stack:
            self._network = stack.enter_context(Network())
            path = stack.enter_context(tempfile.TemporaryDirectory(prefix="flock-"))
            self._sockets = path
            self._start(stack)
            self.wait(self._linked, "links to all neighbours")
            devices = Devices()
            stack.callback(devices.close)
            for number, home in enumerate(self.world.homes):
                devices.add(self._ipc(home, "nodes"), node(number), area(home, number))
            devices.start()
            homes = self.world.homes
            self.wait(lambda iad, status: len(status.nodes) == homes.count(iad), "their devices")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        known = counting.install(self._folder / "processor")
        path = os.pathsep.join(
            [str(known.absolute()), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        command = ["env", f"PYTHONPATH={path}", *processes.agent_command("sanderling-master")]
        leash = processes.Leash()
        stack.callback(leash.drop)
        with processes.interrupts_deferred():
            stack.callback(lambda: processes.stop(self._children.values(), STOP_S))
            for iad in self.world.iads:
                folder = self._folder / iad
                folder.mkdir()
                (folder / "config.toml").write_text(dump(self._config(iad)), encoding="utf-8")
                words = [*command, "--config", str(folder / "config.toml"), "--exit-on-stdin-eof"]
                self._children[iad] = processes.Child(iad, words, folder / "log", leash)

    def _config(self, iad: str) -> config.MasterConfig:
        setting, own = self._setting, self._own
        near = {
            other: self._network.route(iad, other, own[other], self.world.ways_s[iad, other])
            for other in self.world.iads
            if other != iad
        }
        near[iad] = own[iad]
        pool = [config.PoolMember(other, near[other], (f"b1/{other}",)) for other in near]
        return config.MasterConfig(
            iad=config.MasterIdentity(name=iad),
            sockets=config.MasterSockets(
                public=own[iad],
                nodes=self._ipc(iad, "nodes"),
                operator=self._ipc(iad, "operator"),
            ),
            pool=tuple(pool),
            overlay=self._overlay.section(iad, lambda other: (near[other], "")),
            # Simulated devices send no heartbeats.
            liveness=config.MasterLiveness(heartbeat_s=3_600.0),
            records=config.MasterRecords(flush_s=0.5),
            processing=config.MasterProcessing(workers=1),
            placement=config.MasterPlacement(
                drift=True,
                move_cost=setting.move_cost,
                most_processors=self.world.room,
                every_s=setting.round_s,
            ),
        )

    def _ipc(self, iad: str, name: str) -> str:
        return f"ipc://{self._sockets}/{iad}-{name}"

    def _linked(self, _iad: str, status: IadStatus) -> bool:
        links = len(self.world.iads) - 1
        return status.counters["overlay_links_up"] == links and not status.unreachable_iads

    # --- questions -------------------------------------------------------------------------------

    def public(self, iad: str) -> str:
        """Where clients of its IAD reach it."""
        return self._own[iad]

    def operator(self, iad: str) -> Operator:
        """A connection for its operator."""
        return Operator(self._ipc(iad, "operator"))

    def wait(self, holds: Callable[[str, IadStatus], bool], what: str) -> None:
        """Wait until this holds for all masters; FlockError if one ends, or it takes too long."""
        give_up_s = time.monotonic() + PATIENCE_S
        for iad in self.world.iads:
            while True:
                self.check()
                with suppress(NoReplyError), self.operator(iad) as operator:
                    if holds(iad, operator.status(ANSWER_MS)):
                        break
                if time.monotonic() > give_up_s:
                    raise FlockError(f"{iad} has not {what} after {PATIENCE_S:g} s")
                time.sleep(LOOK_EVERY_S)

    def check(self) -> None:
        """FlockError if a master has ended."""
        for child in self._children.values():
            if not child.running:
                raise FlockError(child.how_it_ended())

    def create(self, number: int) -> str:
        """Have the clone of a device created at its home; returns its topic."""
        world, home = self.world, self.world.homes[number]
        clone = CloneOf(
            world.device(number),
            counting.NAME,
            every_s=self._setting.every_s,
            channels=(counting.CHANNEL,),
            peers=tuple([world.device(each) for each in world.peers[number]]),
            leaves=True,
        )
        give_up_s = time.monotonic() + PATIENCE_S
        while True:
            with self.operator(home) as operator:
                report = operator.ask_clone(CreateClone("create", clone), ANSWER_MS)
            if report.ok:
                return report.clones[0].topic
            # Its peers' homes may be busy; the same again changes nothing.
            if not report.message.startswith(BUSY) or time.monotonic() > give_up_s:
                raise FlockError(f"{home}: {report.message}")

    def clones(self) -> Iterator[CloneReport]:
        """What each home says of the clones of its devices."""
        for iad in self.world.iads:
            with self.operator(iad) as operator:
                yield operator.ask_clone(ListClones("list"), ANSWER_MS)

    def facts(self) -> list[PlacementFacts]:
        """What each master measures now."""
        found = []
        for iad in self.world.iads:
            with self.operator(iad) as operator:
                report = operator.ask_placement(ShowPlacement("show"), ANSWER_MS)
            found.append(report.known[0].facts)
        return found

    def view(self) -> View:
        """The placement as somebody sees it who knows what all masters measure."""
        return View(self.facts())

    def under_way(self) -> int:
        """Moves that wait or are under way."""
        found = 0
        for iad in self.world.iads:
            with self.operator(iad) as operator:
                report = operator.ask_placement(ShowPlacement("show"), ANSWER_MS)
            found += sum(each.state not in ("settled", "aborted") for each in report.moves)
        return found

    def moves(self) -> list[MoveRecord]:
        """The moves that have ended, from the masters' records."""
        return [
            record
            for iad in self.world.iads
            for record in read_records(self._folder / iad / "records")
            if isinstance(record, MoveRecord)
        ]


def _allow_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
