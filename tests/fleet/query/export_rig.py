"""`fleet export` against a master that answers as a test says."""

from __future__ import annotations

import csv
import math

from agent.wire.about import About, ChannelInfo
from agent.wire.buckets import Buckets, ChannelBuckets
from agent.wire.messages import (
    Answer,
    AreaResult,
    Coverage,
    Series,
    Slo,
    Window,
)
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from fleet.query import export

T_MS = 1_795_000_000_000
WINDOW = Window(start_ms=0, end_ms=9)


def series(area, times, channels, quality=None):
    return AreaResult(
        area,
        series=Series(
            Int64Column.of(times),
            {name: Float32Column.of(values) for name, values in channels.items()},
            quality={name: UInt8Column.of(each) for name, each in (quality or {}).items()},
        ),
    )


def answer(results=(), missing=(), status="complete", reason=None, message=""):
    return Answer(
        id="q1", status=status, elapsed_ms=5.0, slo_met=True,
        coverage=Coverage(len(results), len(results) + len(missing)),
        results=tuple(results), missing=tuple(missing), reason=reason, message=message,
    )  # fmt: skip


class Master:
    """Answers queries for the series of two rooms, a reading every 10 s; as `trouble` says."""

    def __init__(self, trouble=None):
        self.asked = []
        self.trouble = trouble or {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def about(self, areas, **_):
        channels = (ChannelInfo("humidity", "percent"), ChannelInfo("noise", "decibel"))
        return answer([AreaResult(area, about=About(channels)) for area in areas])

    def query(self, areas, *, window, **options):
        self.asked.append((window, options))
        found = self.trouble.get(len(self.asked))
        if isinstance(found, Exception):
            raise found
        if found is not None:
            return found
        if options["form"] == "buckets":
            return answer([self.buckets(window, round(options["bucket_s"] * 1e3))])
        first_ms = -(-window.start_ms // 10_000) * 10_000
        times = range(first_ms, window.end_ms, 10_000)
        values = [20 + time_ms / 10_000 % 7 for time_ms in times]
        return answer([series(area, times, {"temperature": values}) for area in areas])

    @staticmethod
    def buckets(window, length_ms):
        count = -(-(window.end_ms - window.start_ms) // length_ms)
        counts = [5 if n % 2 == 0 else 0 for n in range(count)]
        values = [21.5 if each else math.nan for each in counts]
        column = Float32Column.of(values)
        of = ChannelBuckets(UInt32Column.of(counts), column, column, column)
        return AreaResult("b1/r1", buckets=Buckets(window.start_ms, length_ms, {"humidity": of}))


def exporter(monkeypatch, tmp_path):
    """The command against a master: its status, and pauses."""

    def run(
        master, window, target="out.csv", form="series", kind="csv", bucket_s=None, channels=()
    ):
        monkeypatch.setattr(export, "Client", lambda *_: master)
        pauses = []
        options = export.Options(
            master="tcp://127.0.0.1:1", areas=("b1/r1", "b1/r2"), window=window, channels=channels,
            form=form, slo=Slo(99.0, 10_000.0), timeout_ms=None, service="default",
            target=None if target is None else tmp_path / target, kind=kind, bucket_s=bucket_s,
        )  # fmt: skip
        status = export.run(options, now_ms=lambda: T_MS, pause=pauses.append)
        return status, pauses

    return run


def rows_of_file(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
