"""Clients that come, go and move: who lives where is mended locally, beside a plan made anew."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

import numpy as np
from msgspec import Struct

from fleet.placement.homes.accounts import Accounts
from fleet.placement.homes.baselines import nearest_homes, otos_homes
from fleet.placement.homes.case import NOWHERE, Bools, Case, Floats, Ints
from fleet.placement.homes.search import Effort, cheapest, greedy_homes, improve
from fleet.placement.homes.sharing import PerTopic
from lab.placement.homes.draw import Setting, draw

PEERS: Final = 2
AWAY: Final = 0.2  # of all clients, at the begin
LOOKS: Final = 5  # comparisons with a plan made anew
# A client that moves gets noise on its delay to each server, as of a way with this deviation.
NOISE_KM: Final = 1.25


class Online:
    """A placement that follows events: the client is priced, and at most two of its peers."""

    def __init__(self, accounts: Accounts, seed: int) -> None:
        """`seed` is of the draw of peers."""
        self.accounts = accounts
        self.migrations = 0
        self._draw = np.random.default_rng(seed)

    def join(self, client: int) -> None:
        """A client comes."""
        self.accounts.move([client], cheapest(self.accounts, client))
        self._peers(client)

    def leave(self, client: int) -> None:
        """A client goes."""
        self.accounts.move([client], NOWHERE)
        self._peers(client)

    def moved(self, client: int, delay: Floats) -> None:
        """A client is elsewhere, with these delays to the servers."""
        accounts = self.accounts
        home = int(accounts.home[client])
        accounts.move([client], NOWHERE)
        accounts.case.delay[client] = delay
        accounts.move([client], home)
        self._reprice(client)
        self._peers(client)

    def _peers(self, client: int) -> None:
        related = self.accounts.case.co_membership[client][0]
        there = related[self.accounts.home[related] != NOWHERE]
        for peer in self._draw.permutation(there)[:PEERS].tolist():
            self._reprice(peer)

    def _reprice(self, client: int) -> None:
        accounts = self.accounts
        home, target = int(accounts.home[client]), cheapest(accounts, client)
        if target == home:
            return
        if accounts.move([client], target) < 0:
            self.migrations += 1
        else:
            accounts.move([client], home)


class Look(Struct, frozen=True):
    """What events have done so far, and how much dearer the placement is than a plan made anew."""

    overlap: bool
    seed: int
    events: int
    migrations: float  # an event
    off_percent: float
    event_ms: float  # CPU time, mean


def follow(overlap: bool, seed: int, events: int, topics: int = 64) -> list[Look]:
    """Random joins, leaves and moves under hard limits."""
    setting = Setting(spool_factor=1.5, overlap=overlap, topics=topics)
    case, _ = draw(setting, seed)
    of = np.random.default_rng(seed + 1_000)
    home = _plan(case, of.random(case.clients) >= AWAY, None)
    online = Online(Accounts(case, PerTopic(), home), seed)
    looks, spent = [], 0.0
    for event in range(1, events + 1):
        there = online.accounts.home != NOWHERE
        kind = of.integers(3)
        client = int(of.choice(np.flatnonzero(there if kind else ~there)))
        delay = np.abs(case.delay[client] + of.normal(size=case.servers) * _noise(setting))
        began = time.process_time()
        if kind == 0:
            online.join(client)
        elif kind == 1:
            online.leave(client)
        else:
            online.moved(client, delay)
        spent += time.process_time() - began
        if event % max(1, events // LOOKS) == 0:
            off = 100.0 * float(online.accounts.total / _anew(online.accounts) - 1.0)
            rate = online.migrations / event
            looks.append(Look(overlap, seed, event, rate, off, 1e3 * spent / event))
    return looks


def _noise(setting: Setting) -> float:
    return NOISE_KM * setting.per_km


def _anew(accounts: Accounts) -> float:
    case = replace(accounts.case, delay=accounts.case.delay.copy())
    home = _plan(case, accounts.home != NOWHERE, accounts.home)
    return Accounts(case, PerTopic(), home).total


def _plan(case: Case, there: Bools, present: Ints | None) -> Ints:
    """The best that local search finds for those who are there, from the present homes, too."""
    clients = np.flatnonzero(there)
    starts = [nearest_homes(case), otos_homes(case, "centroid")]
    starts = [np.where(there, home, NOWHERE) for home in starts]
    starts.append(greedy_homes(case, PerTopic(), clients.tolist()))
    if present is not None:
        starts.append(present)
    return improve(case, PerTopic(), starts, effort=Effort(starts=2, kicks=0))
