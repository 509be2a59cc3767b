"""`fleet reboot`: reboots a few hosts at a time and waits for each, in the order and within the
limits of a rollout (fleet/rollout/rollout.py)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from msgspec import Struct

from fleet.common import crash_reports, exits
from fleet.inspect.facts import gather
from fleet.inspect.facts.facts import Facts
from fleet.inspect.look import ask_iads
from fleet.inspect.remote import Stream, stream
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.inventory.targets import logged_in_to
from fleet.rollout.events import (
    AnyEvent,
    Confirmed,
    Do,
    Failed,
    Healthy,
    Instruction,
    Planned,
    Switched,
)
from fleet.rollout.rollout import Member, Rollout, Share
from fleet.rollout.workers import carry_out
from fleet.ssh.connect import open_host
from fleet.ssh.errors import HostError
from fleet.terminal.output import confirm, say, write_json
from fleet.terminal.units import counted

Outcome = Literal["rebooted", "failed", "not_back", "skipped"]
OUTCOMES: Final[dict[str, Outcome]] = {
    "changed": "rebooted",
    "failed": "failed",
    "lost": "not_back",
    "skipped": "skipped",
}
FORLORN: Final = "its master came to no good; leave that one out with --limit '!IAD/master'"
ASK_EVERY_S: Final = 2.0
MASTER_MS: Final = 3_000.0
# Patience after the reboot was requested; the connection may close before the command's end is
# reported.
ORDER_S: Final = 20.0
MAX_SAID: Final = 4_096  # of what a host says of it, the end


class HostReboot(Struct, frozen=True):
    """Result of one host."""

    host: str
    outcome: Outcome
    seconds: float = 0.0
    reason: str = ""


class RebootReport(Struct, frozen=True):
    """The document of `fleet reboot --json`; `stopped` says why further reboots were not
    started."""

    hosts: tuple[HostReboot, ...]
    stopped: str = ""


class Options(NamedTuple):
    """How it is gone about."""

    serial: Share
    max_fail: Share
    patience_s: float
    parallel: int
    yes: bool
    as_json: bool


class Acts(Protocol):
    """Operations on hosts; each method raises HostError."""

    def before(self, host: HostOf) -> None:
        """Remember how it is."""

    def restart(self, host: HostOf) -> None:
        """Have it start again."""

    def await_back(self, host: HostOf) -> None:
        """Return when it has rebooted and, if it served before, serves again."""


def run(folder: Folder, fleet: Inventory, hosts: Sequence[HostOf], options: Options) -> int:
    """Confirm, reboot, print the report on stdout; returns the exit status."""
    hosts = logged_in_to(hosts)
    if not hosts:
        return exits.fail("no host is left to log in to", exits.NOTHING)
    nodes = "1 node" if str(options.serial) == "1" else f"{options.serial} nodes"
    asked = f"Reboot {counted(len(hosts), 'host')}, {nodes} at a time?"
    if not confirm(asked, yes=options.yes):
        return exits.fail("nothing was done", exits.NOTHING)
    report = reboot(hosts, _Real(folder, fleet, options.patience_s), options, say)
    if options.as_json:
        write_json(report)
    return status_of(report)


def status_of(report: RebootReport) -> int:
    """0 if all are back, 5 if none was rebooted, otherwise 1."""
    outcomes = [host.outcome for host in report.hosts]
    if all(outcome == "rebooted" for outcome in outcomes):
        return exits.DONE
    touched = any(outcome in ("rebooted", "not_back") for outcome in outcomes)
    return exits.FAILED if touched else exits.NOTHING


def reboot(
    hosts: Sequence[HostOf], acts: Acts, options: Options, tell: Callable[[str], None]
) -> RebootReport:
    """Run until every host is finished. Ctrl-C starts no more reboots; a second one is raised."""
    rollout = Rollout([_member(host) for host in hosts], options.serial, options.max_fail)
    by_name = {host.name: host for host in hosts}
    course = _Course(rollout, tell)
    stopping = threading.Event()

    def attempt(instruction: Instruction) -> AnyEvent:
        return _attempt(acts, by_name[instruction.host], instruction.do)

    carry_out(rollout, attempt, course.take, min(options.parallel, len(hosts)), stopping)
    if rollout.stopped:
        tell(f"stopped: {rollout.stopped}")
    if stopping.is_set():
        raise KeyboardInterrupt
    return RebootReport(tuple([course.report(host.name) for host in hosts]), rollout.stopped)


class _Course:
    """Passes events to the rollout, and prints progress."""

    def __init__(self, rollout: Rollout, tell: Callable[[str], None]) -> None:
        self._rollout, self._tell = rollout, tell
        self._begun_s: dict[str, float] = {}
        self._seconds: dict[str, float] = {}

    def take(self, event: AnyEvent) -> list[Instruction]:
        """Handle an event; returns the next instructions."""
        now_s = time.monotonic()
        told = set(self._rollout.results)
        instructions = self._rollout.handle(event)
        for name in self._rollout.results.keys() - told:
            self._seconds[name] = now_s - self._begun_s.get(name, now_s)
            report = self.report(name)
            said = f": {report.reason}" if report.reason else ""
            if report.outcome == "rebooted":
                self._tell(f"{name}: back after {report.seconds:.0f} s")
            else:
                self._tell(f"{name}: {report.outcome.replace('_', ' ')}{said}")
        for instruction in instructions:
            if instruction.do == "switch":
                self._begun_s[instruction.host] = now_s
                self._tell(f"{instruction.host}: starts again")
        return instructions

    def report(self, name: str) -> HostReboot:
        """How it ended for a host."""
        result = self._rollout.results[name]
        seconds = round(self._seconds.get(name, 0.0), 1)
        reason = result.reason
        if result.outcome == "skipped":
            reason = self._rollout.stopped or FORLORN
        return HostReboot(name, OUTCOMES[result.outcome], seconds, reason)


def _attempt(acts: Acts, host: HostOf, do: Do) -> AnyEvent:
    """Execute an instruction and return its outcome. A host that does not come back is lost: there
    is nothing to roll back to."""
    name = host.name
    if do == "gather":
        acts.before(host)
        # A host that did not serve before counts, too: `serial` limits all reboots.
        return Planned(name, changes=True, disturbs=True, serving=True)
    if do == "switch":
        acts.restart(host)
        return Switched(name)
    if do == "check":
        try:
            acts.await_back(host)
        except HostError as error:
            return Failed(name, "lost", str(error))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not known to be back
            return Failed(name, "lost", crash_reports.told(error))
        return Healthy(name)
    return Confirmed(name)


def _member(host: HostOf) -> Member:
    if host.node is None:
        return Member(host.name, host.iad.name, "master")
    return Member(host.name, host.iad.name, "node", areas=frozenset(host.node.areas))


class _Real:
    """Hosts reached over SSH, and their masters."""

    def __init__(self, folder: Folder, fleet: Inventory, patience_s: float) -> None:
        self._folder, self._fleet, self._patience_s = folder, fleet, patience_s
        self._boots: dict[str, str] = {}
        self._served: dict[str, bool] = {}

    def before(self, host: HostOf) -> None:
        facts = self._facts(host)
        self._boots[host.name] = facts.boot_id
        self._served[host.name] = _runs(facts, host) and self._known_live(host)

    def restart(self, host: HostOf) -> None:
        with open_host(self._folder, self._fleet, host) as connection:
            said = bytearray()

            def hear(_stream: Stream, data: bytes) -> None:
                said.extend(data)
                del said[:-MAX_SAID]

            try:
                status = stream(
                    connection,
                    "sudo -n systemctl reboot",
                    hear,
                    stop=threading.Event(),
                    timeout_s=ORDER_S,
                )
            except HostError as error:
                if error.kind == "lost":
                    return  # it is going down
                raise
        if status:
            text = said.decode(errors="replace").strip()
            kind: Literal["sudo", "failed"] = "sudo" if text.startswith("sudo:") else "failed"
            raise HostError(kind, text.splitlines()[-1] if text else f"exit status {status}")

    def await_back(self, host: HostOf) -> None:
        give_up_s = time.monotonic() + self._patience_s
        missing = "it does not answer"
        booted = False
        while time.monotonic() < give_up_s:
            try:
                if not booted:
                    booted = self._facts(host).boot_id != self._boots[host.name]
                    missing = "it has not gone down yet"
                if booted:
                    if not self._served[host.name] or self._known_live(host):
                        return
                    missing = "it has started, but its agent is not live"
            except HostError as error:
                missing = str(error)
            time.sleep(ASK_EVERY_S)
        raise HostError("lost", f"not back within {self._patience_s:g} s: {missing}")

    def _facts(self, host: HostOf) -> Facts:
        with open_host(self._folder, self._fleet, host) as connection:
            return gather(connection)

    def _known_live(self, host: HostOf) -> bool:
        """Whether the node is live at its master; for a master's host, whether the master
        answers."""
        (seen,) = ask_iads([host.iad], self._folder, MASTER_MS)
        if host.node is None:
            return seen.status is not None
        node = seen.node(host.node.name)
        return node is not None and node.state == "live"


def _runs(facts: Facts, host: HostOf) -> bool:
    unit = facts.units.get(host.unit)
    return unit is not None and unit.active == "active"
