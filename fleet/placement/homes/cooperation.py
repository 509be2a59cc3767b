"""RELOC's cooperation step: an exhausted server hands a client's topics to another one."""

from __future__ import annotations

import numpy as np

from fleet.placement.homes.case import Ints
from fleet.placement.homes.usage import Usage


def cooperate(usage: Usage, client: int, choice: Ints) -> None:
    """Give a client of an exhausted home another one, and let all publishers of its topics that
    live with it go along; topics without a publisher there are dropped.

    The paper leaves the choice open. Here it is the nearest server of `choice` that has w = 1
    afterwards; if there is none, that with the largest w, the present home among them.
    """
    case, home = usage.case, int(usage.home[client])
    topics = usage.published(client)
    if not len(topics):
        return
    movers = _publishers(usage, topics, home)
    allowed = choice[case.may_live[movers][:, choice].all(axis=0) & (choice != home)]
    if not len(allowed):
        return
    copied = np.unique(np.concatenate([usage.published(c) for c in movers.tolist()]))
    load = float(case.load_of_client[movers].sum())
    stored = usage.stored[allowed] + usage.added(copied)[allowed]
    after = case.processed(stored, usage.load[allowed] + load, allowed)
    if (after >= 1.0).any():
        fit = allowed[after >= 1.0]
        target = int(fit[case.delay[client, fit].argmin()])
    else:
        if after.max() <= case.processed(usage.stored[home], usage.load[home], home):
            return
        target = int(allowed[after.argmax()])
    for mover in movers.tolist():
        usage.put(mover, target)


def _publishers(usage: Usage, topics: Ints, home: int) -> Ints:
    publishers = usage.case.publishers
    all_ = np.concatenate([publishers[t] for t in topics.tolist()])
    return np.unique(all_[usage.home[all_] == home])
