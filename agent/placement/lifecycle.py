"""Transition tables of the two sides of a handover, and of a unit's owner and its standby, keyed
(from, to)."""

from __future__ import annotations

from typing import Final

# In which a handover ends, at either side.
ENDED: Final = frozenset({"settled", "aborted"})

SOURCE_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "planned"): "asks the target",
    ("new", "draining"): "restarted with an offer on disk: a lease passes before it takes back",
    ("planned", "granted"): "the target admits it; a copy of the state is made",
    ("granted", "shadowing"): "the copy is sent; the unit works on",
    ("shadowing", "draining"): "the target is ready, and the offer on disk: the unit pauses",
    ("draining", "handed"): "the target has taken it, on disk",
    ("handed", "settled"): "the release is on disk",
    (
        "draining",
        "reclaiming",
    ): "the target refused, the lease has ended, or the pause takes as long",
    ("reclaiming", "aborted"): "a later epoch is on disk: the unit works on here",
    ("planned", "aborted"): "refused, or no answer in time",
    ("granted", "aborted"): "refused, or no answer in time",
    ("shadowing", "aborted"): "refused, or no answer in time",
}
TARGET_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "granted"): "asked by the source, and admitted",
    ("new", "lapsed"): "restarted with the unit taken on disk, not knowing whether it is released",
    ("granted", "shadowing"): "the copy has come and is loaded",
    ("shadowing", "draining"): "the final state has come and is written",
    ("draining", "handed"): "it is on disk within the lease: the unit works here",
    ("draining", "lapsed"): "it is on disk too late",
    ("draining", "aborted"): "the source has taken it back",
    ("handed", "settled"): "the source has released it",
    ("handed", "lapsed"): "the lease has ended and the source says nothing: the unit pauses",
    ("handed", "aborted"): "the source has taken it back",
    ("lapsed", "resuming"): "the source has released it; a later epoch is written",
    ("lapsed", "aborted"): "the source has taken it back",
    ("resuming", "settled"): "it is on disk: the unit works here",
    ("granted", "aborted"): "the source gave up, or says nothing in time",
    ("shadowing", "aborted"): "the source gave up, or comes too late",
}
PRIMARY_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "naming"): "a standby is named; that goes to the disk first",
    ("new", "waiting"): "restarted: it needs its lease first",
    (
        "naming",
        "guarded",
    ): "it is on disk: checkpoints go to the standby, outputs wait for the lease",
    ("waiting", "resuming"): "the lease is held, in the term that the standby knows",
    ("resuming", "guarded"): "the term and a new epoch are on disk: it works",
    ("guarded", "waiting"): "the lease is held in a later term: the standby is asked",
    ("guarded", "dismissing"): "the standby is to be no more",
    ("dismissing", "waiting"): "the lease is held in a later term: the standby is asked",
    ("dismissing", "leaving"): "the standby has forgotten it",
    ("leaving", "alone"): "that is on disk: no lease is needed",
    ("waiting", "void"): "the standby has taken it over",
    ("guarded", "void"): "the standby has taken it over",
    ("dismissing", "void"): "the standby has taken it over",
    ("resuming", "void"): "the standby has taken it over",
}
STANDBY_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "copying"): "named; the first checkpoint goes to the disk",
    ("new", "standing_by"): "restarted with a checkpoint that may be taken over",
    ("new", "taking_over"): "restarted after it took over: a new epoch",
    ("new", "void"): "restarted after it was dismissed",
    ("copying", "standing_by"): "a complete checkpoint is on disk",
    ("standing_by", "taking_over"): "the owner's term is over, by the word of a majority",
    ("taking_over", "owning"): "that it owns the unit is on disk: it works",
    ("copying", "void"): "dismissed",
    ("standing_by", "void"): "dismissed",
    ("void", "copying"): "named again",
}
