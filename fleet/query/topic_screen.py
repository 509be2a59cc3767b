"""Terminal output of `fleet topic`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.text import Text

from agent.wire.listing import few
from agent.wire.topics import Parameter, Topic, TopicStatus
from fleet.terminal.output import printable
from fleet.terminal.screen import line, local_time, plain_table, show_table
from fleet.terminal.units import counted, format_cpu, format_duration, format_ms

STYLES = {
    "ready": "green",
    "running": "green",
    "backing_off": "yellow",
    "disabled": "red",
}
HEALTHY = frozenset({"none", "starting", "loading", "ready", "running"})
NAMED_AREAS = 2


def is_healthy(status: TopicStatus) -> bool:
    """Whether nothing is wrong with the topic."""
    return status.state in HEALTHY and not status.trouble


def show_list(screen: Console, topics: Sequence[TopicStatus]) -> None:
    """A row for each topic."""
    if not topics:
        line(screen, "no topics")
        return
    folds = ("topic", "readings", "processor")
    table = plain_table(
        "topic", "readings", "processor", "state", "objective", "got", "in", "out",
        left=4, folds=folds,
    )  # fmt: skip
    for each in topics:
        table.add_row(
            each.topic.name,
            _readings(each.topic),
            each.topic.processor or "–",
            _state(each),
            _objective(each.topic),
            "–" if each.latency_ms is None else format_ms(each.latency_ms),
            str(each.received + each.rounds - each.rounds_failed),
            str(each.put_out),
        )
    show_table(screen, table)


def show_topic(screen: Console, status: TopicStatus) -> None:
    """A topic, a line for each of its parts."""
    topic = status.topic
    line(screen, f"{topic.name}: readings {_readings(topic, all_areas=True)}")
    if topic.areas:
        rounds = f"{counted(status.rounds, 'round')}, {status.rounds_failed} without a reading"
        line(screen, f"  asks service {topic.service}: {rounds}")
    line(screen, f"  {status.received} published messages taken in, {status.missed} lost")
    if topic.processor:
        _show_processor(screen, status)
    line(screen, f"  {status.put_out} notifications put out")
    if topic.standby:
        line(screen, f"  standby: {printable(status.standby)}")
    if status.taken_ms is not None:
        when = local_time(status.taken_ms, datetime.now().astimezone())
        line(screen, f"  taken over from {status.taken_from}, which was dead, {when}")
    if status.delegated:
        line(screen, f"  delegated to {printable(status.delegated)}", style="yellow")
    if status.trouble:
        line(screen, f"  {printable(status.trouble)}", style="yellow")


def show_unhealthy(screen: Console, topics: Sequence[TopicStatus]) -> None:
    """A row for each topic with which something is wrong."""
    ill = [each for each in topics if not is_healthy(each)]
    if not ill:
        return
    line(screen, f"topics in trouble: {len(ill)}", style="yellow")
    table = plain_table("topic", "processor", "state", "what", left=4, folds=("what",))
    for each in ill:
        processor = each.topic.processor or "–"
        table.add_row(each.topic.name, processor, _state(each), printable(each.trouble) or "–")
    show_table(screen, table)


def _show_processor(screen: Console, status: TopicStatus) -> None:
    topic = status.topic
    text = Text(f"  processor {topic.processor}: ")
    text.append(_state(status))
    line(screen, text)
    if topic.parameters:
        settings = [
            f"{name}={value_text(value)}" for name, value in sorted(topic.parameters.items())
        ]
        line(screen, f"    with {', '.join(settings)}")
    if topic.limits:
        limits = [f"{name} {value:.15g}" for name, value in sorted(topic.limits.items())]
        line(screen, f"    limits: {', '.join(limits)}")
    line(
        screen,
        f"    {counted(status.processed, 'message')} processed, {status.waiting} waiting, "
        f"{counted(status.failed, 'failure')}, {status.skipped} skipped",
    )
    if status.last_failure:
        line(screen, f"    the last failure: {printable(status.last_failure)}", style="yellow")
    if topic.slo is not None and status.latency_ms is not None:
        line(
            screen,
            f"    p{topic.slo.percentile:g} {format_ms(status.latency_ms)} of "
            f"{format_ms(topic.slo.latency_ms)}, {status.late} too late",
        )
    if status.cpu_ms is not None:
        line(screen, f"    CPU time of a message {format_cpu(status.cpu_ms)}")


def _state(status: TopicStatus) -> Text:
    name = "–" if status.state == "none" else status.state.replace("_", " ")
    return Text(printable(name), style=STYLES.get(status.state, ""))


def _readings(topic: Topic, *, all_areas: bool = False) -> str:
    if topic.every_s is None:
        return "none"
    text = few(topic.areas, len(topic.areas) if all_areas else NAMED_AREAS)
    channels = f" {', '.join(topic.channels)}" if topic.channels and all_areas else ""
    return f"{text}{channels} every {format_duration(topic.every_s)}"


def _objective(topic: Topic) -> str:
    if topic.slo is None:
        return "–"
    return f"p{topic.slo.percentile:g} ≤ {format_ms(topic.slo.latency_ms)}"


def value_text(value: Parameter) -> str:
    """A parameter or attribute, on a terminal."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else printable(str(value))
