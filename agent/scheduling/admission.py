"""Admission control: requests refused before they are queued, by permissions and by rate
(docs/understand/admission.md)."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Container, Hashable, Iterable
from typing import Final, NamedTuple, get_args

from agent.runtime.token_bucket import TokenBucket
from agent.scheduling.nearest import nearest
from agent.wire.areas import AreaSet
from agent.wire.listing import few, hint
from agent.wire.messages import Refusal, Task
from agent.wire.principals import Sender

# An agreed rate is refilled this much faster than agreed: without headroom any finite bucket of
# Poisson arrivals runs empty again and again.
HEADROOM: Final = 1.1
# The permitted refusal probability of Poisson traffic at exactly the agreed rate.
UNLUCKY: Final = 1e-9
# A client's bucket holds at least this many, however slow its rate.
LEAST_BURST: Final = 10.0
# Clients whose rates are remembered; the least recently active one is forgotten first.
MAX_CLIENTS: Final = 10_000
DEFAULT_SERVICE: Final = "default"
# A request that is large costs as many tokens as it takes times this much: parsing and matching it
# takes about as long as so many small queries.
AREAS_A_TOKEN: Final = 64
FILTER_BYTES_A_TOKEN: Final = 256
MAX_NAMED: Final = 4  # services in a refusal


class Refused(NamedTuple):
    """Why a request is refused, as a code for the program and in words for people."""

    reason: Refusal
    message: str


def refusal_counters(what: str) -> dict[str, int]:
    """A zero counter for every reason for which queries or tasks are refused."""
    return {f"{what}_refused_{reason}": 0 for reason in get_args(Refusal)}


def burst_for(headroom: float, unlucky: float) -> float:
    """Capacity of a bucket that is refilled `headroom` times as fast as Poisson arrivals empty it,
    such that an arrival finds no token with a probability of at most `unlucky`.

    The bucket's deficit is the work in an M/D/1 queue (an arrival brings 1, the server does
    `headroom` per mean gap). Kingman's bound: an arrival finds more than w with a probability of at
    most e^(−θw), θ the positive root of e^θ − 1 = headroom · θ. It is refused if that leaves less
    than one token. Arrivals that take less than one each come in smaller batches, for which the
    bound holds all the more.
    """
    root = 2.0 * (headroom - 1.0)
    for _ in range(64):
        root -= (math.expm1(root) - headroom * root) / (math.exp(root) - headroom)
    return 1.0 - math.log(unlucky) / root


AGREED_BURST: Final = burst_for(HEADROOM, UNLUCKY)
# Tokens of a full bucket beyond that: several senders have equal parts of them.
RESERVED: Final = AGREED_BURST / 2
# Senders with a part; the one that was silent longest loses its part first.
MAX_SHARING: Final = 64
# A sender that was silent for so long has no part any more.
SILENT_S: Final = 60.0


class AgreedRate:
    """The negotiated rate of a service, with the allowance that random arrivals need.

    It was derived for work that reaches all of an IAD's nodes (DSSP Eq. 10): work that reaches a
    `share` of them, from 0 to 1, counts as that fraction.

    Beyond what the allowance holds, the bucket has a reserve, of which each of several senders has
    an equal part that it alone can use, refilled with an equal part of the rate: one that asks
    without end leaves the others their parts. What nobody uses is everybody's. All O(1).
    """

    __slots__ = ("_bucket", "_parts", "_what", "rate_per_s")

    def __init__(self, rate_per_s: float, what: str, now: float) -> None:
        self.rate_per_s = rate_per_s
        self._what = what
        self._bucket = TokenBucket(rate_per_s * HEADROOM, AGREED_BURST + RESERVED, now)
        # By sender: what it has of its part, and when it asked last, the longest ago first.
        self._parts: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def refused(self, service: str, payer: Hashable, share: float, now: float) -> Refused | None:
        """Why work of this share is refused now to a sender; takes no tokens."""
        wait_s = self._bucket.wait_s(now, share + RESERVED - self._part_of(payer, now))
        if not wait_s:
            return None
        return Refused(
            "over_rate",
            f"service {service} has an agreed rate of {self.rate_per_s:g}/s for {self._what} "
            f"that ask everything; try again in {wait_s:.3g} s",
        )

    def take(self, payer: Hashable, share: float) -> None:
        """Count accepted work of a sender."""
        self._bucket.take(share)
        part, asked_s = self._parts[payer]
        self._parts[payer] = max(0.0, part - share), asked_s

    def change(self, rate_per_s: float, now: float) -> None:
        """Another rate was agreed. What there is of the bucket stays: a full one with each change
        would be a rate without a limit."""
        self._bucket.wait_s(now)
        self.rate_per_s = rate_per_s
        self._bucket.rate_per_s = rate_per_s * HEADROOM

    def _part_of(self, payer: Hashable, now: float) -> float:
        """The tokens of the reserve that the sender may take now."""
        parts = self._parts
        part, asked_s = parts.pop(payer, (0.0, now))
        while parts and (
            len(parts) >= MAX_SHARING or next(iter(parts.values()))[1] < now - SILENT_S
        ):
            parts.popitem(last=False)
        senders = len(parts) + 1
        gained = self.rate_per_s * HEADROOM * max(0.0, now - asked_s) / senders
        part = min(RESERVED / senders, part + gained) if parts else 0.0
        parts[payer] = part, max(now, asked_s)
        return part


def cost_of(areas: int = 0, filter_bytes: int = 0) -> int:
    """Tokens for a request with so many areas and a filter of so many bytes, at least 1. O(1)."""
    return max(1, -(-areas // AREAS_A_TOKEN)) + filter_bytes // FILTER_BYTES_A_TOKEN


class ClientRates:
    """Rate limits per client; a client is identified by its sender's name. One object for all that
    clients ask: queries, and changes of watches and subscriptions; another one for tasks, whose
    senders are IADs. `limit` says what they may, for refusals."""

    def __init__(
        self,
        rate_per_s: float = math.inf,
        burst_s: float = 1.0,
        limit: str = "this client may ask {:g} queries/s",
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst_s = burst_s
        self._limit = limit
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def refused(self, sender: Sender, now: float, cost: int = 1) -> Refused | None:
        """Why this client is refused now; an accepted request takes `cost` tokens. One that costs
        more than the bucket holds needs a full bucket, and leaves a debt. O(1)."""
        bucket = self._bucket(sender, now)
        if bucket is None:
            return None
        refused = self._over_rate(bucket, now, cost)
        if refused is None:
            bucket.take(cost)
        return refused

    def charge(self, sender: Sender, now: float, cost: int) -> None:
        """What was accepted costs this much more, at most all that the bucket holds. O(1)."""
        bucket = self._bucket(sender, now)
        if bucket is not None:
            bucket.take(min(cost, bucket.burst))

    def would_refuse(self, sender: Sender, now: float, cost: int) -> Refused | None:
        """As `refused`, but takes no tokens. O(1)."""
        bucket = self._bucket(sender, now)
        return None if bucket is None else self._over_rate(bucket, now, cost)

    def _bucket(self, sender: Sender, now: float) -> TokenBucket | None:
        """The client's bucket; None if its rate is unlimited."""
        rate_per_s = self._rate_per_s if sender.rate_per_s is None else sender.rate_per_s
        if rate_per_s == math.inf:
            return None
        key = (sender.role, sender.name)
        bucket = self._buckets.get(key)
        if bucket is None or bucket.rate_per_s != rate_per_s:
            burst = max(LEAST_BURST, rate_per_s * self._burst_s)
            bucket = self._buckets[key] = TokenBucket(rate_per_s, burst, now)
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return bucket

    def _over_rate(self, bucket: TokenBucket, now: float, cost: int) -> Refused | None:
        wait_s = bucket.wait_s(now, min(cost, bucket.burst))
        if not wait_s:
            return None
        limit = self._limit.format(bucket.rate_per_s)
        counts = f", and this counts as {cost}" if cost > 1 else ""
        return Refused("over_rate", f"{limit}{counts}; try again in {wait_s:.3g} s")


def may_query(sender: Sender, service: str) -> Refused | None:
    """Whether this party may query that service. Loopback without keys is trusted."""
    if sender.role == "anyone":
        return None
    if sender.role != "client":
        return Refused(
            "not_authorised", f"a key of role {sender.role} may not query; use a client's key"
        )
    if sender.services is not None and service not in sender.services:
        meant = _or(service, sender.services)
        ask = f"{meant} Ask" if meant else "; ask"
        return Refused(
            "not_authorised",
            f"{sender.name} may not query service {service}{ask} this IAD's operator",
        )
    return None


def unknown_service(service: str, there: Iterable[str], sender: Sender) -> str:
    """Why that service cannot be queried if those are there, and which can; for people, who may
    have asked by a command, a program or a page. One that the sender may not query is never
    named."""
    there = list(there)
    allowed = [name for name in sorted(there) if may_query(sender, name) is None]
    if service == DEFAULT_SERVICE:
        none = "no service is named, and there is no default here"
    else:
        none = f"no service {service} here"
    if not there:
        more = "ask a master that has one, or have this IAD's operator create one"
        return f"{none}, nor any other; {more}"
    if not allowed:
        others = f", {len(there)} other{'s' * (len(there) != 1)}"
        return f"{none}{others}; ask this IAD's operator"
    meant = "" if service == DEFAULT_SERVICE else _or(service, allowed)
    verb = "here is" if len(allowed) == 1 else "here are"
    return f"{none}{f'{meant} T' if meant else '; t'}{verb} {few(allowed, MAX_NAMED)}"


def _or(service: str, known: Iterable[str]) -> str:
    """The known service that is most like this one, as a question; empty if none is like it."""
    return hint(nearest(service, AreaSet(known)))


def may_subscribe(sender: Sender) -> Refused | None:
    """Whether this party may receive alerts. Alerts belong to no service: subscribers need only the
    default one."""
    return _may_push(sender, "subscribe", "subscribes")


def may_publish(sender: Sender) -> Refused | None:
    """Whether this party may publish to topics: as with subscribing."""
    return _may_push(sender, "publish", "publishes")


def _may_push(sender: Sender, do: str, does: str) -> Refused | None:
    if sender.role == "anyone":
        return None
    if sender.role != "client":
        return Refused(
            "not_authorised", f"a key of role {sender.role} may not {do}; use a client's key"
        )
    if sender.services is not None and DEFAULT_SERVICE not in sender.services:
        return Refused(
            "not_authorised",
            f"{sender.name} may only query {', '.join(sender.services)}; who {does} needs the "
            f"service {DEFAULT_SERVICE}: ask this IAD's operator",
        )
    return None


def may_send(sender: Sender, task: Task, members: Container[str]) -> Refused | None:
    """Whether this party may send that task to an IAD of a service whose pool is `members`."""
    if sender.role == "anyone":
        return None
    if sender.role not in ("iad", "csp"):
        return Refused(
            "not_authorised", f"a key of role {sender.role} may not send tasks; only masters do"
        )
    if sender.name not in members:
        return Refused(
            "not_authorised", f"{sender.name} is not in the pool of service {task.service}"
        )
    if task.origin not in ("", sender.name):
        return Refused(
            "not_authorised", f"the task says that {task.origin} sent it, its key {sender.name}"
        )
    return None
