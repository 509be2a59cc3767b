"""Files generated from the inventory for each host: configuration, keys, allow-list."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple

from msgspec.structs import asdict, replace

from agent.net.allow_list import AllowedClient, AllowedIad, AllowedNode, AllowedParty, AllowFile
from agent.wire.areas import AreaSet
from agent.wire.base import Area
from agent.wire.config import Metrics, Section, Trust
from agent.wire.edge_config import (
    EdgeConfig,
    EdgeHistory,
    EdgeIdentity,
    EdgeMaster,
    OtherMaster,
)
from agent.wire.master_config import (
    MasterConfig,
    MasterIdentity,
    MasterPlacement,
    MasterSockets,
    MasterState,
    PoolMember,
)
from agent.wire.overlay_config import MasterOverlay
from agent.wire.webhook_config import MasterWebhook, Receiver
from fleet.common import toml
from fleet.inventory.effective import (
    history_of,
    homes_of,
    overlay_of,
    pods_of,
    sensors_of,
    triggers_of,
    units_of,
    visitors,
)
from fleet.inventory.model import Iad, Inventory, Node
from fleet.inventory.parties import CLIENT, OPERATOR, HostOf, Keys, Party

CONFIGURATION: Final = "/etc/sanderling"
STATE: Final = "/var/lib/sanderling"
# Masters that others are found through, and the file with their keys.
MAX_BOOTSTRAP: Final = 3
BOOTSTRAP_KEYS: Final = "keys/bootstrap.public"
# A master's latency model beside its configuration.
LATENCY_MODEL: Final = "latency-model.json"


class HostFile(NamedTuple):
    """A desired file of a host below /etc/sanderling. `restart`: the agent must restart to notice a
    change (key files and allow-lists it reloads by itself)."""

    path: str  # relative
    content: bytes
    mode: int = 0o644
    owner: Literal["root", "sanderling"] = "root"
    restart: bool = True

    @property
    def secret(self) -> bool:
        """Whether only its owner may read it: it is neither shown nor logged."""
        return self.mode & 0o077 == 0


def files_of(fleet: Inventory, host: HostOf, keys: Keys) -> tuple[HostFile, ...]:
    """The desired files of `host` in its configuration folder."""
    if host.node is None:
        return _master_files(fleet, host.iad, keys)
    config = edge_config(fleet, host.iad, host.node)
    return (
        _configuration("edge.toml", config),
        HostFile("keys/node.secret", keys.secret_file(host.party), 0o600, "sanderling", False),
        _public("keys/master.public", keys.public_file(Party("master", host.iad.name))),
        *[
            _public(other.keys, keys.public_file(Party("master", other.iad)))
            for other in config.master.other
        ],
    )


def edge_config(fleet: Inventory, iad: Iad, node: Node) -> EdgeConfig:
    """The configuration of an edge node."""
    history = history_of(fleet, node)
    if history.path == EdgeHistory().path:
        history = replace(history, path=f"{STATE}/history.sqlite")
    return EdgeConfig(
        node=EdgeIdentity(name=node.name, areas=node.areas),
        master=_masters(fleet, iad, node),
        sensor=sensors_of(fleet, node),
        trigger=triggers_of(fleet, node),
        history=history,
        pods=pods_of(fleet, node),
        trust=Trust(key="keys/node.secret"),
        metrics=node.metrics or Metrics(),
    )


def _masters(fleet: Inventory, iad: Iad, node: Node) -> EdgeMaster:
    """The master of its IAD, and others that may be its home."""
    own = EdgeMaster(address=_nodes_address(iad), keys="keys/master.public")
    if (homes := homes_of(fleet, node)) is None:
        return own
    iads = {each.name: each for each in fleet.iad}
    return replace(
        own,
        iad=iad.name,
        follow_s=homes.follow_s,
        other=tuple(
            [
                OtherMaster(iad=name, address=_nodes_address(iads[name]), keys=_keys_of(name))
                for name in homes.other
                if name in iads
            ]
        ),
    )


def master_config(
    fleet: Inventory, iad: Iad, members: Mapping[str, PoolMember] | None = None
) -> MasterConfig:
    """The configuration of an IAD's master. A caller that makes all of them passes the pool's
    `members`, which are the same for each."""
    master = iad.master
    if members is None:
        members = pool_members(fleet)
    kept = "" if master.local else f"{STATE}/"
    records = master.records
    if records.directory:  # empty: no records
        directory = posixpath.join(kept, records.directory)
        records = replace(records, directory=directory)
    return MasterConfig(
        iad=MasterIdentity(name=iad.name, rooms=_rooms(fleet, iad, members)),
        sockets=MasterSockets(
            public=_tcp(master.listen, master.public_port),
            operator=_tcp(master.listen, master.operator_port),
            nodes=_tcp(master.listen, master.nodes_port) if iad.node or iad.name in members else "",
            advertise=_public_address(iad),
        ),
        pool=_pool(members, iad),
        offers=iad.offers,
        autoscale=master.autoscale,
        clients=master.clients,
        trust=Trust(key="keys/master.secret", allow="allow.toml"),
        metrics=master.metrics,
        state=MasterState(path=f"{kept}state.sqlite"),
        overlay=_overlay(fleet, iad),
        webhook=tuple([_webhook(receiver) for receiver in master.webhook]),
        scheduling=master.scheduling,
        liveness=master.liveness,
        records=records,
        notifications=master.notifications,
        placement=_placement(fleet, iad),
    )


def _placement(fleet: Inventory, iad: Iad) -> MasterPlacement:
    """Limits of the IAD's master for units, and the masters that others are found through: the
    first ones, the same in all files."""
    units = units_of(fleet, iad)
    if units.get("model"):
        units["model"] = LATENCY_MODEL
    if fleet.placement.delegate:
        units["delegate"] = fleet.placement.delegate
    made = MasterPlacement(**units)
    if not fleet.placement.find:
        return made
    found = tuple([_public_address(each) for each in _bootstrap(fleet)])
    return replace(made, bootstrap=found, bootstrap_keys=BOOTSTRAP_KEYS)


def _bootstrap(fleet: Inventory) -> tuple[Iad, ...]:
    """The IADs at whose masters the others begin to look."""
    return fleet.iad[:MAX_BOOTSTRAP]


def areas_of(iad: Iad, visiting: Iterable[HostOf] = ()) -> tuple[str, ...]:
    """Areas an IAD offers in the pool, also if nodes of others are at home there; () for an IAD
    without nodes, which is in no pool."""
    nodes = [*iad.node, *[host.node for host in visiting if host.node is not None]]
    return iad.areas or tuple(dict.fromkeys(area for node in nodes for area in node.areas))


def allow_list(fleet: Inventory, iad: Iad, keys: Keys) -> AllowFile:
    """The parties that may connect to the IAD's master; those without a valid key are left out."""

    def allowed(party: Party) -> tuple[AllowedParty, ...]:
        found = keys.publics(party)
        return (AllowedParty(name=party.name, keys=found),) if found else ()

    visiting = visitors(fleet).get(iad.name, [])
    people = [person for person in fleet.person if "client" in person.roles]
    clients = [
        AllowedClient(
            name=person.name,
            keys=found,
            services=person.services,
            rate_per_s=person.rate_per_s,
        )
        for person in people
        if (found := keys.publics(Party("client", person.name)))
    ]
    if own := keys.publics(CLIENT):
        clients.insert(0, AllowedClient(name=CLIENT.name, keys=own))
    operators = [OPERATOR] + [
        Party("operator", p.name) for p in fleet.person if "operator" in p.roles
    ]
    return AllowFile(
        client=tuple(clients),
        node=tuple(
            [
                AllowedNode(name=host.node.name, keys=found, areas=host.node.areas)
                for host in [HostOf(iad, node) for node in iad.node] + visiting
                if host.node is not None and (found := keys.publics(host.party))
            ]
        ),
        operator=tuple([row for party in operators for row in allowed(party)]),
        iad=tuple(
            [
                AllowedIad(name=row.name, keys=row.keys, partner=fleet.placement.find)
                for i in fleet.iad
                if i is not iad
                for row in allowed(Party("master", i.name))
            ]
        ),
    )


def _master_files(fleet: Inventory, iad: Iad, keys: Keys) -> tuple[HostFile, ...]:
    config = master_config(fleet, iad)
    others = [member.iad for member in config.pool if member.keys]
    others += [neighbour.iad for neighbour in config.overlay.neighbour]
    allow = toml.dump(allow_list(fleet, iad, keys)).encode()
    model = units_of(fleet, iad).get("model")
    return (
        # Who knows a webhook's URL may post to it.
        _configuration("master.toml", config, private=bool(config.webhook)),
        HostFile(
            "keys/master.secret",
            keys.secret_file(Party("master", iad.name)),
            0o600,
            "sanderling",
            False,
        ),
        HostFile("allow.toml", allow, restart=False),
        *[
            HostFile(each.secret, keys.webhook_file(iad.name, each.name), 0o600, "sanderling")
            for each in config.webhook
        ],
        *[
            _public(_keys_of(name), keys.public_file(Party("master", name)))
            for name in dict.fromkeys(others)
        ],
        *_bootstrap_keys(fleet, keys),
        *([HostFile(LATENCY_MODEL, keys.latency_model(model))] if model else []),
    )


def _bootstrap_keys(fleet: Inventory, keys: Keys) -> list[HostFile]:
    if not fleet.placement.find:
        return []
    found = [keys.public_file(Party("master", iad.name)) for iad in _bootstrap(fleet)]
    return [_public(BOOTSTRAP_KEYS, b"".join(found))]


def pool_members(fleet: Inventory) -> dict[str, PoolMember]:
    """Every IAD that offers areas, by name, as the other masters see it."""
    visiting = visitors(fleet)
    return {
        iad.name: PoolMember(
            iad=iad.name,
            address=_public_address(iad),
            areas=areas,
            keys=_keys_of(iad.name),
        )
        for iad in fleet.iad
        if (areas := areas_of(iad, visiting.get(iad.name, ())))
    }


def _pool(members: Mapping[str, PoolMember], iad: Iad) -> tuple[PoolMember, ...]:
    """The pool of an IAD, itself included; an IAD that offers nothing is in no pool."""
    if iad.name not in members:
        return ()
    own = replace(members[iad.name], keys="")
    return tuple([own if name == iad.name else each for name, each in members.items()])


def _rooms(fleet: Inventory, iad: Iad, members: Mapping[str, PoolMember]) -> dict[Area, str]:
    """The names of rooms that its nodes may be in."""
    if not fleet.rooms or iad.name not in members:
        return {}
    visiting = [host.node for host in visitors(fleet).get(iad.name, ()) if host.node is not None]
    own = AreaSet(
        [*members[iad.name].areas, *(a for node in (*iad.node, *visiting) for a in node.areas)]
    )
    return {area: name for area, name in fleet.rooms.items() if own.overlaps(area)}


def _overlay(fleet: Inventory, iad: Iad) -> MasterOverlay:
    """The place of an IAD, and the addresses of its neighbours."""
    plan = overlay_of(fleet)
    if plan is None or fleet.overlay is None or iad.overlay is None:
        return MasterOverlay()
    addresses = {each.name: _public_address(each) for each in fleet.iad}
    section = plan.section(iad.name, lambda name: (addresses[name], _keys_of(name)))
    return replace(section, routing=fleet.overlay.routing, advertise=iad.overlay.advertise)


def _webhook(receiver: Receiver) -> MasterWebhook:
    return MasterWebhook(**asdict(receiver), secret=f"keys/webhook-{receiver.name}.secret")


def _nodes_address(iad: Iad) -> str:
    return _tcp(iad.master.nodes_address or iad.master.address, iad.master.nodes_port)


def _public_address(iad: Iad) -> str:
    return _tcp(iad.master.address, iad.master.public_port)


def _keys_of(iad: str) -> str:
    """The file with its master's public keys, on other hosts."""
    return f"keys/iad-{iad}.public"


def _configuration(path: str, config: Section, *, private: bool = False) -> HostFile:
    content = toml.dump(config).encode()
    return HostFile(path, content, 0o640, "sanderling") if private else HostFile(path, content)


def _public(path: str, content: bytes) -> HostFile:
    return HostFile(path, content, restart=False)


def _tcp(host: str, port: int) -> str:
    return f"tcp://{host}:{port}"
