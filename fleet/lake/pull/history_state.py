"""Tracks which row groups of a node's histories were taken, and which expired before; pure.

A group is taken once it is known by (sequence, CRC of its row): a correction of the clock makes
another row of it, which is taken again. So nothing has to be known of when rows may change.

What expired is told by gaps. In an opening groups begin at multiples of the block of sequences that
each takes, one after another. So each multiple up to the last one that is known was a group, and
one that is neither in the file, nor in the tail, nor was taken, is gone. It may not have come yet,
either: a group of a sensor that is read seldom grows for hours. Then the tail has it, if the tail
has a later one: a commit puts all groups that grow there. So of the opening that may still be under
way, gaps are settled up to the last group of its tail, and to the last one that the look before
found; of others, up to the last one that any look found.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Set
from hashlib import sha256
from math import gcd, isqrt
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from agent.edge.history.row_groups import OPENING

KNOWN: Final = struct.Struct("<qI")  # as fleet/on_host/history.py has it
# Histories of cards that were once in a node; the oldest are forgotten.
MAX_HISTORIES: Final = 8

Key = tuple[int, int]


class Opening(Struct):
    """One process's groups, of which `seen` was the last. Up to `through` all are settled: taken or
    counted as expired, but for those in `open`; it has all that are known and not taken, with their
    readings, 0 for not known. The groups' distances have the divisor `step`; the longest had `most`
    readings, of `configured` that it may have had. `boot` is that of its groups, if known."""

    through: int
    seen: int
    open: dict[int, int] = field(default_factory=dict)
    step: int = 0
    most: int = 1
    configured: int = 0
    boot: str = ""


class TakenHistory(Struct):
    """`taken` are groups, packed as `KNOWN`: those that are there, and those that are not settled;
    `refused` those that are there and damaged, whose sequences prove nothing. From each sequence in
    `origins` on, groups are known as those of that history."""

    origins: list[tuple[int, str]]
    taken: bytes = b""
    refused: bytes = b""
    openings: dict[int, Opening] = field(default_factory=dict)

    def origin(self, sequence: int) -> str:
        """The history that a group is known by: a rebuilt one has copies of another's."""
        return next(name for since, name in reversed(self.origins) if sequence >= since)


def unpacked(keys: bytes) -> set[Key]:
    """The reverse of `packed`."""
    return set(KNOWN.iter_unpack(keys))


class HistoriesState(Struct):
    """A node's state: its histories by id, the latest one, and when it was last exported."""

    exported_ms: int = 0
    latest: str = ""
    histories: dict[str, TakenHistory] = field(default_factory=dict)


class Listing(NamedTuple):
    """Findings of a look at a history: groups of it that were taken and are not there as they
    were; those that are there and not taken, with their readings; and what its tail has."""

    openings: int
    group_readings: int
    gone: frozenset[Key]
    fresh: Mapping[int, int]
    tail: frozenset[int]


class Expired(NamedTuple):
    """Groups that were never taken, and the maximum number of their readings."""

    groups: int
    readings: int


def packed(keys: Iterable[Key]) -> bytes:
    """Groups in the format of `TakenHistory.taken`."""
    return b"".join([KNOWN.pack(*key) for key in sorted(keys)])


def enter(state: HistoriesState, history: str, gone: Set[Key]) -> TakenHistory:
    """The history that a look found, the latest from now on.

    One that is new and has groups of the one before was rebuilt from it; their sequences go on
    where those of the copies end.
    """
    found = state.histories.pop(history, None)
    if found is None:
        before = state.histories.get(state.latest)
        keys = unpacked(before.taken) if before is not None else set()
        copies = keys - gone
        if before is not None and copies:
            since = (max(copies)[0] // OPENING + 1) * OPENING
            found = TakenHistory(
                [*[each for each in before.origins if each[0] < since], (since, history)],
                packed(key for key in keys if key[0] < since),
                b"",
                {n: each for n, each in before.openings.items() if n < since // OPENING},
            )
        else:
            found = TakenHistory([(-1 << 63, history)])
    state.histories[history] = found  # the last is the latest
    state.latest = history
    for oldest in list(state.histories)[:-MAX_HISTORIES]:
        del state.histories[oldest]
    return found


def older_copy(found: TakenHistory, history: str, boots: Mapping[int, str]) -> int | None:
    """Groups of these openings have come, each of this boot. If the file was put back from an older
    copy, openings have numbers that others had, in other boots. From the first of these on, groups
    are known as those of another history: they would replace those taken before. Its first sequence
    in that case; O(openings)."""
    known = {n: found.openings[n].boot for n in boots if n in found.openings}
    first = min([n for n, boot in known.items() if boot not in ("", boots[n])], default=None)
    since = None
    if first is not None:
        since = first * OPENING
        name = f"{history[:32]}-{sha256(boots[first].encode()).hexdigest()[:16]}"
        found.origins = [*[each for each in found.origins if each[0] < since], (since, name)]
        for n in [n for n in found.openings if n >= first]:
            del found.openings[n]
    for n, boot in boots.items():
        found.openings.setdefault(n, Opening(n * OPENING - 1, n * OPENING - 1)).boot = boot
    return since


def settle(found: TakenHistory, listing: Listing) -> Expired:
    """Groups and readings that expired since the previous look; updates `found`. O(groups)."""
    keys = unpacked(found.taken)
    taken = {sequence for sequence, _ in keys}
    there = (taken - {sequence for sequence, _ in listing.gone}) | listing.fresh.keys()
    groups = readings = 0
    by_opening: dict[int, list[int]] = {n: [] for n in found.openings}
    for sequence in taken | listing.fresh.keys() | listing.tail:
        by_opening.setdefault(sequence // OPENING, []).append(sequence)
    for n, known in by_opening.items():
        opening = found.openings.setdefault(n, Opening(n * OPENING - 1, n * OPENING - 1))
        lost = _settle_opening(n, opening, known, taken, listing)
        groups += lost.groups
        readings += lost.readings
        if n < listing.openings and not opening.open and there.isdisjoint(known):
            del found.openings[n]
    through = {n: opening.through for n, opening in found.openings.items()}
    found.taken = packed(
        key for key in keys if key[0] in there or key[0] > through.get(key[0] // OPENING, key[0])
    )
    found.refused = packed(unpacked(found.refused) - listing.gone)
    return Expired(groups, readings)


def _settle_opening(
    n: int, opening: Opening, known: Collection[int], taken: Set[int], listing: Listing
) -> Expired:
    first = n * OPENING
    for sequence in known:
        opening.step = gcd(opening.step, sequence - first)
        opening.most = max(opening.most, listing.fresh.get(sequence, 1))
    # For the process that may still run, only up to where its tail proves that groups are complete.
    proof = known if n < listing.openings else listing.tail.intersection(known)
    line = max([*proof, opening.seen])
    opening.seen = max([*known, opening.seen])
    # One that no look has found under way most likely had what is configured now.
    if n == listing.openings or not opening.configured:
        opening.configured = listing.group_readings
    block, most = _block(opening)
    groups = readings = 0
    before, last = (opening.through - first) // block, (line - first) // block
    within = [each for each in {*known, *opening.open} if opening.through < each <= line]
    # What a tail has of groups that were settled is old.
    unsettled = [each for each in known if each > opening.through or each in opening.open]
    if line > opening.through:
        groups = last - before - len({(each - first) // block for each in within} - {before})
        readings = groups * block
        opening.through = line
    # Not a difference of views, which is O(fresh): a host may name as many openings as groups.
    left = [s for s in opening.open if s not in listing.fresh and s not in listing.tail]
    for sequence in left:
        groups += 1
        readings += opening.open.pop(sequence) or most
    for sequence in unsettled:
        if sequence not in taken:
            opening.open[sequence] = listing.fresh.get(sequence, 0)
    return Expired(groups, readings)


def _block(opening: Opening) -> tuple[int, int]:
    """The sequences that each group takes, and the most readings that one has had.

    It is what is configured, as far as that fits what was seen. Else: a block divides the distances
    of groups, and no group is longer; the least such number makes the most of a gap, and is the
    block as soon as one full group was seen.
    """
    block = opening.configured
    if block >= opening.most and opening.step % block == 0:
        return block, block
    if not opening.step:
        return opening.most, opening.most
    for divisor in sorted(_divisors(opening.step)):
        if divisor >= opening.most:
            return divisor, opening.step
    return opening.most, opening.most  # a tail with a hole: groups start within a block


def _divisors(number: int) -> set[int]:
    """The divisors of a number of at most `OPENING`; O(√number), which a host chooses for each of
    its openings."""
    candidates = np.arange(1, isqrt(number) + 1, dtype=np.int64)
    low = candidates[number % candidates == 0].tolist()
    return {*low, *[number // each for each in low]}
