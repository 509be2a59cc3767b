"""Two series merged reading by reading."""

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


def merged(a, b):
    """All readings by time, a's first where equal; what one lacks is missing, without a flag."""
    channels = dict.fromkeys([*a.values, *b.values])
    flagged = dict.fromkeys([*a.quality, *b.quality])
    return [
        (
            time,
            source,
            age,
            {name: values.get(name, math.nan) for name in channels},
            {name: flags.get(name, 0) for name in flagged},
        )
        for time, source, age, values, flags in sorted(rows(a) + rows(b), key=lambda row: row[0])
    ]
