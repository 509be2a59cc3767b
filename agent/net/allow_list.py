"""Allow-list: public keys and roles of parties, from the operator's file and from the market."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from agent.net.file_watcher import Watched
from agent.wire.base import Areas, Name, PublicKey
from agent.wire.config import Section, load
from agent.wire.principals import Role, Sender

Keys = Annotated[tuple[PublicKey, ...], Meta(min_length=1, max_length=2)]


class AllowedClient(Section, frozen=True):
    """A client that may send queries."""

    name: Name
    keys: Keys
    services: Annotated[tuple[Name, ...], Meta(max_length=1_000)] | None = None
    rate_per_s: Annotated[float, Meta(gt=0.0, le=1e6)] | None = None


class AllowedParty(Section, frozen=True):
    """Any other party, identified by name."""

    name: Name
    keys: Keys


class AllowedIad(AllowedParty, frozen=True):
    """Another master; a `partner` is this operator's, too, and may be found by membership."""

    partner: bool = False


class AllowedNode(Section, frozen=True):
    """An edge node; with `areas` it speaks for these and the areas below them only."""

    name: Name
    keys: Keys
    areas: Areas | None = None


class AllowFile(Section, frozen=True):
    """The allow-list's file."""

    client: tuple[AllowedClient, ...] = ()
    node: tuple[AllowedNode, ...] = ()
    operator: tuple[AllowedParty, ...] = ()
    iad: tuple[AllowedIad, ...] = ()
    csp: tuple[AllowedParty, ...] = ()
    mirror: tuple[AllowedParty, ...] = ()

    def __post_init__(self) -> None:
        names: set[tuple[str, str]] = set()
        owners: dict[str, str] = {}
        for party in self.parties():
            role, name = party.sender.role, party.sender.name
            if (role, name) in names:
                raise ValueError(f"{role} {name} stands there twice; give it both keys in one")
            names.add((role, name))
            for key in party.keys:
                if key in owners:
                    raise ValueError(f"{role} {name} has a key of {owners[key]}: {key}")
                owners[key] = f"{role} {name}"

    def parties(self) -> list[Party]:
        """All parties in the file."""
        found = [
            Party(Sender("client", c.name, c.services, c.rate_per_s), c.keys) for c in self.client
        ]
        found += [Party(Sender("node", n.name, areas=n.areas), n.keys) for n in self.node]
        others: tuple[tuple[Role, tuple[AllowedParty, ...]], ...] = (
            ("operator", self.operator),
            ("csp", self.csp),
            ("mirror", self.mirror),
        )
        found += [Party(Sender("iad", i.name, partner=i.partner), i.keys) for i in self.iad]
        for role, rows in others:
            found += [Party(Sender(role, row.name), row.keys) for row in rows]
        return found


class Party(NamedTuple):
    """A principal that may connect, with its public keys. `owner` is, for hearsay, the party that
    named it; empty: this process."""

    sender: Sender
    keys: tuple[str, ...]
    owner: str = ""


# The roles that each socket serves.
ROLES: Final[dict[str, frozenset[Role]]] = {
    "public": frozenset(("client", "iad", "csp")),
    "nodes": frozenset(("node",)),
    "operator": frozenset(("operator",)),
    "drs": frozenset(("iad", "csp", "mirror", "operator")),
}


class AllowList:
    """Parties by public key; for a key that several sources name, the file takes precedence.

    O(1) a look-up. Without a file only the parties of `set_parties` are allowed.
    """

    def __init__(self, path: str = "") -> None:
        self._file = Watched(path, read_allow_file) if path else None
        self._sources: dict[str, tuple[Party, ...]] = {}
        self._hearsay: dict[str, tuple[Party, ...]] = {}
        self._by_key: dict[str, Sender] = {}
        # The owner of a key that no source names, if another part knows one: for parties that are
        # too many, or change too often, to be set again as a whole.
        self.ask: Callable[[str], Sender | None] = lambda _key: None
        self._index()

    def find(self, key: str) -> Sender | None:
        """The owner of a key; None if the key is not allowed."""
        sender = self._by_key.get(key)
        if sender is None and (asked := self.ask(key)) is not None and not self._is_partner(asked):
            return asked
        return sender

    def partner_keys(self, iad: str) -> tuple[str, ...]:
        """The keys of a master that the file calls this operator's, too; () for others."""
        return self._partners.get(iad, ())

    def iad_keys(self, iad: str) -> tuple[str, ...]:
        """The keys that the file gives to a master; () if it is not there."""
        return self._iads.get(iad, ())

    def names_node(self, name: str) -> bool:
        """Whether the file has a node of that name."""
        return name in self._nodes

    def may_vouch(self, owner: str) -> bool:
        """Whether the parties that `owner` names may connect: it trades, and is not hearsay."""
        return not owner or owner in self._owners

    def refresh(self) -> bool:
        """Reload the file; whether it has changed. On ConfigError the previous version stays in
        force."""
        if self._file is None or not self._file.refresh():
            return False
        self._index()
        return True

    def set_parties(self, source: str, parties: Iterable[Party], *, hearsay: bool = False) -> None:
        """Replace the parties allowed by `source` (such as "accounts"). `hearsay`: the information
        does not come from the parties themselves; it adds no key to a name known otherwise, and
        counts while its owner is known otherwise."""
        (self._hearsay if hearsay else self._sources)[source] = tuple(parties)
        self._index()

    def _index(self) -> None:
        found: dict[str, Sender] = {}
        # What a partner may do, nobody gets from a market by taking its name.
        of_file = self._file.value.parties() if self._file is not None else []
        vouched = [*of_file, *(p for parties in self._sources.values() for p in parties)]
        self._partners = {p.sender.name: p.keys for p in of_file if p.sender.partner}
        self._iads = {p.sender.name: p.keys for p in of_file if p.sender.role == "iad"}
        self._nodes = {p.sender.name for p in of_file if p.sender.role == "node"}
        self._owners = {p.sender.name for p in vouched if p.sender.role in ("iad", "csp")}
        known = {party.sender.name for party in vouched}
        heard = [p for parties in self._hearsay.values() for p in parties]
        heard = [p for p in heard if self.may_vouch(p.owner)]
        for party in (*vouched, *(p for p in heard if p.sender.name not in known)):
            if party.sender.partner or not self._is_partner(party.sender):
                for key in party.keys:
                    found.setdefault(key, party.sender)
        self._by_key = found

    def _is_partner(self, sender: Sender) -> bool:
        return sender.role == "iad" and sender.name in self._partners


def read_allow_file(path: str) -> AllowFile:
    """Read the allow-list at `path`; ConfigError in one line."""
    return load(path, AllowFile)
