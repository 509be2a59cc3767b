"""The demo's services, queries and standing queries."""

from __future__ import annotations

import math
import time
from typing import Final

from msgspec import Struct

from agent.client import Client, Operator
from agent.wire.base import Form
from agent.wire.messages import Answer, Slo
from agent.wire.operator import CreateService
from agent.wire.watches import Style
from fleet.demo.story import Story
from fleet.query import service_screen, watch
from fleet.simulation.layout import FleetLayout
from fleet.simulation.screen import DemoScreen
from fleet.terminal import screen
from fleet.terminal.summary import summarize
from fleet.terminal.units import format_duration, format_ms
from fleet.testbed.run_records import tasks_of
from fleet.testbed.testbed import Testbed, TestbedError

# As in DSSP's testbed: each service gives one kind of readings, and both pools contain all IADs.
SERVICES: Final = ("temperature", "humidity")
SERVICE_SLO: Final = Slo(99.0, 2_000.0)
SERVICE_RATE_PER_S: Final = 2.5
WATCHED_S: Final = 3.0
TRIGGER: Final = "temperature > 20"


class Question(Struct, frozen=True):
    """A query that the demo shows, and its purpose."""

    title: str
    areas: tuple[str, ...]
    last_s: float
    slo: Slo
    form: Form
    service: str


# --- the market ---


def trade(bed: Testbed, show: DemoScreen) -> None:
    """Set the services up."""
    show.heading("2  The market: two services are set up")
    show.say(
        "Each IAD has registered what it senses and where, and nothing else, with the registration "
        f"service (DRS). {bed.plan.iads[0].name} now buys: it discovers who offers, proposes terms "
        "to each, each reckons the pods it would need (DSSP Eq. 10) and accepts, and all join the "
        "service's pool. A rate counts queries that ask everything: one that asks a room of 32 "
        "counts 1/32.",
        style="dim",
    )
    iad = bed.plan.iads[0].name
    with Operator(bed.operator(iad)) as operator:
        for number, service in enumerate(SERVICES):
            report = operator.ask_service(
                CreateService(
                    id=service,
                    service=service,
                    capability=service,
                    areas=("b1",),
                    slo=SERVICE_SLO,
                    rate_per_s=SERVICE_RATE_PER_S,
                )
            )
            if not report.ok:
                raise TestbedError(f"service {service} was not set up: {report.message}")
            show.say("")
            if number == 0:
                service_screen.show_report(show.console, report)
            else:
                members = len(report.services[0].members)
                text = f"{service}: likewise, {members} IADs, {report.elapsed_ms:.0f} ms"
                show.say(text)


# --- queries --------------------------------------------------------------------------------------


def _questions(plan: FleetLayout) -> list[Question]:
    firsts = tuple(iad.areas[0] for iad in plan.iads)
    return [
        Question("One room", firsts[2:3], 600.0, Slo(99.0, 500.0), "series", "temperature"),
        Question("One room in each IAD", firsts, 3_600.0, Slo(99.0, 800.0), "series", "humidity"),
        Question("Everything", ("b1",), 10_800.0, Slo(99.0, 1_200.0), "aggregate", "temperature"),
    ]


def ask(bed: Testbed, show: DemoScreen, story: Story) -> None:
    """Ask three questions; the story has the last, of everything."""
    show.heading("3  Three queries")
    show.say(
        "budget: what each IAD's task may take. unloaded: what its nodes need for that when idle "
        "(for now a guess of 100 ms on average: nothing was measured yet). deadline: how long the "
        "subtasks may wait, budget − unloaded. The last two only an IAD's own operator sees.",
        style="dim",
    )
    iad = bed.plan.iads[0].name
    folders = [bed.records(iad.name) for iad in bed.plan.iads]
    with Client(bed.public(iad)) as client:
        *others, everything = _questions(bed.plan)
        for question in (*others, everything):
            if is_last := question is everything:
                story.step(
                    f"Ask: how warm was every room in the last 3 hours, "
                    f"within {question.slo.latency_ms:g} ms?"
                )
            answer = client.query(
                question.areas,
                last_s=question.last_s,
                percentile=question.slo.percentile,
                latency_ms=question.slo.latency_ms,
                form=question.form,
                service=question.service,
                label=question.title,
            )
            show.say("")
            screen.line(
                show.console,
                f"{question.title}: {question.service} of {' '.join(question.areas)}, "
                f"last {format_duration(question.last_s)}",
                style="bold",
            )
            tasks = tasks_of(question.title, folders)
            screen.show_answer(show.console, answer, question.slo, tasks)
            if is_last:
                for text in told(answer):
                    story.say(text)
    show.say(
        "bad: values that the nodes flagged, in none of the other numbers. They are faults of the "
        "recording, such as single values of 70 °C, and jumps where it has a gap of hours, which "
        "is played in a second.",
        "dim",
    )


def told(answer: Answer) -> list[str]:
    """An answer of temperatures, in plain words."""
    covered = answer.coverage
    kept = "in time" if answer.slo_met else "not all in time"
    first = f"{covered.answered} of {covered.asked} rooms in {format_ms(answer.elapsed_ms)}, {kept}"
    lines = [f"{first}; nodes sent sums only."]
    means = {
        area.area: channel.mean
        for area in summarize(answer)
        for channel in area.channels.values()
        if not math.isnan(channel.mean)
    }
    if means:
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        lines.append(
            f"Coolest on average: {low}, {means[low]:.1f} °C; warmest: {high}, "
            f"{means[high]:.1f} °C."
        )
    return [*lines, *screen.gap_lines(answer)]


# --- standing queries -----------------------------------------------------------------------------


def watch_room(bed: Testbed, show: DemoScreen) -> None:
    """Show standing queries of each style."""
    show.heading("4  Standing queries: every round is a query of its own")
    show.say(f"{watch.CHANNELS}.", style="dim")
    room = bed.plan.iads[2].areas[0]
    with Client(bed.public(bed.plan.iads[0].name)) as client:
        styles: tuple[tuple[Style, str], ...]
        styles = (("periodic", ""), ("streaming", ""), ("event", TRIGGER))
        for style, trigger in styles:
            show.say("")
            what = f"{style}, every second" + (f", when {trigger}" if trigger else "")
            screen.line(show.console, f"{room}: {what}", style="bold")
            standing = client.watch(
                [room],
                style=style,
                interval_s=1.0,
                lasting_s=WATCHED_S,
                trigger=trigger,
                service="temperature",
            )
            with standing as rounds:
                screen.line(show.console, watch.header())
                for each in rounds:
                    for text in watch.round_lines(each, time.time()):
                        screen.line(show.console, text)
