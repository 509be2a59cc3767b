"""`fleet export`: the readings or aggregates that a query gives, into a CSV or Parquet file."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.client import Client, NoReplyError
from agent.client.unknown_areas import is_unknown
from agent.net.keys import KeyFiles
from agent.scheduling.held import ends_ms, is_less
from agent.wire.base import QueryForm
from agent.wire.buckets import MAX_BUCKETS
from agent.wire.listing import few
from agent.wire.messages import Answer, Missing, Slo, Window
from fleet.common import exits
from fleet.query import replies, words
from fleet.query.export_files import Sink, csv_file, parquet_file
from fleet.query.export_rows import COLUMNS, Units, rows_of, units_of, values_of
from fleet.query.slices import Slices
from fleet.terminal import output, screen
from fleet.terminal.summary import not_given

# What may be otherwise a moment later: a slice is asked for again, after these pauses.
PASSING: Final = ("over_rate", "overloaded")
LATE: Final = ("timeout", "iad_unreachable")
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0)
MAX_NAMED: Final = 16
MAX_AWAITED: Final = 2
# Slices made shorter for one area: a node that says anything must not hold up the others.
MAX_SHORTER: Final = 16
FIRST_BUCKETS: Final = 100
ABOUT_MS: Final = 5_000.0


class Options(Struct, frozen=True):
    """Source, window and target of an export; `target` None is stdout."""

    master: str
    areas: tuple[str, ...]
    window: Window
    channels: tuple[str, ...]
    form: QueryForm
    slo: Slo
    timeout_ms: float | None
    service: str
    target: Path | None
    kind: str
    bucket_s: float | None = None


class NothingError(Exception):
    """No area has an answer."""


class RefusedError(Exception):
    """The master refused the query; the text says why."""


class Told:
    """Result of all slices: rows, areas, and what is missing of how many of them."""

    def __init__(self, channels: Sequence[str]) -> None:
        self.rows = 0
        self.slices = 0
        self.areas: set[str] = set()
        self.not_given = channels
        self._ends: dict[str, tuple[int, int]] = {}
        self._missing: Counter[tuple[str, str]] = Counter()
        self._first: dict[tuple[str, str], Missing] = {}

    def take(self, answer: Answer) -> None:
        """One more slice was answered."""
        self.slices += 1
        if answer.results:
            self.not_given = not_given(answer, self.not_given)
        for each in answer.results:
            if each.stale_ms is None:
                self.areas.add(each.area)
                if (ends := ends_ms(each)) is not None:
                    first_ms, last_ms = self._ends.get(each.area, ends)
                    self._ends[each.area] = min(first_ms, ends[0]), max(last_ms, ends[1])
        for gap in answer.missing:
            key = (gap.area, gap.reason)
            self._missing[key] += 1
            self._first.setdefault(key, gap)

    def missing(self) -> list[tuple[Missing, int]]:
        """Missing areas, and of how many slices. An area without readings in one slice is none if
        it has some in another."""
        return [
            (self._first[key], count)
            for key, count in sorted(self._missing.items())
            if key[1] != "no_data" or key[0] not in self.areas
        ]

    def held(self, asked_s: float) -> tuple[str, float, int] | None:
        """The area whose readings cover least of the window, the seconds covered, and the number of
        areas with clearly incomplete coverage; None if all are covered. An area that did not answer
        in some slices is said to be missing there."""
        away = {area for area, reason in self._missing if reason != "no_data"}
        spans = [
            ((ends[1] - ends[0]) / 1e3, area)
            for area, ends in self._ends.items()
            if area not in away and is_less(ends, asked_s)
        ]
        if not spans:
            return None
        covered_s, area = min(spans)
        return area, covered_s, len(spans)


def run(
    options: Options,
    keys: KeyFiles | Sequence[KeyFiles] | None = None,
    *,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Ask slice by slice, and write what comes; the exit status."""
    told = Told(options.channels)
    try:
        with Client(options.master, keys) as client, _opened(options) as sink:
            units = _units(client, options)
            for answer in _answers(client, options, told, now_ms(), pause):
                told.rows += sink.write(rows_of(answer, options.form, units))
            if not told.areas:
                raise NothingError
    except NothingError:  # the file, if there is one, stays as it was
        return _say(told, options)
    except RefusedError as error:
        return replies.refused(str(error), options.master)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{options.master} is no answer to a query", "public")
    except BrokenPipeError:
        raise
    except OSError as error:
        where = options.target or "stdout"
        # Not `strerror`, where Parquet's writer has words of its own.
        why = os.strerror(error.errno) if error.errno else error
        return exits.fail(f"{where}: {why}", exits.FAILED)
    return _say(told, options)


def _opened(options: Options) -> AbstractContextManager[Sink]:
    columns = COLUMNS[options.form]
    if options.kind == "csv":
        return csv_file(options.target, columns)
    assert options.target is not None
    return parquet_file(options.target, columns)


def _units(client: Client, options: Options) -> Units:
    """The units that the nodes told; none of a master that does not know the question."""
    about = client.about(
        options.areas, service=options.service, timeout_ms=ABOUT_MS, label="fleet export"
    )
    return units_of(about)


def _answers(
    client: Client,
    options: Options,
    told: Told,
    now_ms: int,
    pause: Callable[[float], object],
) -> Iterator[Answer]:
    """The answers of all slices, by time. RefusedError, NoReplyError."""

    def ask(window: Window) -> Answer:
        return client.query(
            options.areas,
            window=window,
            percentile=options.slo.percentile,
            latency_ms=options.slo.latency_ms,
            channels=options.channels,
            form=options.form,
            bucket_s=options.bucket_s,
            timeout_ms=options.timeout_ms,
            service=options.service,
            label="fleet export",
        )

    patience = Patience(pause)
    if options.form == "aggregate":
        answer = patience.answer(lambda: ask(options.window), is_known=False)
        told.take(answer)
        yield answer
        return
    slices = _slices(*options.window.bounds_ms(now_ms), options.bucket_s)
    # How often a slice was made shorter for an area.
    shorter: Counter[str] = Counter()
    with _bar(options) as advance:
        while not slices.is_done:
            answer = patience.answer(lambda: ask(slices.window), is_known=told.slices > 0)
            large = {
                gap.area: gap.longest_s
                for gap in answer.missing
                if gap.reason == "too_large" and shorter[gap.area] < MAX_SHORTER
            }
            if large:
                shorter.update(large.keys())
                if slices.is_too_long(min((s for s in large.values() if s), default=None)):
                    continue
                # They do not fit the shortest one: the others are not asked so any longer.
                shorter.update(dict.fromkeys(large, MAX_SHORTER))
            told.take(answer)
            yield answer
            slices.answered(values_of(answer))
            advance(slices.share, told.rows)


def _slices(start_ms: int, end_ms: int, bucket_s: float | None) -> Slices:
    """Those of a window; with buckets each begins with one, at a multiple of their length."""
    if bucket_s is None:
        return Slices(start_ms, end_ms)
    bucket_ms = max(1, round(bucket_s * 1e3))
    return Slices(
        start_ms // bucket_ms * bucket_ms,
        end_ms,
        first_ms=FIRST_BUCKETS * bucket_ms,
        step_ms=bucket_ms,
        longest_ms=MAX_BUCKETS * bucket_ms,
    )


class Patience:
    """Asks again, after pauses that grow, where a moment may make the answer better. Areas that
    were late to the end are not waited for in the next slices: a long window has hundreds."""

    def __init__(self, pause: Callable[[float], object]) -> None:
        self._pause = pause
        self._given_up: set[str] = set()

    def answer(self, ask: Callable[[], Answer], *, is_known: bool = True) -> Answer:
        """The answer; after no reply only a master that `is_known` is asked again. RefusedError,
        NoReplyError."""
        for number, pause_s in enumerate(PAUSES_S):
            try:
                answer = ask()
            except NoReplyError:
                if not is_known:
                    raise
            else:
                late = _late(answer)
                awaited = [area for area in late if area not in self._given_up]
                if not (answer.reason in PASSING or awaited):
                    break
                if awaited and number == 0:
                    reason = screen.GAPS[late[awaited[0]]]
                    output.say(f"waiting for {few(awaited, MAX_AWAITED)}: {reason}")
            self._pause(pause_s)
        else:
            answer = ask()
        self._given_up = set(_late(answer))
        if answer.status == "refused":
            raise RefusedError(answer.message or answer.reason or "")
        return answer


def _late(answer: Answer) -> dict[str, str]:
    """The areas that a moment may bring, and why each is missing."""
    return {gap.area: gap.reason for gap in answer.missing if gap.reason in LATE}


@contextmanager
def _bar(options: Options) -> Iterator[Callable[[float, int], object]]:
    """A progress bar on the terminal, unless the rows themselves go there."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    console = screen.progress()
    is_shown = console.is_terminal and (options.target is not None or not sys.stdout.isatty())
    columns = (
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        output.words("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share, rows: progress.update(
            task, completed=share, description=f"{rows:,} readings"
        )


def _part(count: int, slices: int) -> str:
    return "" if count == slices else f", of {count} of {slices} parts of the window"


def _say(told: Told, options: Options) -> int:
    """Say on stderr what was written, and what is missing; the exit status."""
    missing = told.missing()
    unknown = [gap for gap, _ in missing if is_unknown(gap)]
    missing = [(gap, count) for gap, count in missing if not is_unknown(gap)]
    wrong = words.no_area(unknown, options.service)
    others = [gap for gap, _ in missing]
    if others and not told.areas and all(gap.reason == "no_channel" for gap in others):
        wrong, missing = [*wrong, words.no_channel(others, options.channels)], []
    gaps = [(gap.area, screen.reason_of(gap) + _part(count, told.slices)) for gap, count in missing]
    for text in screen.by_reason(gaps, MAX_NAMED):
        output.say(text)
    if not told.areas:
        target = options.target
        kept = f"; {target} is as it was" if target is not None and target.is_file() else ""
        nothing = "; ".join([*wrong, f"nothing to export{kept}"])
        return exits.fail(nothing, exits.USAGE if wrong else exits.FAILED)
    what = {"series": "readings", "aggregate": "aggregates"}.get(options.form, "buckets")
    where = options.target or "stdout"
    areas = f"{len(told.areas)} area{'' if len(told.areas) == 1 else 's'}"
    output.say(f"{told.rows:,} {what} of {areas} written to {where}")
    if told.not_given:
        output.say(words.nobody_gives(told.not_given))
    asked_s = options.window.length_s
    if (held := told.held(asked_s)) is not None:
        output.say(words.held_only(*held, asked_s, is_most=options.form == "buckets"))
    if wrong:
        return exits.fail("; ".join(wrong), exits.USAGE)
    return exits.FAILED if missing else exits.DONE
