"""Validation of the overlay of masters: its two factors, and one IAD per position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from agent.overlay.scot import BrokerId, ScotError
from fleet.inventory.contradictions.webhooks import unreadable
from fleet.inventory.effective import overlay_of
from fleet.inventory.model import Iad, Inventory
from fleet.inventory.overlay_plan import OverlayPlan

# Maximum number of empty places that are named.
NAMED: Final = 3


def check(fleet: Inventory) -> Iterator[str]:
    """Factors that form no overlay, places that do not exist, are empty or have two IADs, and
    announcements that are no valid filters."""
    for iad in fleet.iad:
        yield from _unreadable(iad)
    plan = overlay_of(fleet)
    if plan is None:
        yield from (
            f"{iad.name} has a place, but there is no overlay: write [overlay], with its links"
            for iad in fleet.iad
            if iad.overlay is not None
        )
    elif not plan.places:
        yield "overlay: no IAD has a place: write [iad.overlay], with its vertex and cluster"
    else:
        try:
            plan.scot  # noqa: B018  # its factors are looked at when it is made
        except ScotError as error:
            yield f"overlay: {error}"
        else:
            yield from _places(plan)


def apart(fleet: Inventory) -> Iterator[str]:
    """IADs whose alerts stay at home although others have an overlay."""
    if fleet.overlay is not None:
        for iad in fleet.iad:
            if iad.overlay is None:
                yield f"{iad.name} has no place in the overlay: its alerts stay in it"


def _places(plan: OverlayPlan) -> Iterator[str]:
    taken: dict[BrokerId, str] = {}
    for iad, place in plan.places.items():
        try:
            plan.scot.check(place)
        except ScotError as error:
            yield f"{iad}: {error}"
            continue
        if other := taken.get(place):
            yield f"{other} and {iad} are both at {_name(place)}: a place has one IAD"
        taken[place] = iad
    empty = [place for place in plan.scot.brokers() if place not in taken]
    if empty:
        yield f"overlay: no IAD is at {_names(empty)}; every place needs one"


def _unreadable(iad: Iad) -> Iterator[str]:
    for each in iad.overlay.advertise if iad.overlay is not None else ():
        yield from unreadable(f"{iad.name}: overlay.advertise.filter", each.filter)


def _name(place: BrokerId) -> str:
    return f"vertex {place.vertex}, cluster {place.cluster}"


def _names(places: list[BrokerId]) -> str:
    named: Iterable[str] = map(_name, places[:NAMED])
    more = f", nor at {len(places) - NAMED} others" if places[NAMED:] else ""
    return "; ".join(named) + more
