"""Split of an overloaded server's work: its own part, and the cloud's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fleet.placement.homes.case import Floats, Ints

if TYPE_CHECKING:
    from fleet.placement.homes.accounts import Accounts


class Ratio:
    """RELOC Eq. 2: of every topic the same share, w = min(1, M / m, C / l).

    An optimum may abuse it: where storage cannot suffice, it pays to overload one server without
    limit (w of 0.1 and less) and to keep the others free.
    """

    def shares(self, accounts: Accounts, server: int) -> Floats:
        """w, for all topics."""
        w = accounts.case.processed(accounts.stored[server], accounts.load[server], server)
        return np.full(accounts.case.topics, w)

    def outlook(self, accounts: Accounts, topics: Ints) -> Floats:
        """w before the publisher comes."""
        return np.asarray(accounts.share[topics])

    def toll(self, accounts: Accounts, added: Floats, load: Floats, deliveries: Floats) -> Floats:
        """Cost of a lower w for those who live there."""
        del deliveries
        after = accounts.case.processed(accounts.stored + added, accounts.load + load[:, None])
        now = accounts.case.processed(accounts.stored, accounts.load)
        return np.asarray((now - after) * accounts.at_stake())

    def relief(self, accounts: Accounts, homes: Ints, freed: Floats, load: Floats) -> Floats:
        """Gain of a higher w for those who stay."""
        stored, used = accounts.stored[homes], accounts.load[homes]
        after = accounts.case.processed(stored - freed, used - load, homes)
        now = accounts.case.processed(stored, used, homes)
        return np.asarray((after - now) * accounts.at_stake()[homes])


class PerTopic:
    """Limits are hard: what does not fit is delegated by whole topics, those with the largest
    spools first, so that few are. The same rule as in `agent.placement.congestion.Limits`."""

    def shares(self, accounts: Accounts, server: int) -> Floats:
        """1 of what fits, 0 of what is delegated."""
        case = accounts.case
        kept = np.ones(case.topics)
        storage, load = accounts.excess(server)
        if storage > 0 or load > 0:
            here = np.flatnonzero(accounts.count[:, server])
            here = here[np.argsort(-case.spool[here], kind="stable")]
            less = np.cumsum(case.spool[here])
            eased = np.cumsum(case.load_of_message[here] * accounts.rate[here, server])
            enough = (less >= storage) & (eased >= load)
            kept[here[: int(enough.argmax()) + 1 if enough.any() else None]] = 0.0
        return kept

    def outlook(self, accounts: Accounts, topics: Ints) -> Floats:
        """Of a topic that a server has not yet: whether its spool fits."""
        fits = accounts.used()[None, :] + accounts.case.spool[topics][:, None]
        fresh = fits <= accounts.case.storage[None, :]
        return np.where(accounts.count[topics] > 0, accounts.share[topics], fresh)

    def toll(self, accounts: Accounts, added: Floats, load: Floats, deliveries: Floats) -> Floats:
        """A load that does not fit: the cloud processes what this client publishes."""
        del added
        over = accounts.load + load[:, None] > accounts.case.compute
        return np.asarray(over * (accounts.detour * deliveries)[:, None])

    def relief(self, accounts: Accounts, homes: Ints, freed: Floats, load: Floats) -> Floats:
        """Part of what the home delegates, by the part of its excess that goes."""
        case = accounts.case
        lost = np.zeros(case.servers)
        size, work = np.full(case.servers, np.inf), np.full(case.servers, np.inf)
        for server in np.unique(homes[accounts.short[homes]]).tolist():
            delegated = (accounts.share[:, server] == 0) & (accounts.count[:, server] > 0)
            gone = np.flatnonzero(delegated)
            lost[server] = accounts.detour * accounts.deliveries_from(gone, server).sum()
            size[server] = case.spool[gone].sum()
            work[server] = case.load_of_message[gone] @ accounts.rate[gone, server]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.nan_to_num(np.maximum(freed / size[homes], load / work[homes]), nan=0.0)
        return np.asarray(lost[homes] * np.minimum(1.0, part))
