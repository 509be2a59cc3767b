"""Terminal output of a capacity plan."""

from __future__ import annotations

from collections import Counter
from typing import Final

from rich.console import Console

from fleet.plan.result import CapacityReport, HighestReport, PodsReport
from fleet.simulation.policies import policy_name
from fleet.terminal import screen
from fleet.terminal.tables import Table

# Maximum number of nodes that are named because their pods differ from the rest of their IAD.
MAX_NAMED: Final = 12
MAX_IADS_NAMED: Final = 4


def show(report: CapacityReport, console: Console) -> None:
    """All of it."""
    screen.line(console, report.fleet)
    for text in report.assumptions:
        screen.line(console, text)
    _classes(report).show(console)
    for text in report.cautions:
        screen.line(console, f"Careful: {text}.", style="yellow")
    console.print()
    _policies(report).show(console)
    if report.target_per_s is not None:
        console.print()
        _plans(report).show(console)
        for plan in report.plans:
            for text in _remarks(plan):
                screen.line(console, text)


def _classes(report: CapacityReport) -> Table:
    rows = [
        (
            kind.name,
            f"{kind.share:.3g}",
            kind.iad or str(kind.iads),
            "all" if kind.nodes is None else str(kind.nodes),
            f"p{kind.percentile:g} ≤ {kind.slo_ms:g} ms",
            f"{kind.idle_ms:.0f} ms",
        )
        for kind in report.classes
    ]
    return Table("", ("class", "share", "IADs", "nodes", "SLO", "idle"), rows)


def _policies(report: CapacityReport) -> Table:
    names = [kind.name for kind in report.classes]
    rows = [
        (
            policy_name(each.policy),
            rate_text(each.highest),
            each.highest.binding,
            each.highest.busiest,
            f"{each.highest.utilisation:.0%}".replace("%", " %"),
            *(f"{each.highest.ratios[name]:.2f}" for name in names),
        )
        for each in report.policies
    ]
    interval = (
        f"mean ± 95 % interval of {len(report.seeds)} seeds" if report.seeds[1:] else "1 seed"
    )
    return Table(
        f"Highest rate at which every class keeps its SLO, queries/s ({interval}),\n"
        "and latency / SLO of each class there",
        ("policy", "highest rate", "binds", "busiest node", "busy", *names),
        rows,
    )


def rate_text(highest: HighestReport) -> str:
    """``17.1 ± 0.5``; ``none`` if no rate is sustained."""
    if highest.rate_per_s == 0.0:
        return "none"
    digits = 0 if highest.rate_per_s >= 1_000 else 1 if highest.rate_per_s >= 10 else 2
    text = f"{highest.rate_per_s:,.{digits}f}"
    return text if highest.half_width is None else f"{text} ± {highest.half_width:,.{digits}f}"


def _plans(report: CapacityReport) -> Table:
    rows = [
        (
            policy_name(plan.policy),
            pods_text(plan) if plan.kept else "not sustained",
            str(plan.total) if plan.kept else "–",
            f"{plan.more:+d}".replace("-", "−") if plan.kept else "–",
            rate_text(plan.highest) if plan.kept else "–",
            plan.highest.binding if plan.kept else "–",
        )
        for plan in report.plans
    ]
    return Table(
        f"Pods for {report.target_per_s:g} queries/s (the fewest that a heuristic search found)",
        ("policy", "nodes × pods", "pods", "change", "highest rate", "binds"),
        rows,
        left=2,
        folds=("nodes × pods",),
    )


def pods_text(plan: PodsReport) -> str:
    """``iad1 iad2 iad3: 8 × 1; iad4: 6 × 2, 2 × 1``: IADs with equal pods are grouped."""
    alike: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for iad, nodes in plan.pods.items():
        counts = tuple(sorted(Counter(nodes.values()).items(), reverse=True))
        alike.setdefault(counts, []).append(iad)
    return "; ".join(
        f"{_iads(iads)}: {', '.join(f'{nodes} × {pods}' for pods, nodes in counts)}"
        for counts, iads in alike.items()
    )


def _iads(names: list[str]) -> str:
    if len(names) <= MAX_IADS_NAMED:
        return " ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} IADs)"


def _remarks(plan: PodsReport) -> list[str]:
    name = policy_name(plan.policy)
    if not plan.kept:
        return [f"{name}: {plan.obstacle}."]
    found = []
    for iad, nodes in plan.pods.items():
        [(usual, _), *others] = Counter(nodes.values()).most_common()
        for pods, count in others:
            named = [node for node, n in nodes.items() if n == pods][:MAX_NAMED]
            more = f" and {count - MAX_NAMED} more (--json has all)" if count > MAX_NAMED else ""
            found.append(
                f"{name}, {iad}: {pods} {'pod' if pods == 1 else 'pods'} at {', '.join(named)}"
                f"{more}, {usual} elsewhere."
            )
    return found
