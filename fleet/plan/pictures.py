"""Figure of a capacity plan: latency / SLO against the rate, and pods for the target."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fleet.plan.result import CapacityReport
from fleet.simulation.pictures import pyplot, save
from fleet.simulation.policies import policy_colour, policy_name

# As a multiple of the SLO: values beyond are cut off.
TOP: Final = 2.0
SALT: Final = "capacity"


def draw_capacity(report: CapacityReport, path: Path) -> None:
    """SVG, PNG or PDF by the ending of `path`; OSError if it cannot be written."""
    plt = pyplot(SALT)
    panels = 2 if report.plans else 1
    figure, [axes] = plt.subplots(1, panels, squeeze=False, figsize=(5.4 * panels, 3.8))
    _draw_rates(axes[0], report)
    if report.plans:
        _draw_pods(axes[1], report)
    save(figure, path)


def _draw_rates(axis: Any, report: CapacityReport) -> None:
    for curve, policy in zip(report.curves, report.policies, strict=True):
        colour = policy_colour(curve.policy)
        name = policy_name(curve.policy)
        axis.plot(curve.rates_per_s, curve.ratios, color=colour, linewidth=1.3, label=name)
        axis.plot(policy.highest.rate_per_s, 1.0, "o", color=colour, markersize=4)
    axis.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    if report.target_per_s is not None:
        axis.axvline(report.target_per_s, color="#777777", linewidth=1.0, linestyle="--")
        axis.annotate(
            f"target {report.target_per_s:g}/s",
            (report.target_per_s, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            color="#555555",
        )
    axis.set_ylim(0, TOP)
    axis.set_xlim(left=0)
    axis.set_xlabel("queries per second")
    axis.set_ylabel("latency / SLO of the class that is worst off")
    axis.set_title("With the pods that the fleet has")
    axis.legend(loc="upper left")


def _draw_pods(axis: Any, report: CapacityReport) -> None:
    iads = list(report.pods)
    width = 0.8 / len(report.plans)
    for number, plan in enumerate(report.plans):
        places = [i + (number - (len(report.plans) - 1) / 2) * width for i in range(len(iads))]
        pods = [sum(plan.pods[iad].values()) for iad in iads]
        name = policy_name(plan.policy) if plan.kept else f"{policy_name(plan.policy)}: not enough"
        axis.bar(
            places,
            pods,
            width * 0.9,
            color=policy_colour(plan.policy),
            alpha=1.0 if plan.kept else 0.3,
            label=name,
        )
    now = [sum(report.pods[iad].values()) for iad in iads]
    begins = [i - 0.42 for i in range(len(iads))]
    axis.hlines(now, begins, [x + 0.84 for x in begins], color="black", linewidth=1, label="now")
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.set_xticks(range(len(iads)), iads, rotation=90 if len(iads) > 8 else 0)
    axis.set_ylabel("pods")
    axis.set_title(f"Pods of each IAD for {report.target_per_s:g} queries/s")
    axis.legend(loc="upper left")
    axis.set_ylim(
        top=1.35 * max(now + [sum(p.pods[i].values()) for p in report.plans for i in iads])
    )
