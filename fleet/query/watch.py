"""`fleet watch`: a standing query, printed one line per round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from agent.client import Client, NoReplyError, Rounds, WatchError
from agent.net.keys import KeyFiles
from agent.scheduling.watches.scheduler import LAG_S
from agent.wire.base import Form
from agent.wire.listing import few
from agent.wire.messages import Answer, Slo
from agent.wire.watches import Round, Style
from fleet.common import exits
from fleet.query import replies, words
from fleet.query.subscribe import ABOUT_MS, notification_line
from fleet.terminal import screen
from fleet.terminal.summary import (
    AreaSummary,
    ChannelSummary,
    channels_of,
    labelled,
    names_in,
    summarize,
)
from fleet.terminal.times import UNKNOWN_TIME, local
from fleet.terminal.units import format_duration, format_ms, format_slo
from fleet.terminal.wrapping import whole

CHANNELS: Final = "an area's readings, and its channels: lowest, mean and highest value"
# Column widths: room for a number of six digits, a date, "partial" and a time in seconds.
ROUND: Final = "{:>6}  {:<15}  {:>8}  {:>7}  {:<8}"
MAX_AREAS_NAMED: Final = 4
MAX_ALERTS_SHOWN: Final = 4
# A round is marked if it arrives this much after it was due; smaller clock differences are
# harmless.
LATE_S: Final = 5.0
DEFAULT_SLO: Final = Slo(99.0, 500.0)  # as in `Client.watch`


class Options(Struct, frozen=True):
    """Options of the command line."""

    master: str
    areas: tuple[str, ...]
    style: Style
    interval_s: float
    window_s: float | None
    lasting_s: float | None
    trigger: str
    on: str
    slo: Slo
    channels: tuple[str, ...]
    form: Form
    timeout_ms: float | None
    service: str
    rounds: int | None
    resume: tuple[str, int] | None
    detach: bool
    as_json: bool


class Tally(Struct):
    """Rounds received so far."""

    rounds: int = 0
    missed: int = 0
    refused: int = 0
    empty: int = 0
    partial: int = 0  # in time, though areas are missing
    timeless: int = 0  # of these: more time would not bring the missing areas
    late: Answer | None = None  # the first that lacks areas which more time might bring

    def take(self, answer: Answer, slo: Slo = DEFAULT_SLO) -> None:
        """One more round."""
        self.rounds += 1
        self.missed += (how := _how(answer, slo)) == "missed"
        self.refused += how == "refused"
        self.partial += how == "partial"
        self.timeless += how == "partial" and screen.is_timeless(answer)
        self.empty += how == "empty"
        if self.late is None and any(gap.reason == "timeout" for gap in answer.missing):
            self.late = answer


class Remarks(Struct):
    """Those that were made: each kind once."""

    wrong: bool = False
    held: bool = False

    def new(self, wrong: Sequence[str], not_held: str) -> list[str]:
        """Those to make now: about names that nobody knows, and windows that are not held."""
        told = [] if self.wrong else [*wrong]
        told += [] if self.held or not not_held else [not_held]
        self.wrong, self.held = self.wrong or bool(wrong), self.held or bool(not_held)
        return told


def run(options: Options, keys: KeyFiles | Sequence[KeyFiles] | None = None) -> int:
    """Watch until the end, or Ctrl-C; returns the exit status."""
    try:
        with Client(options.master, keys) as client:
            if wrong := _nowhere(client, options):
                return exits.fail(wrong, exits.USAGE)
            with _watch(client, options) as rounds:
                return _show(rounds, options)
    except KeyboardInterrupt:
        return exits.fail("interrupted", exits.INTERRUPTED)
    except WatchError as error:
        return replies.refused(str(error), options.master)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{options.master} is none to a watch", "public")


def _nowhere(client: Client, options: Options) -> str:
    """That nobody knows any of the areas; empty: somebody may. No round says so before it is
    due."""
    if options.resume is not None:
        return ""
    answer = client.about(
        options.areas, service=options.service, timeout_ms=ABOUT_MS, label="fleet watch"
    )
    there, wrong = words.apart(answer, options.slo, service=options.service)
    # Why it is refused, if it is, says the watch's refusal.
    return "; ".join(wrong) if there is None else ""


def _watch(client: Client, options: Options) -> Rounds:
    return client.watch(
        options.areas,
        style=options.style,
        interval_s=options.interval_s,
        window_s=options.window_s,
        lasting_s=options.lasting_s,
        trigger=options.trigger,
        on=options.on,
        percentile=options.slo.percentile,
        latency_ms=options.slo.latency_ms,
        channels=options.channels,
        form=options.form,
        timeout_ms=options.timeout_ms,
        service=options.service,
        label="fleet watch",
        resume=options.resume,
        detach=options.detach,
    )


def _show(rounds: Rounds, options: Options) -> int:
    out, err = screen.console(), screen.console(stderr=True)
    tally = Tally()
    if not options.as_json:
        screen.line(err, _headline(rounds, options), style="dim")
        screen.line(err, CHANNELS, style="dim")
        screen.line(out, header(), "bold")
    if rounds.message:
        screen.line(err, rounds.message, style="yellow")
    rounds.on_word = lambda word: screen.line(err, word, style="yellow")
    try:
        status = _follow(rounds, options, tally, (out, err))
    except KeyboardInterrupt:
        status = exits.INTERRUPTED
    except WatchError as error:
        status = exits.fail(f"refused: {error}", exits.REFUSED)
        if not tally.rounds:
            return status
    rounds.acknowledge()
    if status == exits.USAGE:
        rounds.cancel()
        return status
    if not options.detach:
        rounds.cancel()  # the reply gives the number of rounds
    _sum_up(err, tally, options, rounds.looked_at)
    if status == exits.DONE and tally.rounds == tally.refused > 0:
        status = exits.REFUSED
    if options.detach and rounds.is_open:
        again = whole(f"--resume {rounds.id} --after {rounds.after}")
        screen.line(err, f"left open; go on with the same options and {again}")
    return status


def _follow(rounds: Rounds, options: Options, tally: Tally, to: tuple[Console, Console]) -> int:
    """Show the rounds as they come; returns the exit status: nobody may know any of its names."""
    out, err = to
    remarks, window_s = Remarks(), options.window_s or options.interval_s
    for each in islice(rounds, options.rounds):
        there, wrong = words.apart(each.answer, options.slo, options.channels, options.service)
        for_nothing = there is None and not tally.rounds and options.resume is None
        known = each if there is None else replace(each, answer=there)
        tally.take(known.answer, options.slo)  # before it is shown: Ctrl-C may follow at once
        if options.as_json:
            replies.write_json(each)
        if for_nothing:
            return exits.fail("; ".join(wrong), exits.USAGE)  # it would be so in each round
        for text in remarks.new(wrong, words.not_held(known.answer, window_s)):
            screen.line(err, text, style="yellow")
        if not options.as_json:
            for drawn in round_lines(known, time.time(), options.slo):
                screen.line(out, drawn)
    return exits.DONE


def _how(answer: Answer, slo: Slo) -> Literal["kept", "missed", "partial", "empty", "refused"]:
    """How a round stands to its SLO."""
    if answer.status == "refused":
        return "refused"
    if answer.elapsed_ms > slo.latency_ms:
        return "missed"
    if screen.is_empty(answer):
        return "empty"
    if screen.is_timeless(answer):
        return "partial"
    if answer.status == "partial":
        return "partial" if answer.coverage.answered else "missed"
    return "kept" if answer.slo_met else "missed"


def _headline(rounds: Rounds, options: Options) -> str:
    at_most = "at most " if options.on else ""
    what = f"{options.style}, {at_most}every {format_duration(options.interval_s)}"
    if options.window_s is not None:
        what += f", of the last {format_duration(options.window_s)}"
    if options.on:
        what += f" on {options.on}"
    if options.trigger:
        what += f" when {options.trigger}"
    if options.lasting_s is not None:
        what += f", for {format_duration(options.lasting_s)}"
    return f"watch {rounds.id}: {what}, {format_slo(options.slo)}; Ctrl-C ends it"


# --- a round --------------------------------------------------------------------------------------


def header() -> str:
    """The column headings for the first of `round_lines`."""
    return ROUND.format("round", "window's end", "areas", "time", "SLO").rstrip()


def round_lines(each: Round, now_s: float, slo: Slo = DEFAULT_SLO) -> list[Text]:
    """One line for a round, its areas below it, and the missing ones. It arrived at `now_s` by the
    wall clock."""
    answer = each.answer
    end = local(each.end_ms)
    coverage = f"{answer.coverage.answered}/{answer.coverage.asked}"
    if answer.status == "refused":
        coverage = "–"  # nobody looked up how many areas there are
    how, names = _how(answer, slo), names_in(answer)
    head = Text(
        ROUND.format(
            each.number,
            UNKNOWN_TIME if end is None else f"{end:%d %b %H:%M:%S}",
            coverage,
            format_ms(answer.elapsed_ms),
            how,
        ).rstrip()
    )
    colour = {"kept": "green", "refused": "red"}.get(how, "yellow")
    head.stylize(colour, len(head) - len(how))
    lag_s = 0.0 if each.alerts else LAG_S
    late_s = now_s - each.end_ms / 1e3 - lag_s - answer.elapsed_ms / 1e3
    if late_s > LATE_S:
        head.append(f"  late {format_duration(round(late_s))}", style="yellow")
    lines = [head, *_alert_lines(each, names)]
    if each.fired:
        fired = [labelled(area, names.get(area)) for area in each.fired]
        text = f"{'':8}fired: {few(fired, MAX_AREAS_NAMED)}"
        lines.append(Text(text, style="bold magenta"))
    if answer.status == "refused":
        return [*lines, Text(f"{'':8}{answer.message or answer.reason}", style="red")]
    summaries = summarize(answer)
    shown = [area for area in summaries if area.area in each.fired] or summaries
    channels = channels_of(shown)
    width = max((len(area.label) for area in shown), default=0)
    lines += [text for area in shown for text in _area_lines(area, channels, width)]
    if others := len(summaries) - len(shown):
        lines.append(Text(f"{'':8}{others} other area{'s' * (others != 1)}", style="dim"))
    lines += [
        Text(f"{'':8}{gap}", style="yellow") for gap in screen.gap_lines(answer, MAX_AREAS_NAMED)
    ]
    return lines


def _alert_lines(each: Round, names: Mapping[str, str]) -> Iterable[Text]:
    shown = each.alerts[-MAX_ALERTS_SHOWN:]
    if before := each.alert_count - len(shown):
        yield Text(f"{'':8}{before} alert{'s' * (before != 1)} before these", style="dim")
    for alert in shown:
        # How late it is, and the day, says the round.
        line = notification_line(alert, alert.time_ms / 1e3, names=names, dated=False)
        yield Text(" " * 8).append_text(line)


def _area_lines(area: AreaSummary, channels: list[str], width: int) -> Iterable[Text]:
    """One line for an area; one per channel if their units do not tell them apart."""
    head = f"{'':8}{area.label:<{width}}  {area.n:>5}"
    # Two channels side by side leave no room for the word.
    if len(channels) <= 1 or not screen.told_by_units(channels):
        head += f" {'reading' if area.n == 1 else 'readings':<8}"
    if screen.told_by_units(channels):
        yield _area_line(head, area, channels)
        return
    yield Text(head.rstrip(), style="dim")
    longest = max(map(len, channels))
    for name, channel in sorted(area.channels.items()):
        text = f"{'':10}{name:<{longest}}  {_extent(channel)} {screen.unit_of(name)}"
        drawn = Text(text.rstrip(), style="dim")
        if notes := screen.notes_on(channel):
            drawn.append(f"  {notes}", style="not dim yellow")
        yield drawn


def _area_line(head: str, area: AreaSummary, channels: list[str]) -> Text:
    text = head
    for name in channels:
        channel = area.channels.get(name)
        numbers = f"{'–':>20}" if channel is None else _extent(channel)
        text += f"  {numbers} {screen.unit_of(name)}"
    drawn = Text(text, style="dim")
    notes = [f"{name} {told}" for name, c in area.channels.items() if (told := screen.flagged(c))]
    if area.age_ms:
        notes.append(f"age {format_ms(area.age_ms)}")
    if notes:
        drawn.append(f"  {'; '.join(notes)}", style="not dim yellow")
    return drawn


def _extent(channel: ChannelSummary) -> str:
    low, mean, high = map(screen.format_value, (channel.min, channel.mean, channel.max))
    return f"{low:>6} {mean:>6} {high:>6}"


def _sum_up(err: Console, tally: Tally, options: Options, looked_at: int) -> None:
    if options.on and not tally.rounds:
        screen.line(err, "no alert came")
    else:
        screen.line(err, summary_line(tally, options.slo, looked_at, options.trigger))
    if tally.late is not None:
        screen.line(err, replies.waited(tally.late, options.timeout_ms, options.slo), "yellow")


def summary_line(tally: Tally, slo: Slo, looked_at: int, trigger: str = "") -> str:
    """The number of rounds, and of those that missed the SLO or were refused; with a `trigger`, out
    of `looked_at` rounds."""
    if not tally.rounds:
        if not trigger or not looked_at:
            return "no round came"
        return f"the trigger never held in {looked_at} round{'s' * (looked_at != 1)}"
    text = f"{tally.rounds} round{'s' * (tally.rounds != 1)}, "
    late, objective = tally.missed, format_slo(slo)
    text += f"{late} missed the SLO ({objective})" if late else f"none missed {objective}"
    if tally.refused:
        text += f", {tally.refused} refused: nothing was looked at then"
    if tally.empty:
        text += f", {tally.empty} empty"
    if not_whole := tally.partial - tally.timeless:
        text += f", {not_whole} in time but not whole"
    if tally.timeless:
        text += f", {tally.timeless} partial: more time would not bring the others"
    return text
