"""Messages of leases between masters of a pool (`agent.placement.membership.member_lease`)."""

from __future__ import annotations

from typing import Literal

from agent.wire.base import Count, Finite, Message, Name


class LeaseTold(Message, frozen=True, tag="lease_told", omit_defaults=True):
    """A word of the master of `iad`. `renew`: its lease in this term, please, asked at `asked_s` of
    its clock by the process `life`; `granted`: yes, to that question; `judge`: is this term of
    `master` over? `over`: it is, up to this term. There is no reply; what is lost is said again."""

    iad: Name
    what: Literal["renew", "granted", "judge", "over"]
    term: Count
    life: Count = 0
    asked_s: Finite = 0.0
    master: Name | None = None
