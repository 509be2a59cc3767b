"""Services and their set-up on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agent.wire.market import Service, Terms
from agent.wire.operator import ServiceReport, Step
from fleet.screen import line, plain_table
from fleet.units import format_ms

STYLES = {"accepted": "green", "serves": "green", "refused": "red", "no answer": "yellow"}
# Areas of a member that are named; the others are counted.
NAMED_AREAS = 3


def show_report(screen: Console, report: ServiceReport) -> None:
    """The steps of a set-up or change, what stays uncovered, and the pool."""
    if report.steps:
        table = plain_table("step", "IAD", "asked", "outcome", left=4)
        for step in report.steps:
            table.add_row(step.step, step.iad or "–", _asked(step.terms), _outcome(step))
        screen.print(table)
    if report.uncovered:
        line(screen, f"nobody serves {', '.join(report.uncovered)}", style="yellow")
    for service in report.services:
        show_pool(screen, service)
    if report.ok:
        line(screen, f"done in {format_ms(report.elapsed_ms)}")


def show_list(screen: Console, services: Sequence[Service]) -> None:
    """A row per service."""
    if not services:
        line(screen, "no services")
        return
    table = plain_table("service", "owner", "capability", "IADs", "terms", left=5)
    for service in services:
        sellers = sum(bool(member.areas) for member in service.members)
        iads = f"{sellers} + {len(service.members) - sellers} scheduling"
        table.add_row(
            service.id, service.owner, service.capability or "all", iads, _asked(service.terms)
        )
    screen.print(table)


def show_pool(screen: Console, service: Service) -> None:
    """A service and its members."""
    text = f"{service.id}: {service.capability or 'all'}, owned by {service.owner}"
    if service.terms is not None:
        text += f", {_asked(service.terms)}"
    if service.redundant:
        text += ", redundant"
    line(screen, text)
    table = plain_table("IAD", "tasks/s", "areas", "address", left=4)
    for member in service.members:
        rate = f"{member.rate_per_s:.4g}" if member.areas else "–"
        table.add_row(member.iad, rate, _areas(member.areas), member.address)
    screen.print(table)


def _asked(terms: Terms | None) -> str:
    if terms is None:
        return "–"
    return f"{terms.rate_per_s:.4g}/s, p{terms.percentile:.4g} ≤ {format_ms(terms.budget_ms)}"


def _outcome(step: Step) -> Text:
    style = next((s for word, s in STYLES.items() if step.outcome.startswith(word)), "")
    return Text(step.outcome, style=style)


def _areas(areas: Sequence[str]) -> str:
    if not areas:
        return "only schedules"
    more = len(areas) - NAMED_AREAS
    return ", ".join(areas[:NAMED_AREAS]) + (f" and {more} more" if more > 0 else "")
