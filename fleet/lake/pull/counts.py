"""Counters of what a pull has taken from one host."""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct):
    """Counted when it has landed durably. `bytes` are those received, before Parquet compresses
    them; `expired` was deleted on the host before it was taken."""

    bytes: int = 0
    records: int = 0
    groups: int = 0
    readings: int = 0
    expired_files: int = 0
    expired_groups: int = 0
    expired_readings: int = 0
