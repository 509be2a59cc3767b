"""`fleet service`: manages a master's services through its operator socket."""

from __future__ import annotations

from msgspec import Struct

from agent.client import NoReplyError, Operator
from agent.net.keys import KeyFiles
from agent.wire.listing import did_you_mean
from agent.wire.operator import (
    CreateService,
    DropService,
    ListServices,
    ServiceReport,
    ServiceRequest,
)
from fleet.common import exits
from fleet.query import replies, service_screen
from fleet.terminal import screen

# Time for the report of a set-up, in addition to the set-up's own time.
GRACE_MS = 2_000.0


class Asker(Struct, frozen=True):
    """The connection that a command uses, and how it prints the result."""

    operator: str
    timeout_ms: float
    as_json: bool
    keys: KeyFiles | None

    def run(self, request: ServiceRequest, extra_ms: float = 0.0) -> int:
        """Send the request and print the result; returns the exit status."""
        report = self._ask(request, self.timeout_ms + extra_ms)
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
            return _status(request, report)
        terminal = screen.console()
        if isinstance(request, ListServices):
            service_screen.show_list(terminal, report.services)
            return exits.DONE
        service_screen.show_report(terminal, report)
        if report.ok and isinstance(request, DropService):
            screen.line(
                terminal, f"service {request.service} is dropped; it serves for ten more seconds"
            )
        if not report.ok:
            exits.fail(f"refused: {report.message}", exits.REFUSED)
        return _status(request, report)

    def show(self, name: str) -> int:
        """Print one service; returns the exit status."""
        report = self._ask(ListServices("show"), self.timeout_ms)
        if isinstance(report, int):
            return report
        found = [service for service in report.services if service.id == name]
        if not found:
            known = [service.id for service in report.services]
            hint = did_you_mean(name, known, "see fleet service list")
            return exits.fail(f"no service {name} here; {hint}", exits.FAILED)
        if self.as_json:
            replies.write_json(ServiceReport(report.id, ok=True, services=tuple(found)))
        else:
            service_screen.show_pool(screen.console(), found[0])
        return exits.DONE

    def _ask(self, request: ServiceRequest, timeout_ms: float) -> ServiceReport | int:
        """The report, or the exit status of a failure."""
        try:
            with Operator(self.operator, self.keys) as link:
                return link.ask_service(request, timeout_ms)
        except (NoReplyError, ValueError) as error:
            what = "no report about services"
            return replies.fail(error, f"{self.operator} is {what}", "operator")


def _status(request: ServiceRequest, report: ServiceReport) -> int:
    """The exit status of a reply; a service that was set up only in part is a failure."""
    if not report.ok:
        return exits.REFUSED
    partial = isinstance(request, CreateService) and report.uncovered
    return exits.FAILED if partial else exits.DONE
