"""Advice for the findings of a report; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fleet.report.page.markup import Row, digits, kept, minute, percent, plain, share, whole

# What a verdict of a sensor calls for.
REMEDIES: Final = {
    "silent": "nothing has come since {last} UTC: look at its power, network and wiring",
    "broken": "only {success} of its readings have a good value: look at its wiring, or replace it",
    "out_of_range": "it shows values that cannot be: look at its wiring, or replace it",
    "flatline": "it repeats one value: restart it, or replace it",
    "drift": "it drifts away from its neighbours: compare it with another, calibrate or replace it",
    "gaps": "it pauses, {gap_s} s in all: look at its node's power and load",
    "missing": "it does not answer at times: look at its wiring",
    "spikes": "it jumps at times; such values are left out of every mean: look at its wiring",
}
OTHERWISE: Final = "it is not well: look at it"
# Later than this share of the subtasks, and an auto-scaler that would add pods: too few pods.
LATE_PERCENT: Final = 5.0


class Recommendation(NamedTuple):
    """Something to do: where, why and what; the section of the page that says more."""

    where: str
    what: str
    section: str


def recommendations(facts: Mapping[str, Any]) -> list[Recommendation]:
    """Recommendations for the findings, those about rooms first."""
    return [
        *_sensors(facts["sensors"]),
        *_objectives(facts["objectives"], facts["deadlines"]),
        *_losses(facts["lost"]),
    ]


def _sensors(sensors: Row) -> Iterator[Recommendation]:
    for row in sensors["worst"]:
        remedy = REMEDIES.get(row["verdict"], OTHERWISE).format(
            last="–" if row["last"] is None else minute(row["last"]),
            success="–" if row["success"] is None else share(row["success"]),
            gap_s="–" if row["gap_s"] is None else digits(row["gap_s"]),
        )
        name = f"{plain(row['area'], 40)}, {plain(row['channel'], 40)}"
        yield Recommendation(
            name, f"{remedy} ({plain(row['iad'])}/{plain(row['node'])}).", "health"
        )
    if sensors["more"]:
        yield Recommendation(
            "Others", f"{whole(sensors['more'])} more channels are not well.", "health"
        )


def _objectives(objectives: Row, deadlines: Row | None) -> Iterator[Recommendation]:
    best = objectives["by_policy"][0]["policy"] if objectives["compared"] else None
    # The best policy mends what a class missed under another, if it was asked under both.
    missed = [row for row in objectives["missed"] if row["policies"] == 1 or row["policy"] == best]
    for row in missed:
        asked = f"p{row['percentile']:g} ≤ {digits(row['slo_ms'])} ms"
        took = "" if row["p99_ms"] is None else f", 99 % came within {digits(row['p99_ms'])} ms"
        remedy = "give it a looser objective, or its nodes more pods"
        lacked = row["partial"] - row["no_data"]
        judged = row["queries"] - row["refused"] - row["no_data"]
        late = round((1 - row["attainment"]) * judged) - lacked  # of those that lacked nothing
        fast = row["p99_ms"] is not None and row["p99_ms"] <= row["slo_ms"]
        answers = "1 answer" if lacked == 1 else f"{whole(lacked)} answers"
        lacking = f"{answers} lacked areas: see which node was missing"
        if lacked and fast and row["percentile"] <= 99:
            remedy = lacking
        elif lacked and late <= 0:  # perhaps as the answer timeout of a strict objective ended
            remedy = f"{lacking}; if none was, {remedy}"
        of = "" if row["service"] in row["class"] else f" ({plain(row['service'], 40)})"
        yield Recommendation(
            f"Class {plain(row['class'], 40)}{of}",
            f"{kept(row['attainment'])} of its queries kept {asked}{took}: {remedy}.",
            "objectives",
        )
    if objectives["nowhere"]:
        yield Recommendation(
            "Unknown areas",
            f"{whole(objectives['nowhere'])} queries reached no node: they asked for areas that "
            "nobody covers, or whose nodes were down.",
            "objectives",
        )
    if deadlines and deadlines["up"] and deadlines["violations"] > LATE_PERCENT:
        yield Recommendation(
            plain(f"{deadlines['iad']}/{deadlines['node']}", 40),
            f"{percent(deadlines['violations'])} of its subtasks were dispatched late: give it up "
            f"to {whole(deadlines['pods'])} pods, or switch its master's auto-scaler on.",
            "deadlines",
        )


def _losses(lost: list[tuple[float, str]]) -> Iterator[Recommendation]:
    for count, what in lost:
        if "expired" in what:
            remedy = "pull more often than nodes delete: by a timer, once a day."
        elif "pulls" in what:
            remedy = "the hosts, whose last pull failed, and what they said are listed; pull again."
        else:
            remedy = "the reasons are listed; nothing else was lost."
        yield Recommendation(f"{whole(count)} {what}", remedy, "sources")
