"""Naive twin of `_core.columns.buckets`: readings sorted into lists, one a bucket."""

import math
from statistics import fmean


class Sums:
    """As `BucketSums`, with all values kept."""

    def __init__(self, start_ms, length_ms, count):
        self.start_ms, self.length_ms = start_ms, length_ms
        self.values = [[] for _ in range(count)]
        self.bad = [0] * count
        self.suspect = [0] * count

    def place(self, time_ms):
        """The number of the bucket of a time; None if it is in none."""
        place = (time_ms - self.start_ms) // self.length_ms
        return place if 0 <= place < len(self.values) else None

    def add(self, readings, bad, *, gaps_are_bad):
        """Readings are (time, value, flags)."""
        for time_ms, value, flags in readings:
            if (place := self.place(time_ms)) is None:
                continue
            if flags & bad:
                self.bad[place] += 1
            elif not math.isfinite(value):
                self.bad[place] += gaps_are_bad
            else:
                self.values[place].append(value)
                self.suspect[place] += flags != 0

    def columns(self):
        """(count, minimum, mean, maximum, bad, suspect) of each bucket; NaN where it is empty."""
        return [
            (
                len(values),
                min(values, default=math.nan),
                fmean(values) if values else math.nan,
                max(values, default=math.nan),
                bad,
                suspect,
            )
            for values, bad, suspect in zip(self.values, self.bad, self.suspect, strict=True)
        ]
