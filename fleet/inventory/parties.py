"""Key-holding parties of a fleet, and the names of its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, Protocol

from fleet.inventory.model import Iad, Inventory, Master, Node

Role = Literal["master", "node", "client", "operator"]
# What a master's host is called within its IAD; no node has this name.
MASTER: Final = "master"
UNITS: Final = {"node": "sanderling-edge.service", "master": "sanderling-master.service"}


class Party(NamedTuple):
    """Somebody with a CURVE key. `name` is the IAD's of a master, ``iad4/n3`` of a node, the
    person's of a client or operator."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


class Keys(Protocol):
    """Interface of the key store for writers of host files."""

    def publics(self, party: Party) -> tuple[str, ...]:
        """Its valid public keys, the current one first; () for one that has none or was revoked."""
        ...

    def secret_file(self, party: Party) -> bytes:
        """Its secret key file, as agents read it."""
        ...

    def public_file(self, party: Party) -> bytes:
        """Its public key file, as others read it."""
        ...

    def webhook_file(self, iad: str, webhook: str) -> bytes:
        """What an IAD's master signs with what it posts to a webhook, as it reads it."""
        ...


class HostOf(NamedTuple):
    """A host of the fleet: the master of an IAD, or one of its nodes."""

    iad: Iad
    node: Node | None  # None: the master's host

    @property
    def name(self) -> str:
        """``iad4/n3`` of a node, ``iad4/master`` of a master."""
        return f"{self.iad.name}/{self.node.name if self.node else MASTER}"

    @property
    def entry(self) -> Node | Master:
        """Its table in the inventory."""
        return self.node or self.iad.master

    @property
    def address(self) -> str:
        """Where SSH reaches it."""
        return self.entry.address

    @property
    def unit(self) -> str:
        """The systemd unit of its agent."""
        return UNITS["node" if self.node else "master"]

    @property
    def is_local(self) -> bool:
        """Whether it is a master on the operator's own machine: nobody logs in."""
        return self.node is None and self.iad.master.local

    @property
    def party(self) -> Party:
        """The party of its agent."""
        return Party("node", self.name) if self.node else Party("master", self.iad.name)


def hosts(fleet: Inventory) -> Iterator[HostOf]:
    """All hosts: each IAD's master, then its nodes."""
    for iad in fleet.iad:
        yield HostOf(iad, None)
        for node in iad.node:
            yield HostOf(iad, node)


class WebhookOf(NamedTuple):
    """A webhook of an IAD's master; each has a secret of its own."""

    iad: str
    name: str

    def __str__(self) -> str:
        return f"webhook {self.name} of {self.iad}"


def webhooks(fleet: Inventory) -> Iterator[WebhookOf]:
    """All webhooks of all masters."""
    for iad in fleet.iad:
        for webhook in iad.master.webhook:
            yield WebhookOf(iad.name, webhook.name)


# The fleet command's own keys: it asks masters for their state, and sends the probe queries.
OPERATOR: Final = Party("operator", "fleet")
CLIENT: Final = Party("client", "fleet")


def parties(fleet: Inventory) -> Iterator[Party]:
    """All parties that need a CURVE key."""
    yield OPERATOR
    yield CLIENT
    for host in hosts(fleet):
        yield host.party
    for person in fleet.person:
        for role in person.roles:
            yield Party(role, person.name)
