"""Section: queueing delay against load (DSSP Fig. 8)."""

from __future__ import annotations

from typing import Any, Final

from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 200
LISTED: Final = 40
TITLE: Final = "Queueing against load"
# Of fewer queries a mean says little, and a 99th percentile of fewer than a hundred nothing.
FEWEST: Final = 30
OF_A_TAIL: Final = 100
# A load that rises by less is the same load: what differs is chance, and which classes came.
STEADY: Final = 3.0
STYLES: Final = {
    False: (("_ms", "o-"), ("_p99_ms", "o--")),
    True: (("_ms", "o"),),
}
NO_WINDOW: Final = "No run of queries under one policy was long enough for a whole window."


def section(shown: Shown) -> Section:
    """Mean and tail of queueing and response time over the rate of queries, for each policy."""
    top = shown.top("load_curve", ("policy", "rate_per_s"), MAX_ROWS)
    if not top.rows:
        return Section("load", TITLE, nothing(NO_WINDOW))
    drawn = [row for row in top.rows if row["queries"] >= FEWEST]
    rates = [row["rate_per_s"] for row in drawn]
    is_steady = bool(drawn) and max(rates) < STEADY * min(rates)
    picture = _picture(drawn, is_steady=is_steady) if drawn else None
    rows = top.rows[:LISTED]
    body = render(
        "load.html",
        picture=picture,
        is_steady=is_steady,
        rates=(min(rates), max(rates)) if drawn else None,
        fewest=FEWEST,
        rows=rows,
        more=top.total - len(rows),
    )
    return Section("load", TITLE, body, (picture,) if picture else ())


def _picture(rows: list[Row], *, is_steady: bool) -> Picture:
    curves: dict[str, list[Row]] = {}
    for row in rows:
        curves.setdefault(row["policy"], []).append(row)
    highest = [max(curve, key=lambda row: row["rate_per_s"]) for curve in curves.values()]
    alt = "Queueing and response time over λ. At the highest load: " + ", ".join(
        f"{drawing.text(row['policy'])} {row['queueing_ms']:.0f} ms of queueing at "
        f"{row['rate_per_s']:.3g} queries/s"
        for row in highest
        if row["queueing_ms"] is not None
    )

    def paint(picture: Any, axes: Any) -> None:
        for axis, key, title in zip(
            axes[0],
            ("queueing", "response"),
            ("Queueing of a subtask", "Response time"),
            strict=True,
        ):
            for number, (policy, curve) in enumerate(sorted(curves.items())):
                colour = drawing.colour_of(policy, number)
                for suffix, style in STYLES[is_steady]:
                    points = [
                        r
                        for r in curve
                        if r[key + suffix] is not None
                        and (suffix == "_ms" or r["queries"] >= OF_A_TAIL)
                    ]
                    axis.plot(
                        [r["rate_per_s"] for r in points], [r[key + suffix] for r in points],
                        style, color=colour, markersize=4, linewidth=1.8,
                        label=drawing.text(policy) if suffix == "_ms" else None,
                    )  # fmt: skip
                if is_steady and (mean := _mean(curve, key)) is not None:
                    axis.axhline(mean, color=colour, linewidth=1.4)
            axis.set_title(title)
            axis.set_xlabel("λ, queries per second")
            axis.set_ylabel("ms")
            axis.set_ylim(bottom=0)
            axis.set_xlim(left=0)
        handles, labels = axes[0][0].get_legend_handles_labels()
        picture.legend(handles, labels, loc="outside upper center", ncols=max(len(labels), 1))

    return drawing.draw("load", 340, alt + ".", paint, columns=2)


def _mean(curve: list[Row], key: str) -> float | None:
    """The mean of all windows, weighted by what was measured in each."""
    counted = "subtasks" if key == "queueing" else "queries"
    known = [row for row in curve if row[f"{key}_ms"] is not None]
    total = sum(row[counted] for row in known)
    return sum(row[f"{key}_ms"] * row[counted] for row in known) / total if total else None
