"""Applies the stages of a rotation to the key store."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from fleet.keys import curve
from fleet.keys.curve import CurveKey
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import read_private
from fleet.keys.rotation import Stage, State

_TICK = timedelta(seconds=1)  # the resolution of dates in key files


def stage_of(keys: tuple[CurveKey, ...]) -> Stage:
    """The stage at which a rotation of a party with these keys starts or continues."""
    return Stage.SWITCHED if len(keys) > 1 and keys[0].order > keys[1].order else Stage.ANNOUNCED


def bring(
    keys: tuple[CurveKey, ...], stage: Stage, now: datetime, lifetime: timedelta
) -> tuple[CurveKey, ...]:
    """The party's keys at this stage. Existing keys are reused, so that an interrupted step can be
    repeated."""
    by_age = tuple(sorted(keys, key=lambda key: key.order))
    if stage is Stage.SWITCHED:
        return by_age[::-1]
    if stage is Stage.FORGOTTEN:
        return by_age[-1:]
    if len(by_age) > 1:
        return by_age
    # Keys are distinguished by their dates, even if the clock was set back.
    (old,) = by_age
    return (old, curve.make(max(now, old.order + _TICK), lifetime))


def read_state(path: Path) -> State | None:
    """Read a rotation's state file; KeyStoreError."""
    content = read_private(path)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=State)
    except msgspec.DecodeError as error:
        raise KeyStoreError(f"{path}: {error}; remove it, and rotate anew") from None
