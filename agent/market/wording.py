"""What a service report says to people."""

from __future__ import annotations

from agent.market.delivery import Acknowledged
from agent.market.pools import in_words
from agent.wire.market import Service


def counted(sellers: int) -> str:
    """``2 IADs offer``."""
    return "1 IAD offers" if sellers == 1 else f"{sellers or 'no'} IADs offer"


def taken_as(said: Acknowledged) -> str:
    """What a member does from now on."""
    if said.delivery.leave:
        return "has left"
    return "serves" if said.delivery.member.areas else "schedules"


def pool_in_words(service: Service) -> str:
    """``2 serve, 1 only schedules: 20 tasks/s, p99.5 ≤ 800 ms``."""
    serving = sum(bool(member.areas) for member in service.members)
    only = len(service.members) - serving
    text = f"{serving} serve" if serving != 1 else "1 serves"
    if only:
        text += f", {only} only schedule" + ("s" if only == 1 else "")
    return f"{text}: {in_words(service.terms)}" if service.terms else text
