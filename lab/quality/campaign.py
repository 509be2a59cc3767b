"""The measurements: labelled faults of the recording, injected ones, and synthetic ones at 1 Hz."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from lab import spawned
from lab.quality.injection import Fault, Faults
from lab.quality.judging import Found, judge
from lab.quality.recordings import (
    STEP_S,
    UNITS,
    WEEK_S,
    Label,
    Recording,
    Series,
)
from lab.statistics import Interval, share
from sensors.quality.flags import BAD, CHECKSUM, DRIFT, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import limits_for

# The flags that correspond to each label.
SAYING: Final = {
    "gap": NO_RESPONSE | CHECKSUM,
    "spike": SPIKE | OUT_OF_RANGE,
    "broken": BAD & ~NO_RESPONSE | DRIFT,
    "offset": OUT_OF_RANGE | DRIFT,
}
Mode = Literal["short", "stuck", "drift"]
# Noise of the synthetic 1 Hz series, standard deviation; a DHT22 repeats within 0.1 °C and 0.3 %.
NOISE: Final = {
    "quiet": {"temperature": 0.0, "humidity": 0.0},
    "noisy": {"temperature": 0.1, "humidity": 0.5},
}
SENSORS: Final = ("a", "b", "c")  # co-located, at 1 Hz; faults go into the first
SPREAD: Final = {"temperature": 0.3, "humidity": 2.0}  # between them: half a DHT22's accuracy
QUANTUM: Final = 0.1


class Trial(Struct, frozen=True):
    """One fault to be found; `delay_s` from its start until it was reported, None if never."""

    channel: str
    kind: str
    size: str
    delay_s: float | None


class Alarms(Struct, frozen=True):
    """False alarms, in `weeks` weeks: of rooms, with all their channels, in the recording; of
    single channels where faults are injected."""

    weeks: float
    told: tuple[str, ...]


class Result(Struct, frozen=True):
    """The results of one part of the campaign."""

    trials: list[Trial]
    alarms: Alarms

    @classmethod
    def of(cls, results: Iterable[Result]) -> Result:
        """The sum of the results."""
        trials: list[Trial] = []
        told: list[str] = []
        weeks = 0.0
        for result in results:
            trials += result.trials
            told += result.alarms.told
            weeks += result.alarms.weeks
        return cls(trials, Alarms(weeks, tuple(told)))


class Real(Struct, frozen=True):
    """The unmodified recording: all reported faults, by channel; the labels that were missed; the
    faults without a label, in all rooms and in the healthy ones."""

    found: dict[str, list[Found]]
    trials: list[Trial]
    missed: list[Label]
    alarms: Alarms
    healthy: Alarms


def on_minutes(channel: str, rooms: dict[str, Series], first_s: float) -> list[Found]:
    """The faults that the checks with default limits report in the rooms of one floor."""
    return judge(rooms, limits_for(channel, UNITS[channel], {}), first_s, STEP_S)


def real(recording: Recording, labels: Sequence[Label]) -> Real:
    """Judge the whole recording, and compare with the labels."""
    found = {
        channel: [
            one
            for rooms in recording.floors(channel).values()
            for one in on_minutes(channel, rooms, recording.first_s)
        ]
        for channel in recording.series
    }
    trials, missed = [], []
    for label in labels:
        channels = [name for name in recording.series if label.covers(label.room, name)]
        if label.room not in recording.rooms or not channels:
            continue
        # A label of all channels counts as found when it is found in each.
        delays = [_delay(label, found[channel]) for channel in channels]
        told = [delay for delay in delays if delay is not None]
        whole = len(told) == len(delays)
        trials.append(Trial(label.channel, label.kind, "", max(told) if whole else None))
        if not whole:
            missed.append(label)
    sound = healthy(recording, labels)
    return Real(
        found,
        trials,
        missed,
        _unlabelled(recording, found, labels, recording.rooms),
        _unlabelled(recording, found, labels, sound),
    )


def healthy(recording: Recording, labels: Sequence[Label]) -> list[str]:
    """The rooms whose only label is the gap that all rooms share."""
    shared = max(
        (label.start_s for label in labels if label.kind == "gap"),
        key=[label.start_s for label in labels if label.kind == "gap"].count,
        default=0.0,
    )
    by_room: dict[str, list[Label]] = {}
    for label in labels:
        by_room.setdefault(label.room, []).append(label)
    return [
        room
        for room in recording.rooms
        if all(
            label.kind == "gap" and abs(label.start_s - shared) < 5 * STEP_S
            for label in by_room.get(room, ())
        )
    ]


def _delay(label: Label, found: Iterable[Found]) -> float | None:
    """Delay from a label's start to the first corresponding fault reported."""
    said = [
        max(one.told_s - label.start_s, 0.0)
        for one in found
        if one.name == label.room
        and one.flags & SAYING[label.kind]
        and one.overlaps(label.start_s, label.end_s)
    ]
    return min(said, default=None)


def _unlabelled(
    recording: Recording,
    found: dict[str, list[Found]],
    labels: Sequence[Label],
    rooms: Sequence[str],
) -> Alarms:
    told = [
        f"{channel} of room {one.name}: {one.what}"
        for channel, all_found in found.items()
        for one in all_found
        if one.name in rooms
        and not any(
            label.covers(one.name, channel) and one.overlaps(label.start_s, label.end_s)
            for label in labels
        )
    ]
    series = next(iter(recording.series.values()))
    return Alarms(sum(weeks_of(series[room]) for room in rooms), tuple(told))


def weeks_of(series: Series, step_s: float = STEP_S) -> float:
    """Weeks in which there are values."""
    return sum(value == value for value in series) * step_s / WEEK_S


class Piece(Struct, frozen=True):
    """Faults of one mode in one channel of one room; `rooms` are those of its floor."""

    channel: str
    room: str
    mode: Mode
    seed: str
    first_s: float
    rooms: dict[str, Series]


def pieces(recording: Recording, sound: Sequence[str], rounds: int, seed: int) -> Iterator[Piece]:
    """Each mode in each channel of each healthy room, `rounds` times."""
    for channel in recording.series:
        for rooms in recording.floors(channel).values():
            for room in [room for room in rooms if room in sound]:
                for number in range(rounds):
                    for mode in ("short", "stuck", "drift"):
                        text = f"{seed}/{channel}/{room}/{mode}/{number}"
                        yield Piece(channel, room, mode, text, recording.first_s, rooms)


def inject(piece: Piece) -> Result:
    """Inject the faults, and collect the faults reported for that room."""
    faults = Faults(piece.channel, STEP_S, random.Random(piece.seed))
    before = piece.rooms[piece.room]
    put: dict[Mode, Callable[[Series], tuple[Series, list[Fault]]]] = {
        "short": faults.short,
        "stuck": faults.stuck,
        "drift": faults.drift,
    }
    values, injected = put[piece.mode](before)
    found = judge(
        {**piece.rooms, piece.room: values},
        limits_for(piece.channel, UNITS[piece.channel], {}),
        piece.first_s,
        STEP_S,
        {piece.room},
    )
    return _result(piece.channel, before, injected, found, piece.first_s, STEP_S)


class Second(Struct, frozen=True):
    """A room to be turned into three sensors at 1 Hz; `noise` is a key of NOISE."""

    channel: str
    room: str
    noise: str
    seed: str
    series: Series


def seconds(
    recording: Recording,
    sound: Sequence[str],
    rooms: int,
    seed: int,
    *,
    noises: Collection[str] = tuple(NOISE),
    minutes: int | None = None,
) -> Iterator[Second]:
    """Both channels of `rooms` randomly chosen healthy rooms with each of the noises: the whole
    recording, or its first `minutes`."""
    chosen = sorted(random.Random(seed).sample(list(sound), min(rooms, len(sound))))
    for room in chosen:
        for noise in noises:
            for channel in ("temperature", "humidity"):
                series = recording.series[channel][room][:minutes]
                yield Second(channel, room, noise, f"{seed}/{channel}/{room}/{noise}", series)


def every_second(second: Second) -> Result:
    """Three sensors at 1 Hz from a room's means: linear interpolation, each sensor with its own
    offset and noise, in steps of QUANTUM; the first has faults."""
    import numpy as np

    step_s = 1.0
    rng = np.random.default_rng(list(second.seed.encode()))
    minutes = np.array(second.series)
    at = np.arange(0.0, len(minutes) - 1, step_s / STEP_S)
    known = np.flatnonzero(~np.isnan(minutes))
    line = np.interp(at, known, minutes[known])
    line[np.isnan(minutes[at.astype(int)])] = np.nan
    group: dict[str, Series] = {}
    for sensor in SENSORS:
        offset = rng.normal(0.0, SPREAD[second.channel])
        noise = rng.normal(0.0, NOISE[second.noise][second.channel], len(line))
        group[sensor] = (np.round((line + offset + noise) / QUANTUM) * QUANTUM).tolist()
    before = group[SENSORS[0]]
    faults = Faults(second.channel, step_s, random.Random(second.seed))
    group[SENSORS[0]], injected = faults.short(before)
    found = judge(group, limits_for(second.channel, UNITS[second.channel], {}), 0.0, step_s)
    results = [
        _result(
            second.channel,
            before,
            injected if sensor == SENSORS[0] else [],
            [one for one in found if one.name == sensor],
            0.0,
            step_s,
        )
        for sensor in SENSORS
    ]
    return Result.of(results)


def _result(
    channel: str,
    before: Series,
    injected: Sequence[Fault],
    found: Sequence[Found],
    first_s: float,
    step_s: float,
) -> Result:
    spans = [(first_s + f.start * step_s, first_s + f.end * step_s) for f in injected]

    def is_hole(one: Found) -> bool:
        # Gaps of the recording itself.
        start = round((one.began_s - first_s) / step_s)
        return one.flags == NO_RESPONSE and before[start] != before[start]

    told = [one for one in found if not is_hole(one)]
    trials = []
    for fault, (start_s, end_s) in zip(injected, spans, strict=True):
        delays = [one.told_s - start_s for one in told if one.overlaps(start_s, end_s)]
        delay_s = max(min(delays), 0.0) if delays else None
        trials.append(Trial(channel, fault.kind, fault.size, delay_s))
    false = [
        f"{channel}: {one.what}" for one in told if not any(one.overlaps(*span) for span in spans)
    ]
    return Result(trials, Alarms(weeks_of(before, step_s), tuple(false)))


def run_all(work: Callable[[Any], Result], given: Iterable[Any], jobs: int) -> Result:
    """Do all work in `jobs` processes; the results are in the order of the work."""
    with spawned.performing(work, given, jobs, chunk=4) as results:
        return Result.of(results)


class Row(Struct, frozen=True):
    """One kind and size of fault: the number injected, the number found, and their median delay."""

    part: str
    channel: str
    kind: str
    size: str
    n: int
    found: int
    delay_s: float | None

    @property
    def share(self) -> Interval:
        """The share that was found."""
        return share(self.found, self.n)
