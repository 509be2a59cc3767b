"""Operator sockets of one or several IADs.

Each has threads of its own: one that is down keeps only those waiting that ask it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from agent.client import NoReplyError, Operator
from agent.gateway.http.asking import Askers, BusyError
from agent.gateway.http.problems import Problem
from agent.wire.operator import IadStatus

R = TypeVar("R")

THREADS: Final = 2  # of each
WAIT_MS: Final = 2_000.0


class Told(NamedTuple):
    """What an operator socket tells of its IAD, or why it tells nothing. `iad` is the address until
    it was heard, `nodes` the number of its nodes when it was heard last."""

    iad: str
    status: IadStatus | None = None
    problem: str = ""
    nodes: int | None = None


class Operators:
    """Operator sockets at `addresses`, the first of which is asked where one is enough."""

    def __init__(
        self, addresses: Sequence[str], connects: Sequence[Callable[[], Operator]]
    ) -> None:
        # Until they are heard there is nothing but their addresses.
        self._last = [Told(address) for address in addresses]
        self._askers = [Askers("operator", THREADS, connect) for connect in connects]

    def __len__(self) -> int:
        return len(self._askers)

    async def status(self, caller: str) -> IadStatus:
        """The status of the first IAD. Problem."""
        return await self._status(0, caller)

    async def statuses(self, caller: str) -> list[Told]:
        """What each tells, all asked at once."""

        async def told(number: int) -> Told:
            try:
                status = await self._status(number, caller)
            except Problem as problem:
                return self._last[number]._replace(problem=problem.detail)
            return self._last[number]._replace(status=status)

        return list(await asyncio.gather(*map(told, range(len(self)))))

    async def first(self, job: Callable[[Operator], R], caller: str) -> R:
        """The result of `job` at the first that answers, for what all masters know. Problem, that
        of the first, if none does."""
        first: Problem | None = None
        for number in range(len(self)):
            try:
                return await self._ask(number, job, caller)
            except Problem as problem:
                first = first or problem
        raise first or no_operator()

    def close(self) -> None:
        """Let the threads end that have nothing to do."""
        for askers in self._askers:
            askers.close()

    async def _status(self, number: int, caller: str) -> IadStatus:
        status = await self._ask(number, lambda operator: operator.status(WAIT_MS), caller)
        self._last[number] = Told(status.iad, nodes=len(status.nodes))
        return status

    async def _ask(self, number: int, job: Callable[[Operator], R], caller: str) -> R:
        if not self._askers:
            raise no_operator()
        try:
            return await self._askers[number].ask(job, caller)
        except BusyError:
            raise Problem(503, "busy", "the operator socket is busy", retry_after_s=1) from None
        except (NoReplyError, OSError) as error:
            raise Problem(504, "no_reply", str(error)) from None
        except ValueError as error:
            raise Problem(502, "refused", str(error)) from None


def no_operator() -> Problem:
    """What a request is told where no operator socket is configured."""
    return Problem(404, "no_operator", "operator.address is not set in the gateway's file")
