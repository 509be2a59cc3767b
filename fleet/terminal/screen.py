"""Rich rendering of answers and states for people; programs use ``--json``."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from agent.wire.base import RAW
from agent.wire.figures import percentile_in_words
from agent.wire.listing import few
from agent.wire.messages import Answer, Missing, Slo
from agent.wire.records import TaskRecord
from agent.wire.units import usual_sign
from fleet.terminal.output import printable
from fleet.terminal.summary import (
    AreaSummary,
    ChannelSummary,
    channels_of,
    labelled,
    last_known,
    summarize,
)
from fleet.terminal.times import UNKNOWN_TIME, local
from fleet.terminal.units import format_duration, format_limit, format_ms, format_slo
from fleet.terminal.wrapping import fitted, folded, harmless, spaced
from sensors.quality.limits import quantity_of

# Channels side by side in one table.
MAX_ABREAST: Final = 2
GAPS: Final = {
    "no_node": "no edge node covers it",
    "node_down": "its edge node is down",
    "timeout": "no answer before the answer timeout",
    "no_data": "no readings in the window",
    "no_channel": "no such channel",
    "node_error": "its edge node could not read its history",
    "iad_unreachable": "its IAD's master did not answer",
    "too_large": "more readings than an answer holds",
}
OF_IADS: Final = ("iad_unreachable", "timeout")
# Reasons for missing areas that waiting longer cannot change: they are no SLO misses.
TIMELESS: Final = ("no_node", "no_data", "no_channel")
STYLES: Final = {
    "complete": "green",
    "partial": "yellow",
    "refused": "red",
    "live": "green",
    "lost": "red",
    "left": "yellow",
}
# Areas without readings that are named.
MAX_EMPTY: Final = 4
# Of missing areas all are named.
EACH: Final = sys.maxsize
# Width of output to files, which is not fitted to a terminal.
FILE_WIDTH: Final = 200
# Wider than any table, to measure a table's natural width.
BOUNDLESS: Final = 100_000


def console(*, stderr: bool = False) -> Console:
    """The terminal, or the file in its place; NO_COLOR is respected."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else FILE_WIDTH
    # No markup: names from elsewhere are printed, and [/] in one would raise an error.
    return _Console(file=stream, width=width, highlight=False, soft_wrap=False, markup=False)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the exit status to the command; rich's is that of a partial answer."""
        raise BrokenPipeError


def progress() -> Console:
    """Console for progress output: colours and moving lines only on a terminal, no colours with
    NO_COLOR."""
    return console(stderr=True)


def line(screen: Console, text: str | Text, style: str = "") -> None:
    """Print one line of any length; on a terminal it is folded between words."""
    drawn = text if isinstance(text, Text) else Text(text)
    if not screen.is_terminal:
        as_it_is(screen, spaced(drawn), style)
        return
    for each in folded(drawn, screen.width):
        as_it_is(screen, each, style)


def as_it_is(screen: Console, text: str | Text, style: str = "") -> None:
    """Print a line for copying: only the terminal wraps it."""
    screen.print(harmless(text), style=style or None, soft_wrap=True)


class _Table(Table):
    """Its cells may come from elsewhere."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        super().add_row(*map(_harmless_cell, cells), **options)


def _harmless_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return printable(cell)
    return harmless(cell) if isinstance(cell, Text) else cell


def plain_table(*columns: str, left: int = 1, folds: Collection[str] = ()) -> Table:
    """An empty table without rules; columns after the first `left` are right-aligned, but for those
    that are texts.

    On a narrow terminal only the columns `folds`, texts, are folded; the others keep their width.
    """
    table = _Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        side: Literal["left", "right"] = "left" if number < left or column in folds else "right"
        table.add_column(column, justify=side, no_wrap=column not in folds, overflow="fold")
    return table


def show_table(screen: Console, table: Table) -> None:
    """Print a table, or its rows as texts if the terminal is too narrow for it. In a file or pipe
    each row is one line, for programs such as grep, without trailing blanks."""
    if screen.is_terminal:
        for part in fitted(table, screen):
            screen.print(part, soft_wrap=isinstance(part, Text))
        return
    unbounded = screen.options.update(width=BOUNDLESS)
    before, width = screen.width, screen.measure(table, options=unbounded).maximum
    if before >= FILE_WIDTH:  # a smaller width was asked for
        screen.width = max(before, width)
    with screen.capture() as printed:
        screen.print(table)
    screen.width = before
    for row in printed.get().splitlines():
        line(screen, row.rstrip())


# --- readings -----------------------------------------------------------------------------------


def show_readings(screen: Console, answer: Answer) -> None:
    """The number and time range of each area's readings, and each channel in its unit; then remarks
    on bad values. One row per area if all of it fits, otherwise one line per channel: no number or
    name is ever truncated."""
    areas = summarize(answer)
    if not areas:
        return
    channels = channels_of(areas)
    with_last = any(result.series is not None for result in answer.results)
    names = ["min", "mean", "max", "last"] if with_last else ["min", "mean", "max"]
    legend = _legend(channels, areas)
    if told_by_units(channels):
        table = _area_table(areas, channels, names)
        unbounded = screen.options.update(width=BOUNDLESS)
        if screen.measure(table, options=unbounded).maximum <= screen.width:
            show_table(screen, table)
            known = ", ".join(f"{unit_of(channel)} {channel}" for channel in channels)
            oldest = max(areas, key=lambda area: area.age_ms)
            if oldest.age_ms:
                known += f"; age up to {format_ms(oldest.age_ms)} ({oldest.label})"
            line(screen, f"{known}; {legend}" if legend else known, style="dim")
            _show_flagged(screen, areas)
            return
    for text in _channel_lines(areas, names, screen.width):
        line(screen, text)
    if legend:
        line(screen, legend, style="dim")


def _area_table(
    areas: Sequence[AreaSummary], channels: Sequence[str], names: Sequence[str]
) -> Table:
    """One row per area, with the channels side by side."""
    table = plain_table("area", "n", "from", "to")
    # For a series, the remarks below the table say more than these two columns.
    counts = {
        channel: [] if "last" in names else _counts_in(areas, channel) for channel in channels
    }
    # Kept narrow: two channels of a series fit 80 columns.
    table.padding = (0, 1, 0, 0)
    for channel in channels:
        for name in names:
            table.add_column(f"{name}\n{unit_of(channel)}", justify="right", no_wrap=True)
        for name in counts[channel]:
            table.add_column(name, justify="right", no_wrap=True)
    today = datetime.now().astimezone()
    for area in areas:
        cells = [area.label, str(area.n)]
        cells += [local_time(area.first_ms, today), local_time(area.last_ms, today)]
        for channel in channels:
            summary = area.channels.get(channel)
            if summary is None:
                cells += ["–"] * (len(names) + len(counts[channel]))
            else:
                cells += _numbers(summary, names)
                cells += [str(getattr(summary, name)) for name in counts[channel]]
        table.add_row(*cells)
    return table


def _channel_lines(
    areas: Sequence[AreaSummary], names: Sequence[str], width: int
) -> Iterable[Text]:
    """One line per area and one per channel, sorted by name because nodes report them in any order.
    Remarks go below a channel if they do not fit beside it."""
    rows = [
        [name, str(summary.n), *_numbers(summary, names)]
        for area in areas
        for name, summary in sorted(area.channels.items())
    ]
    header = ["channel", "n", *names]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        name, *numbers = cells
        right = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        return f"  {name:<{widths[0]}}  {' '.join(right)}"

    yield Text(aligned(header), "bold")
    today = datetime.now().astimezone()
    left = iter(rows)
    for area in areas:
        yield Text(
            f"{area.label}: {local_time(area.first_ms, today)} to {local_time(area.last_ms, today)}"
        )
        for name, summary in sorted(area.channels.items()):
            drawn = Text(f"{aligned(next(left))} {unit_of(name)}".rstrip())
            if notes := notes_on(summary):
                fits = len(drawn) + 2 + len(notes) <= width
                drawn.append("  " if fits else "\n      ")
                drawn.append(notes, style="yellow")
            yield drawn


def notes_on(summary: ChannelSummary) -> str:
    """Remarks on a channel beside its numbers; empty if there are none."""
    notes = [flagged(summary)]
    if summary.age_ms:
        notes.append(f"age up to {format_ms(summary.age_ms)}")
    return "; ".join(note for note in notes if note)


def _show_flagged(screen: Console, areas: Iterable[AreaSummary]) -> None:
    for area in areas:
        for channel, summary in area.channels.items():
            if summary.flags:
                line(screen, f"flagged {area.label} {channel}: {flagged(summary)}", style="yellow")


def unit_of(channel: str) -> str:
    """The unit of a channel, derived from its name; empty if unknown. Raw values are in their
    sensor's own unit."""
    return "" if channel.endswith(RAW) else usual_sign(quantity_of(channel))


def told_by_units(channels: Sequence[str]) -> bool:
    """Whether the channels are few enough, and their units different enough, to tell them apart."""
    units = {unit_of(channel) for channel in channels}
    return "" not in units and len(units) == len(channels) <= MAX_ABREAST


def _counts_in(areas: Iterable[AreaSummary], channel: str) -> list[str]:
    """The counts of values that are not good and that are above 0 anywhere."""
    found = [area.channels[channel] for area in areas if channel in area.channels]
    return [name for name in ("bad", "suspect") if any(getattr(s, name) for s in found)]


def flagged(summary: ChannelSummary) -> str:
    """How many values of a channel are not good: by flag, or only as bad and suspect, whichever the
    answer has; empty if all are good."""
    kinds = summary.flags or {"bad": summary.bad, "suspect": summary.suspect}
    text = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    if summary.last_flags:
        text += f" (the latest: {', '.join(summary.last_flags)})"
    return text


def _numbers(summary: ChannelSummary, names: Sequence[str]) -> list[str]:
    return [format_value(getattr(summary, name)) for name in names]


def format_value(value: float) -> str:
    """A reading with a sensor's usual digits: ``22.4``, ``1043``; a dash for a missing one."""
    if math.isnan(value):
        return "–"
    return f"{value:.1f}" if abs(value) < 1_000 else f"{value:.0f}"


def local_time(milliseconds: int, today: datetime, *, finer: bool = False) -> str:
    """Local time of day; the date instead if it is not today. `finer`: to the millisecond, with
    both."""
    time = local(milliseconds)
    if time is None:
        return UNKNOWN_TIME
    is_today = time.date() == today.date()
    if finer:
        day = "" if is_today else f"{time:%d %b} "
        return f"{day}{time:%H:%M:%S}.{time.microsecond // 1_000:03}"
    return f"{time:%H:%M:%S}" if is_today else f"{time:%d %b %H:%M}"


def _legend(channels: Sequence[str], areas: Iterable[AreaSummary]) -> str:
    """When replayed values were recorded, and in which channels unless in all; empty without
    replays."""
    sources = [
        (name, summary.source_ms)
        for area in areas
        for name, summary in area.channels.items()
        if summary.source_ms is not None
    ]
    if not sources:
        return ""
    replayed = {name for name, _ in sources}
    which = [name for name in channels if name in replayed]
    ends = (min(first for _, (first, _) in sources), max(last for _, (_, last) in sources))
    days = [UNKNOWN_TIME if (day := local(ms)) is None else f"{day:%Y-%m-%d}" for ms in ends]
    text = f"replayed now from a recording of {' to '.join(dict.fromkeys(days))}"
    return text if len(which) == len(channels) else f"{', '.join(which)} {text}"


# --- how an answer came about -------------------------------------------------------------------


def show_answer(
    screen: Console,
    answer: Answer,
    slo: Slo,
    tasks: Mapping[str, TaskRecord] | None = None,
    *,
    explain: bool = False,
) -> None:
    """Readings, missing areas and status; with `explain` the tasks and their budgets.

    `tasks` are the masters' own records by IAD, which only operators have: with them the tasks are
    shown, and their deadlines.
    """
    show_readings(screen, answer)
    for text in stale_lines(answer):
        line(screen, text, style="yellow")
    for gap in () if is_empty(answer) else gap_lines(answer):
        line(screen, gap, style="yellow")
    line(screen, status_line(answer, slo))
    if answer.tasks and (explain or tasks):
        show_table(screen, _task_table(answer, tasks or {}))


def stale_lines(answer: Answer) -> list[str]:
    """One line for each area without a live answer of which a clone knows last values: these, with
    the age of each."""
    lines = []
    for result in answer.results:
        parts = []
        for known in last_known(result):
            ages = [known.youngest_ms, known.oldest_ms]
            age = " to ".join(dict.fromkeys(format_duration(round(ms / 1e3)) for ms in ages))
            value = f"{format_value(known.value)} {unit_of(known.channel)}".rstrip()
            parts.append(f"{known.channel} {value} ({age} old)")
        if parts:
            area = labelled(result.area, result.name)
            lines.append(f"{area}: no live answer; its clone last knew {', '.join(parts)}")
    return lines


def is_timeless(answer: Answer) -> bool:
    """Whether everything missing would be missing however long one waited."""
    reasons = {gap.reason for gap in answer.missing}
    return answer.status == "partial" and bool(reasons) and reasons.issubset(TIMELESS)


def is_empty(answer: Answer) -> bool:
    """Whether all that was asked is there, and has no readings in the window."""
    reasons = {gap.reason for gap in answer.missing}
    return answer.status == "partial" and not answer.coverage.answered and reasons == {"no_data"}


def _covered(answer: Answer) -> str:
    """Areas answered of areas asked, and the time it took."""
    answered, asked = answer.coverage.answered, answer.coverage.asked
    return f": {answered} of {asked} areas in {format_ms(answer.elapsed_ms)}"


def status_line(answer: Answer, slo: Slo) -> Text:
    """Status, coverage and time against the SLO, in one line."""
    if is_empty(answer):
        text = Text("empty", style=f"bold {STYLES['partial']}")
        areas = [labelled(gap.area, gap.name) for gap in answer.missing]
        text.append(
            f": no readings in the window, of {few(areas, MAX_EMPTY)}",
            style="not bold default",
        )
        return text
    has_none = answer.status == "partial" and not answer.coverage.answered
    text = Text("no answer" if has_none else answer.status, style=f"bold {STYLES[answer.status]}")
    if answer.status == "refused":
        text.append(f": {answer.message or answer.reason}", style="not bold default")
        return text
    # Only a complete answer in time meets an SLO.
    kept = "within its SLO" if answer.slo_met else "over its SLO"
    more = ""
    if answer.status == "partial":
        is_late = answer.elapsed_ms > slo.latency_ms
        kept = "SLO missed" if is_late or has_none else "in time but not whole"
        if is_timeless(answer):
            kept = "SLO missed" if is_late else ""
            more = "; more time would not bring the others"
    objective = f", {kept} ({format_slo(slo)})" if kept else ""
    text.append(f"{_covered(answer)}{objective}{more}", style="not bold default")
    return text


def gap_lines(answer: Answer, most: int = EACH) -> list[str]:
    """One line for each reason for missing areas, which names `most` of them."""
    return by_reason(
        [(labelled(gap.area, gap.name), reason_of(gap)) for gap in answer.missing], most
    )


def by_reason(gaps: Iterable[tuple[str, str]], most: int = EACH) -> list[str]:
    """Areas with the reason why each is missing: one line for each reason, which names `most`."""
    areas: dict[str, list[str]] = {}
    for area, reason in gaps:
        areas.setdefault(reason, []).append(area)
    return [f"missing {few(names, most)}: {reason}" for reason, names in areas.items()]


def reason_of(gap: Missing) -> str:
    """Why an area is missing."""
    reason = GAPS.get(gap.reason, gap.reason)
    if gap.channels:
        reason += f"; there are {', '.join(sorted(gap.channels))}"
    if gap.message:
        # Which IAD it is, is said there.
        reason = gap.message if gap.reason in OF_IADS else f"{reason}; {gap.message}"
    if gap.nearest:
        reason += f"; did you mean {gap.nearest[0]}?"
    return reason


def _task_table(answer: Answer, records: Mapping[str, TaskRecord]) -> Table:
    columns = ["task", "budget", "areas", "time"]
    if records:
        columns += ["unloaded", "deadline"]
    table = plain_table(*columns)
    for task in answer.tasks:
        cells = [
            task.iad,
            f"p{percentile_in_words(task.percentile)} ≤ {format_limit(task.budget_ms)}",
            f"{task.coverage.answered}/{task.coverage.asked}",
            format_ms(task.total_ms),
        ]
        if records:
            cells += _deadline(records.get(task.iad))
        table.add_row(*cells)
    return table


def _deadline(record: TaskRecord | None) -> list[str]:
    if record is None or record.unloaded_ms is None or record.queueing_budget_ms is None:
        return ["–", "–"]
    return [format_ms(record.unloaded_ms), f"+{record.queueing_budget_ms:.0f} ms"]
