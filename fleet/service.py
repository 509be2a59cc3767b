"""`fleet service`: services of a master, from its operator socket."""

from __future__ import annotations

import sys

from agent.client import NoReplyError, Operator
from agent.wire.codec import HEADER_BYTES, JSON, WireError, encode
from agent.wire.operator import ListServices, ServiceReport, ServiceRequest
from fleet import exits, screen, service_screen

# What the report of a set-up may take beyond the time that the set-up itself has.
GRACE_MS = 2_000.0


def run(operator: str, request: ServiceRequest, *, timeout_ms: float, as_json: bool) -> int:
    """Ask, print what came of it, return the exit status."""
    report = _ask(operator, request, timeout_ms)
    if isinstance(report, int):
        return report
    if as_json:
        _print_json(report)
        return exits.DONE if report.ok else exits.REFUSED
    terminal = screen.console()
    if isinstance(request, ListServices):
        service_screen.show_list(terminal, report.services)
        return exits.DONE
    service_screen.show_report(terminal, report)
    if not report.ok:
        return exits.fail(f"refused: {report.message}", exits.REFUSED)
    return exits.DONE


def show(operator: str, name: str, *, timeout_ms: float, as_json: bool) -> int:
    """Print one service; the exit status."""
    report = _ask(operator, ListServices("show"), timeout_ms)
    if isinstance(report, int):
        return report
    found = [service for service in report.services if service.id == name]
    if not found:
        return exits.fail(f"no service {name} here; see fleet service list", exits.FAILED)
    if as_json:
        _print_json(ServiceReport(report.id, ok=True, services=tuple(found)))
    else:
        service_screen.show_pool(screen.console(), found[0])
    return exits.DONE


def _ask(operator: str, request: ServiceRequest, timeout_ms: float) -> ServiceReport | int:
    """The report, or the exit status of what went wrong."""
    try:
        with Operator(operator) as link:
            return link.ask_service(request, timeout_ms)
    except NoReplyError as error:
        return exits.fail(str(error), exits.NO_REPLY)
    except WireError as error:
        return exits.fail(
            f"the reply from {operator} is no report about services ({error}); "
            "is this a master's operator socket?",
            exits.NO_REPLY,
        )
    except ValueError as error:  # the address, or the master does not take this
        return exits.fail(str(error), exits.USAGE)


def _print_json(report: ServiceReport) -> None:
    sys.stdout.write(encode(report, JSON)[HEADER_BYTES:].decode() + "\n")
