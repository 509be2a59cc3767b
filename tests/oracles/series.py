"""Naive twin of `_core.columns.series`: series merged reading by reading."""

import math


def rows(series):
    """The readings of a series: time, source time, age, and by channel its value and flags."""
    count = len(series.time_ms)
    times = series.time_ms.numbers().tolist()
    sources = series.source_time_ms.numbers().tolist() if series.source_time_ms else times
    ages = series.age_ms.numbers().tolist() if series.age_ms else [0] * count
    return [
        (
            times[i],
            sources[i],
            ages[i],
            {name: column.numbers()[i] for name, column in series.values.items()},
            {name: column.data[i] for name, column in series.quality.items()},
        )
        for i in range(count)
    ]


def merged(*parts):
    """All readings by time, in the order of the parts where equal; what one lacks is missing,
    without a flag."""
    channels = dict.fromkeys(name for part in parts for name in part.values)
    flagged = dict.fromkeys(name for part in parts for name in part.quality)
    return [
        (
            time,
            source,
            age,
            {name: values.get(name, math.nan) for name in channels},
            {name: flags.get(name, 0) for name in flagged},
        )
        for time, source, age, values, flags in sorted(
            [row for part in parts for row in rows(part)], key=lambda row: row[0]
        )
    ]


def merged_column(times, parts, default):
    """The items of `parts`, lists or None, in the stable order of their times."""
    items = [
        item
        for part_times, part in zip(times, parts, strict=True)
        for item in (part if part is not None else [default] * len(part_times))
    ]
    when = [time for part_times in times for time in part_times]
    return [items[i] for i in sorted(range(len(when)), key=when.__getitem__)]
