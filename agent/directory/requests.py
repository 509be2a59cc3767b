"""Shared by leader and replicas: authorization of requests, and the answers to reads."""

from __future__ import annotations

from typing import Final

from agent.directory.directory import Directory
from agent.wire.base import Message
from agent.wire.directory import (
    Accounts,
    CloseAccount,
    Denied,
    DeniedReason,
    DirectoryReply,
    DirectoryRequest,
    Discover,
    Follow,
    Found,
    ListAccounts,
    LookUp,
    OpenAccount,
    Register,
    Renew,
    Withdraw,
)
from agent.wire.principals import Role, Sender

READERS: Final = frozenset[Role]({"anyone", "iad", "csp", "operator"})
SELLERS: Final = frozenset[Role]({"anyone", "iad"})
BUYERS: Final = frozenset[Role]({"anyone", "csp"})
# Used by the directory's operator to remove a party.
FOR_ALL: Final = frozenset[Role]({"anyone", "operator"})
MAY_SEND: Final[dict[type[Message], frozenset[Role]]] = {
    Register: SELLERS,
    Renew: SELLERS,
    Withdraw: SELLERS | FOR_ALL,
    OpenAccount: BUYERS,
    CloseAccount: BUYERS | FOR_ALL,
    Discover: READERS,
    LookUp: READERS,
    ListAccounts: READERS,
    Follow: frozenset({"anyone", "mirror"}),
}


def refusal(request: DirectoryRequest, sender: Sender) -> Denied | None:
    """Why `sender` may not make that request, if so: a party changes its own record only."""
    if sender.role not in MAY_SEND[type(request)]:
        kind = tag(request)
        return denied(request, "not_authorised", f"a key of role {sender.role} may not {kind}")
    name = subject(request)
    if name is not None and sender.role not in FOR_ALL and name != sender.name:
        return denied(
            request, "not_authorised", f"your key is {sender.name}'s; it cannot speak for {name}"
        )
    return None


def subject(request: DirectoryRequest) -> str | None:
    """The party whose record a request changes; None if it only reads."""
    match request:
        case Register() | Renew() | Withdraw():
            return request.iad
        case OpenAccount() | CloseAccount():
            return request.name
        case _:
            return None


def answer(
    directory: Directory, request: Discover | LookUp | ListAccounts, age_s: float
) -> DirectoryReply:
    """The reply to a read."""
    match request:
        case Discover():
            candidates, uncovered = directory.discover(request.capability, request.areas)
            return Found(request.id, candidates, uncovered, age_s)
        case LookUp():
            return Found(request.id, directory.look_up(request.iads), age_s=age_s)
        case ListAccounts():
            return Accounts(request.id, directory.accounts, age_s)


def denied(request: DirectoryRequest, reason: DeniedReason, message: str) -> Denied:
    """A refusal."""
    return Denied(request.id, reason, message)


def tag(message: Message) -> str:
    """The name of a message on the wire."""
    return str(type(message).__struct_config__.tag)
