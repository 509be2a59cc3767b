"""Assignments that RELOC is compared with: random, nearest, one topic one server (OTOS)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import numpy as np

from fleet.placement.homes.case import NOWHERE, Case, Floats, Ints
from fleet.placement.homes.cooperation import cooperate
from fleet.placement.homes.usage import Usage

# OTOS leaves open which server a topic gets; its results depend on it, so both readings are kept.
Reading = Literal["centroid", "least used"]


def random_homes(case: Case, seed: int) -> Ints:
    """RA: any server, with the same probability."""
    draw = np.random.default_rng(seed).random(case.delay.shape)
    return np.asarray(np.where(case.may_live, draw, -1.0).argmax(axis=1))


def nearest_homes(case: Case) -> Ints:
    """NS: the server with the least delay."""
    return np.asarray(case.reachable.argmin(axis=1))


def otos_homes(case: Case, reading: Reading) -> Ints:
    """OTOS: a topic's members live on one server. A client of several topics lives where the first
    of them put it, and RELOC's cooperation step relieves a server that is exhausted."""
    usage = Usage(case)
    choose = CHOICES[reading]
    everywhere = np.arange(case.servers)
    order = np.argsort(case.topic, kind="stable")
    ends = np.searchsorted(case.topic[order], np.arange(case.topics + 1))
    for topic in range(case.topics):
        members = case.client[order[ends[topic] : ends[topic + 1]]]
        if not len(members):
            continue
        server = choose(usage, members, topic)
        for client in members.tolist():
            if usage.home[client] == NOWHERE:
                _put(usage, client, server, everywhere)
    for client in np.flatnonzero(usage.home == NOWHERE).tolist():
        usage.put(client, int(case.reachable[client].argmin()))
    return usage.home


def _put(usage: Usage, client: int, server: int, everywhere: Ints) -> None:
    case = usage.case
    if not case.may_live[client, server]:
        server = int(case.reachable[client].argmin())
    usage.put(client, server)
    if usage.exhausted(server):
        cooperate(usage, client, everywhere)


def _at_centroid(usage: Usage, members: Ints, topic: int) -> int:
    """The server to which its members have the least delay together: the nearest to their centroid,
    said without coordinates."""
    del topic
    return int(usage.case.delay[members].sum(axis=0).argmin())


def _least_used(usage: Usage, members: Ints, topic: int) -> int:
    """The server whose scarcer resource is used least; of equal ones the nearest."""
    use = _use(usage)
    delay = usage.case.delay[members].sum(axis=0)
    del topic
    return int(np.lexsort((delay, use))[0])


def _use(usage: Usage) -> Floats:
    case = usage.case
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.nan_to_num([usage.stored / case.storage, usage.load / case.compute], nan=0.0)
    return np.asarray(parts.max(axis=0))


CHOICES: Final[dict[Reading, Callable[[Usage, Ints, int], int]]] = {
    "centroid": _at_centroid,
    "least used": _least_used,
}
