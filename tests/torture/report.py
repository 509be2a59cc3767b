"""The campaign's counts as a table, and as a page of results."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Final

from tests.torture.campaign import ROUNDS, Outcome, images_in

# What the issue of a power cut is: these must be there and 0.
NEVER: Final = (
    "images with lost acknowledged readings or events",
    "images put aside",
    "images that do not open",
    "agents that did not start",
    "damaged files that do not open",
)
COUNTED: Final = (
    "scripts",
    "images of scripts",
    "images of faulty disks",
    "images with a start of the whole agent",
    "agents killed again while they started",
    "with unsynced changes",
    "unsynced changes: none",
    "unsynced changes: prefix",
    "unsynced changes: scattered",
    "unsynced changes: all",
    "under strict rules for names",
    "under ordered rules for names",
    "acknowledged readings held against images",
    "acknowledged readings held against agents",
    "operations refused by the history while the disk failed",
    "readings given up and counted while the disk failed",
    "damaged files",
    "damaged files put aside",
)


def rows(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """What is told, in order."""
    told = [("images of power cuts", images_in(Counter(counts)))]
    return told + [(name, counts.get(name, 0)) for name in (*COUNTED, *NEVER)]


def table(counts: Mapping[str, int]) -> str:
    """The counts, one a line."""
    return "".join(f"{number:>12,}  {name}\n" for name, number in rows(counts))


def page(outcome: Outcome, asked: argparse.Namespace) -> str:
    """The page of results."""
    lines = "".join(f"| {name} | {number:,} |\n" for name, number in rows(outcome.counts))
    return f"""# Power cuts

`make torture ARGS="--seed {asked.seed} --results docs/results"`: {asked.scripts:,} scripts on
working disks and {asked.faulty:,} on failing ones, {asked.chains:,} chains of {ROUNDS} starts of
the whole agent.
[The method](../papers/torture.md) says what each line means and what is not covered.

| what | count |
|---|---|
{lines}
Violations: {len(outcome.wrong):,}.
"""
