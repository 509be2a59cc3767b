"""Real masters of one pool, each as far from every other as a run says."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Self

from msgspec.structs import replace

from agent.client import NoReplyError, Operator
from agent.wire import master_config as config
from agent.wire.config import Section
from agent.wire.operator import IadStatus
from agent.wire.records import AnyRecord, MoveRecord
from fleet.common.toml import dump
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed import processes
from fleet.testbed.ports import free_address
from fleet.testbed.run_records import read_records
from testkit.network import Network

PATIENCE_S: Final = 300.0
STOP_S: Final = 20.0
LOOK_EVERY_S: Final = 0.25
ANSWER_MS: Final = 60_000.0
FILES: Final = 16_384


class MastersError(RuntimeError):
    """The masters did not do what was requested; one line says what."""


class RealMasters:
    """Masters with their files below `folder`, laid out as those of any run on this machine. A
    context manager: leaving it stops all. `ways_s`: one way between two of them; `sections`: what
    their configurations have besides."""

    def __init__(
        self,
        folder: Path,
        overlay: OverlayPlan,
        ways_s: Mapping[tuple[str, str], float],
        sections: Mapping[str, Section],
    ) -> None:
        self.folder = folder
        self.iads: Sequence[str] = tuple(overlay.places)
        self._overlay = overlay
        self._ways_s = ways_s
        self._sections = sections
        self._own = {iad: free_address() for iad in self.iads}
        self._stack = ExitStack()
        self._children: dict[str, processes.Child] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        _allow_files()
        with ExitStack() as stack:
            self._network = stack.enter_context(Network())
            self._sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="masters-"))
            self._start(stack)
            self.wait(self._linked, "links to all neighbours")
            self.populate(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def populate(self, stack: ExitStack) -> None:
        """Start what a run has besides, once the masters are linked; `stack` ends it."""

    def command(self) -> list[str]:
        """What starts a master, without its arguments."""
        return processes.agent_command("sanderling-master")

    def _start(self, stack: ExitStack) -> None:
        command = self.command()
        leash = processes.Leash()
        stack.callback(leash.drop)
        with processes.interrupts_deferred():
            stack.callback(lambda: processes.stop(self._children.values(), STOP_S))
            for iad in self.iads:
                folder = self.folder / iad
                folder.mkdir()
                (folder / "config.toml").write_text(dump(self._config(iad)), encoding="utf-8")
                words = [*command, "--config", str(folder / "config.toml"), "--exit-on-stdin-eof"]
                self._children[iad] = processes.Child(iad, words, folder / "log", leash)

    def _config(self, iad: str) -> config.MasterConfig:
        own = self._own
        near = {
            other: self._network.route(iad, other, own[other], self._ways_s[iad, other])
            for other in self.iads
            if other != iad
        }
        near[iad] = own[iad]
        pool = [config.PoolMember(other, near[other], (f"b1/{other}",)) for other in near]
        common = config.MasterConfig(
            iad=config.MasterIdentity(name=iad),
            sockets=config.MasterSockets(
                public=own[iad],
                nodes=self.ipc(iad, "nodes"),
                operator=self.ipc(iad, "operator"),
            ),
            pool=tuple(pool),
            overlay=self._overlay.section(iad, lambda other: (near[other], "")),
            records=config.MasterRecords(flush_s=0.5),
        )
        return replace(common, **self._sections)

    def ipc(self, iad: str, name: str) -> str:
        """The address of one of its sockets for this machine."""
        return f"ipc://{self._sockets}/{iad}-{name}"

    def _linked(self, iad: str, status: IadStatus) -> bool:
        links = len(self._overlay.neighbours(iad))
        return status.counters["overlay_links_up"] == links and not status.unreachable_iads

    # --- questions -------------------------------------------------------------------------------

    def public(self, iad: str) -> str:
        """Where clients of its IAD reach it."""
        return self._own[iad]

    def operator(self, iad: str) -> Operator:
        """A connection for its operator."""
        return Operator(self.ipc(iad, "operator"))

    def wait(self, holds: Callable[[str, IadStatus], bool], what: str) -> None:
        """Wait until this holds for all masters; MastersError if one ends, or it takes too long."""
        give_up_s = time.monotonic() + PATIENCE_S
        for iad in self.iads:
            while True:
                self.check()
                with suppress(NoReplyError), self.operator(iad) as operator:
                    if holds(iad, operator.status(ANSWER_MS)):
                        break
                if time.monotonic() > give_up_s:
                    raise MastersError(f"{iad} has not {what} after {PATIENCE_S:g} s")
                time.sleep(LOOK_EVERY_S)

    def check(self) -> None:
        """MastersError if a master has ended."""
        for child in self._children.values():
            if not child.running:
                raise MastersError(child.how_it_ended())

    def records(self, iad: str) -> Iterator[AnyRecord]:
        """What a master has recorded so far."""
        return read_records(self.folder / iad / "records")

    def moves(self) -> list[MoveRecord]:
        """The moves that have ended, from all masters' records."""
        return [
            record
            for iad in self.iads
            for record in self.records(iad)
            if isinstance(record, MoveRecord)
        ]


def _allow_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
