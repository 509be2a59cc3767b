"""The history against a plain list: several streams, clock steps and corrections, crashes."""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.history.stream import Stream
from agent.edge.timebase import Correction
from tests.edge.history_oracle import START_MS, Oracle, Taken, check_window, open_history
from tests.examples import examples

SENSORS = (
    ("dht", ("temperature", "humidity"), False),
    ("co2", ("co2",), True),
    ("door", ("open",), False),
)
FILES = ("", "-wal", ".tail")
number = st.sampled_from([20.125, -5.0, 0.0, 1e30, math.nan, math.inf]) | st.floats(
    0, 100, width=32
)


class Model(RuleBasedStateMachine):
    """Each rule does to the history what it notes in the list; any look at either is the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.copies = 0
        self.oracle = Oracle()
        self.boot = 1
        self.monotonic_ms = 5_000
        self.offset_ms = START_MS
        self.synchronised = False
        self.size = 3
        self.path = self.folder / "0.sqlite"
        self.open()

    def open(self) -> None:
        self.history = open_history(self.path, f"boot-{self.boot}", group_readings=self.size)
        assert self.history.report == ""
        self.reader = Reader(self.history)
        self.streams: list[Stream] = [
            self.history.stream(name, channels, keeps_raw=raw) for name, channels, raw in SENSORS
        ]

    @rule(
        which=st.integers(0, 2),
        gap=st.sampled_from([1, 999, 1_000, 30_000]),
        readings=st.integers(1, 9),
        values=st.lists(number, min_size=4, max_size=4),
        flags=st.lists(st.sampled_from([0, 0, 0, 1, 4, 20, 16, 48]), min_size=4, max_size=4),
        age_ms=st.sampled_from([0, 0, 250]),
        source=st.booleans(),
        spread=st.booleans(),
    )
    def append(
        self,
        which: int,
        gap: int,
        readings: int,
        values: list[float],
        flags: list[int],
        age_ms: int,
        source: bool,
        spread: bool,
    ) -> None:
        for i in range(readings):
            at = (which + i * spread) % 3
            name, channels, raw = SENSORS[at]
            n = len(channels)
            self.monotonic_ms += gap
            taken = Sample(
                self.monotonic_ms + self.offset_ms,
                self.monotonic_ms,
                self.synchronised,
                tuple(values[:n]),
                12_345 + i if source else None,
                age_ms,
                tuple(flags[:n]) if any(flags[:n]) else (),
                tuple(values[-n:]) if raw else None,
            )
            stream = self.streams[at]
            stream.append(taken)
            self.oracle.taken.append(
                Taken(name, f"boot-{self.boot}", channels, _stored(taken), self._begun(at, taken))
            )

    def _begun(self, which: int, taken: Sample) -> int:
        """When the group of a reading just appended began, told by the history itself."""
        groups = self.streams[which].groups
        if groups:
            return groups[-1].first.monotonic_ms
        db = self.history._db
        assert db is not None
        (begun,) = db.execute(
            "SELECT first_monotonic_ms FROM groups WHERE sensor = ? AND boot = ?"
            " AND last_monotonic_ms = ?",
            (SENSORS[which][0], f"boot-{self.boot}", taken.monotonic_ms),
        ).fetchone()
        return int(begun)

    @rule(by_ms=st.sampled_from([-1_209_600_000, 1_209_600_000, -7_000, 2_000, 400, -400]))
    def step(self, by_ms: int) -> None:
        self.offset_ms += by_ms

    @rule()
    def synchronise(self) -> None:
        self.synchronised = not self.synchronised

    @rule(
        part=st.sampled_from([0.0, 0.5]),
        offset_ms=st.sampled_from([START_MS, START_MS + 90_000, START_MS - 1_209_600_000]),
        drift_ms=st.sampled_from([0, 0, 3_000]),
        every=st.booleans(),
        synchronised=st.booleans(),
    )
    def correct(
        self, part: float, offset_ms: int, drift_ms: int, every: bool, synchronised: bool
    ) -> None:
        now_ms = self.monotonic_ms + 1
        correction = Correction(
            round(part * now_ms), now_ms, offset_ms, offset_ms + drift_ms, every, synchronised
        )
        self.history.correct(correction)
        self.oracle.correct(f"boot-{self.boot}", correction)

    @rule()
    def commit(self) -> None:
        self.history.commit()

    @rule(reboot=st.booleans())
    def reopen(self, reboot: bool) -> None:
        self.reader.close()
        self.history.close()
        self._again(reboot)

    @rule(reboot=st.booleans())
    def crash(self, reboot: bool) -> None:
        """Go on with a copy of the files as they are: what was committed is there."""
        self.history.commit()
        self.copies += 1
        copy = self.folder / f"{self.copies}.sqlite"
        for suffix in FILES:
            if Path(f"{self.path}{suffix}").exists():
                shutil.copy(f"{self.path}{suffix}", f"{copy}{suffix}")
        self.reader.close()
        self.history.close()
        self.path = copy
        self._again(reboot)

    def _again(self, reboot: bool) -> None:
        self.boot += reboot
        self.size = 3 if self.size == 50 else 50
        self.open()

    @precondition(lambda self: self.oracle.taken)
    @rule(
        data=st.data(),
        asked=st.sampled_from(
            [(), ("temperature",), ("co2", "open"), ("humidity", "co2_raw"), ("co2_raw", "co2")]
        ),
    )
    def look(self, data: st.DataObject, asked: tuple[str, ...]) -> None:
        around = [
            each.sample.time_ms
            for each in data.draw(
                st.lists(st.sampled_from(self.oracle.taken), min_size=1, max_size=2)
            )
        ]
        # Often exactly at a reading, which is inside at the start and outside at the end.
        start = min(around) + data.draw(st.integers(-1, 1))
        check_window(
            self.reader, self.oracle, start, max(around) + data.draw(st.integers(0, 2)), asked
        )

    @invariant()
    def all_is_there(self) -> None:
        check_window(self.reader, self.oracle, 0, 2**53)
        assert self.history.notices() == []

    def teardown(self) -> None:
        self.reader.close()
        self.history.close()
        shutil.rmtree(self.folder)


def _stored(taken: Sample) -> Sample:
    """What cannot be held is missing."""

    def held(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(x if abs(x) < 3.4e38 else math.nan for x in values)

    return taken._replace(
        values=held(taken.values), raw=held(taken.raw) if taken.raw is not None else None
    )


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
