"""`fleet clone`: clones of a master's devices, through its operator socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.wire.clones import (
    CloneOf,
    CloneReport,
    CloneRequest,
    CreateClone,
    ListClones,
    RemoveClone,
)
from fleet.common import exits
from fleet.query import clone_screen, replies
from fleet.query.clone_apply import changes
from fleet.terminal import screen
from fleet.terminal.output import printable


class Asker(Struct, frozen=True):
    """The connection that a command uses, and how it prints the result."""

    operator: str
    timeout_ms: float
    as_json: bool
    keys: KeyFiles | None

    def create(self, device: str, **fields: Any) -> int:
        """Create a device's clone; returns the exit status."""
        try:
            clone = msgspec.convert({"device": device, **fields}, CloneOf)
        except msgspec.ValidationError as error:
            return exits.fail(str(error), exits.USAGE)
        return self.keep(clone)

    def keep(self, clone: CloneOf) -> int:
        """Create a clone; returns the exit status."""
        report = self._change(CreateClone("create", clone))
        if isinstance(report, int):
            return report
        if not self.as_json:
            topic = report.clones[0].topic if report.clones else "?"
            line = f"{clone.device} has a clone: topic {topic}"
            screen.line(screen.console(), f"{line}; {report.message}" if report.message else line)
        return exits.DONE

    def remove(self, device: str) -> int:
        """End a device's clone; returns the exit status."""
        report = self._change(RemoveClone("remove", device))
        if isinstance(report, int):
            return report
        if not self.as_json:
            # It may live at a master that is away.
            later = f"clone of {device}: {report.message}"
            line = later if report.message else f"{device} has no clone any more"
            screen.line(screen.console(), line)
        return exits.DONE

    def apply(self, wanted: Sequence[CloneOf], *, prune: bool = False) -> int:
        """Have these clones, and no others if `prune`; returns the exit status. One that differs is
        left as it is: its state would be lost."""
        report = self._ask(ListClones("list"))
        if isinstance(report, int):
            return report
        found = changes(wanted, report.clones)
        status = exits.FAILED if found.differ else exits.DONE
        for device, keys in found.differ.items():
            said = "; ".join(
                [f"{key} is {_text(a)}, wanted {_text(b)}" for key, (a, b) in keys.items()]
            )
            self._say(f"{device} has another clone: {said}. Remove it, and apply again")
        for clone in found.create:
            status = max(status, self.keep(clone))
        for device in found.others:
            if prune:
                status = max(status, self.remove(device))
            else:
                self._say(f"{device} has a clone that is not in the inventory; --prune removes it")
        same = len(wanted) - len(found.create) - len(found.differ)
        self._say(f"{same} of {len(wanted)} clones were there as they are wanted")
        return status

    def _say(self, text: str) -> None:
        screen.line(screen.console(), printable(text))

    def list(self) -> int:
        """Print the clones of the master's devices; returns the exit status."""
        report = self._ask(ListClones("list"))
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
        else:
            clone_screen.show_list(screen.console(), report.clones)
        return exits.DONE

    def show(self, device: str) -> int:
        """Print one clone; returns the exit status."""
        report = self._ask(ListClones("show"))
        if isinstance(report, int):
            return report
        found = [each for each in report.clones if device in (each.clone.device, each.topic)]
        if not found:
            known = [each.clone.device for each in report.clones]
            near = [each for each in known if each.endswith(f"/{device}")]
            hint = f"did you mean {near[0]}?" if near else "see fleet clone list"
            return exits.fail(f"{device} has no clone here; {hint}", exits.FAILED)
        if self.as_json:
            replies.write_json(CloneReport(report.id, ok=True, clones=tuple(found)))
        else:
            clone_screen.show_clone(screen.console(), found[0])
        return exits.DONE

    def _change(self, request: CloneRequest) -> CloneReport | int:
        report = self._ask(request)
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
        if not report.ok:
            return exits.fail(f"refused: {report.message}", exits.REFUSED)
        return report

    def _ask(self, request: CloneRequest) -> CloneReport | int:
        """The report, or the exit status of a failure."""
        try:
            with Operator(self.operator, self.keys) as link:
                return link.ask_clone(request, self.timeout_ms)
        except (NoReplyError, ValueError) as error:
            return replies.fail(error, f"{self.operator} is no report about clones", "operator")


def _text(value: object) -> str:
    """A key's value, as an inventory has it."""
    return msgspec.json.encode(value).decode()
