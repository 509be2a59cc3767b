"""The masters of a run, the devices at them, and what is asked of their clones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from agent.overlay.scot import BrokerId
from agent.placement.lifecycle import ENDED
from agent.placement.view import View
from agent.wire import master_config as config
from agent.wire.clones import CloneOf, CloneReport, CreateClone, ListClones
from agent.wire.placement import PlacementFacts, ShowPlacement
from fleet.inventory.overlay_plan import OverlayPlan
from lab.placement.flock import counting
from lab.placement.flock.devices import Devices
from lab.placement.flock.world import Setting, World, node
from lab.placement.masters import ANSWER_MS, PATIENCE_S, MastersError, RealMasters

BUSY: Final = "no answer"


def area(home: str, number: int) -> str:
    """Where a device is."""
    return f"b1/{home}/r{number}"


class Masters(RealMasters):
    """The masters of `world`, each a neighbour of every other, and the devices at them."""

    def __init__(self, world: World, setting: Setting, folder: Path) -> None:
        self.world = world
        self._setting = setting
        vertex = {iad: BrokerId("v", n) for n, iad in enumerate(world.iads)}
        sections = {
            # Simulated devices send no heartbeats.
            "liveness": config.MasterLiveness(heartbeat_s=3_600.0),
            "processing": config.MasterProcessing(workers=1),
            "placement": config.MasterPlacement(
                drift=True,
                move_cost=setting.move_cost,
                most_processors=world.room,
                every_s=setting.round_s,
            ),
        }
        super().__init__(folder, OverlayPlan((), len(vertex), vertex), world.ways_s, sections)

    def command(self) -> list[str]:
        """With the clones' processor, which is another package's."""
        known = counting.install(self.folder / "processor")
        path = os.pathsep.join(
            [str(known.absolute()), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        return ["env", f"PYTHONPATH={path}", *super().command()]

    def populate(self, stack: ExitStack) -> None:
        """Start the devices, and wait until their masters know them."""
        devices = Devices()
        stack.callback(devices.close)
        homes = self.world.homes
        for number, home in enumerate(homes):
            devices.add(self.ipc(home, "nodes"), node(number), area(home, number))
        devices.start()
        self.wait(lambda iad, status: len(status.nodes) == homes.count(iad), "their devices")

    # --- questions -------------------------------------------------------------------------------

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
                raise MastersError(f"{home}: {report.message}")

    def clones(self) -> Iterator[CloneReport]:
        """What each home says of the clones of its devices."""
        for iad in self.iads:
            with self.operator(iad) as operator:
                yield operator.ask_clone(ListClones("list"), ANSWER_MS)

    def facts(self) -> list[PlacementFacts]:
        """What each master measures now."""
        found = []
        for iad in self.iads:
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
        for iad in self.iads:
            with self.operator(iad) as operator:
                report = operator.ask_placement(ShowPlacement("show"), ANSWER_MS)
            found += sum(each.state not in ENDED for each in report.moves)
        return found
