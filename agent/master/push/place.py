"""A master's place in the overlay, built from its configuration."""

from __future__ import annotations

from typing import Final, NamedTuple

from agent.alerts.notifications import announced_by, losses_of
from agent.master.push.config_filters import configured_filter
from agent.overlay.scot import BrokerId, Scot, ScotError
from agent.topics.contents import topics_of
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterConfig
from agent.wire.overlay_config import OverlayNeighbour
from agent.wire.predicates import Filter

BESIDES: Final = "besides"


class Place(NamedTuple):
    """The overlay, the broker that this master is, its neighbours, and its advertisements, each
    under a name of its own."""

    scot: Scot
    broker: BrokerId
    neighbours: dict[BrokerId, OverlayNeighbour]
    announced: dict[str, Filter]


def place_of(config: MasterConfig) -> Place:
    """The place that `[overlay]` describes. ConfigError in one line."""
    overlay = config.overlay
    own = BrokerId(overlay.vertex or config.iad.name, overlay.cluster)
    try:
        scot = Scot(overlay.links, overlay.clusters, () if overlay.links else (own.vertex,))
        scot.check(own)
    except ScotError as error:
        raise ConfigError(f"overlay: {error}") from None
    return Place(scot, own, _neighbours(config, scot, own), _announced(config))


def publishers(config: MasterConfig, place: Place) -> frozenset[str]:
    """The IADs whose alerts may come; empty if some of them are not known here."""
    neighbours = frozenset(each.iad for each in place.neighbours.values())
    known = neighbours.union((config.iad.name,), (member.iad for member in config.pool))
    return known if len(known) >= place.scot.order else frozenset()


def partners_of(config: MasterConfig) -> dict[str, tuple[str, str]]:
    """Address and keys of the masters to which units may move, by IAD: those of the pool, and the
    neighbours that `[placement]` names. ConfigError in one line."""
    if config.placement.alone:
        return {}
    known = {each.iad: (each.address, each.keys) for each in config.overlay.neighbour}
    own = config.iad.name
    partners = {each.iad: (each.address, each.keys) for each in config.pool if each.iad != own}
    for iad in config.placement.partners:
        if iad not in partners and iad not in known:
            raise ConfigError(f"placement.partners: {iad} is no neighbour in the overlay")
        partners.setdefault(iad, known.get(iad, ("", "")))
    delegate, placement = config.placement.delegate, config.placement
    if delegate and not placement.bootstrap and delegate not in {own, *partners}:
        raise ConfigError(
            f"placement.delegate: {delegate} is no master of the pool and no partner; known are "
            f"{', '.join(sorted({own, *partners}))}"
        )
    return partners


def _neighbours(
    config: MasterConfig, scot: Scot, own: BrokerId
) -> dict[BrokerId, OverlayNeighbour]:
    expected = {*scot.cluster_neighbours(own), *scot.region_neighbours(own)}
    found: dict[BrokerId, OverlayNeighbour] = {}
    names: set[str] = {config.iad.name}
    for each in config.overlay.neighbour:
        broker = BrokerId(each.vertex, each.cluster)
        if broker not in expected:
            raise ConfigError(
                f"overlay.neighbour: {each.iad} at {_name(broker)} is no neighbour of "
                f"{_name(own)}; its neighbours are {_names(expected)}"
            )
        if each.iad in names or broker in found:
            raise ConfigError(
                f"overlay.neighbour: {each.iad} at {_name(broker)}: this IAD or this place stands "
                "there twice"
            )
        names.add(each.iad)
        found[broker] = each
    if missing := expected - found.keys():
        raise ConfigError(
            f"overlay.neighbour: {_names(missing)} of the neighbours of {_name(own)} are missing"
        )
    return found


def _announced(config: MasterConfig) -> dict[str, Filter]:
    iad = config.iad.name
    announced = {
        f"alerts-{number}": configured_filter(
            each.filter, f"overlay.advertise.filter {each.filter!r}"
        )
        for number, each in enumerate(config.overlay.advertise, 1)
    }
    if not announced:
        return {"alerts": announced_by(iad)}
    # Loss notices are always advertised; so are topics, which an operator creates to be heard.
    return {**announced, BESIDES: (*losses_of(iad), *topics_of(iad))}


def _name(broker: BrokerId) -> str:
    return f"vertex {broker.vertex}, cluster {broker.cluster}"


def _names(brokers: set[BrokerId]) -> str:
    return "; ".join(map(_name, sorted(brokers))) or "none"
