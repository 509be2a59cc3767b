"""Terminal output of `fleet service`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from agent.wire.figures import percentile_in_words, rate_in_words
from agent.wire.listing import few
from agent.wire.market import Service, Terms
from agent.wire.operator import ServiceReport, Step
from fleet.terminal.screen import line, plain_table, show_table
from fleet.terminal.units import format_ms

STYLES = {"accepted": "green", "serves": "green", "refused": "red", "no answer": "yellow"}
# Maximum number of a member's areas that are named; the others are counted.
NAMED_AREAS = 3
# Maximum length of IAD names for which lines fit 80 columns.
MAX_NAME = 24


def show_report(screen: Console, report: ServiceReport) -> None:
    """The steps of a set-up or change, the uncovered areas, and the pool."""
    if report.steps:
        folds = ("outcome", *_long_names(step.iad for step in report.steps))
        table = plain_table("step", "IAD", "asked", "outcome", left=4, folds=folds)
        for step in report.steps:
            table.add_row(step.step, step.iad or "–", _asked(step.terms), _outcome(step))
        show_table(screen, table)
    for service in report.services:
        show_pool(screen, service)
    if report.uncovered:
        line(screen, _coverage(report), style="yellow")
    if report.ok:
        line(screen, f"done in {format_ms(report.elapsed_ms)}")


def show_list(screen: Console, services: Sequence[Service]) -> None:
    """A row per service."""
    if not services:
        line(screen, "no services")
        return
    folds = ("service", "owner", "terms")
    table = plain_table("service", "owner", "capability", "IADs", "terms", left=5, folds=folds)
    for service in services:
        sellers = sum(bool(member.areas) for member in service.members)
        schedulers = len(service.members) - sellers
        iads = f"{sellers} + {schedulers} scheduling" if schedulers else f"{sellers}"
        table.add_row(
            service.id, service.owner, service.capability or "all", iads, _asked(service.terms)
        )
    show_table(screen, table)


def show_pool(screen: Console, service: Service) -> None:
    """A service and its members."""
    text = f"{service.id}: {service.capability or 'all'}, owned by {service.owner}"
    if service.terms is not None:
        text += f", each IAD {_asked(service.terms)}"
    if service.redundant:
        text += ", redundant"
    line(screen, text)
    folds = ("areas", "address", *_long_names(member.iad for member in service.members))
    table = plain_table("IAD", "tasks/s", "areas", "address", left=4, folds=folds)
    for member in service.members:
        rate = rate_in_words(member.rate_per_s) if member.areas else "–"
        table.add_row(member.iad, rate, _areas(member.areas), member.address)
    show_table(screen, table)


def _long_names(iads: Iterable[str]) -> tuple[str, ...]:
    """The column of names, if one is so long that it must be folded."""
    return ("IAD",) if any(len(iad) > MAX_NAME for iad in iads) else ()


def _coverage(report: ServiceReport) -> str:
    """How much of the requested or offered areas is served, and which are not."""
    nobody = f"nobody serves {_areas(report.uncovered)}"
    if not report.services:
        return nobody
    served = len({area for member in report.services[0].members for area in member.areas})
    return f"serves {served} of {served + len(report.uncovered)} areas; {nobody}"


def _asked(terms: Terms | None) -> str:
    if terms is None:
        return "–"
    rate, percentile = rate_in_words(terms.rate_per_s), percentile_in_words(terms.percentile)
    return f"{rate}/s, p{percentile} ≤ {format_ms(terms.budget_ms)}"


def _outcome(step: Step) -> Text:
    style = next((s for word, s in STYLES.items() if step.outcome.startswith(word)), "")
    return Text(step.outcome, style=style)


def _areas(areas: Sequence[str]) -> str:
    if not areas:
        return "only schedules"
    return few(areas, NAMED_AREAS)
