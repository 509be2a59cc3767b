"""Last known values in place of areas that gave no live answer, where a query takes them.

They are never counted: the areas stay missing, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agent.wire.areas import AreaSet
from agent.wire.base import Form
from agent.wire.messages import AreaResult, Missing

# What a clone keeps of an area and those below, of these channels, in this form; None: no device
# there has a clone.
LastKnown = Callable[[str, tuple[str, ...], Form], list[AreaResult] | None]

# The reasons of a node that sleeps, is down or is late; after a restart of its master nobody may
# know of it yet.
REASONS: Final = ("no_node", "node_down", "timeout")
NO_CLONE: Final = "no clone keeps its last values; fleet clone create makes one"
NOTHING_YET: Final = "its clone has none of these values yet"


def nothing_known(_area: str, _channels: tuple[str, ...], _form: Form) -> None:
    """Stand-in for a master without clones."""
    return


def fill(
    missing: Sequence[Missing],
    answered: Iterable[AreaResult],
    within: Iterable[str],
    channels: tuple[str, ...],
    form: Form,
    last_known: LastKnown,
) -> tuple[tuple[Missing, ...], tuple[AreaResult, ...]]:
    """The gaps, with a word about those that no clone fills, and the last known values of areas
    inside `within` that did not answer. O(gaps + values)."""
    allowed = AreaSet(within)
    live = {result.area for result in answered}
    stale: dict[str, AreaResult] = {}
    gaps = []
    for gap in missing:
        known = last_known(gap.area, channels, form) if gap.reason in REASONS else []
        found = [r for r in known or () if r.area not in live and allowed.covers(r.area)]
        stale |= {result.area: result for result in found}
        if gap.reason in REASONS and not found and not gap.message:
            # Of areas outside nobody learns whether they have a clone.
            has_clone = known is not None and allowed.covers(gap.area)
            gaps.append(replace(gap, message=NOTHING_YET if has_clone else NO_CLONE))
        else:
            gaps.append(gap)
    return tuple(gaps), tuple(stale.values())


def fresher(results: Iterable[AreaResult], answered: Iterable[AreaResult]) -> list[AreaResult]:
    """The last known values of areas that did not answer, each area's newest."""
    live = {result.area for result in answered}
    newest: dict[str, AreaResult] = {}
    for result in results:
        known = newest.get(result.area)
        if result.area in live or result.stale_ms is None:
            continue
        if known is None or result.stale_ms < (known.stale_ms or 0):
            newest[result.area] = result
    return list(newest.values())
