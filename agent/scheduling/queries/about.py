"""Queries of form `about`: which services and IADs they go to, and what their answer adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from agent.scheduling.admission import cost_of, may_query, may_subscribe
from agent.scheduling.pools import DEFAULT, Match, Pool
from agent.scheduling.queries.answers import named
from agent.wire.about import EVERYWHERE, ServiceInfo
from agent.wire.base import QueryForm
from agent.wire.messages import Answer, AreaResult, TaskResult
from agent.wire.principals import Sender

# Where a master that is asked for it refuses to decode the form.
FORM: Final = "$.form"
STRANGE: Final = ("unknown_service", "not_authorised")
EARLIER: Final = "its master is of an earlier version, which knows no form {}"


class Asked(NamedTuple):
    """A service that is asked, and its IADs with the areas of each."""

    service: str
    match: Match


def permitted(pools: Mapping[str, Pool], sender: Sender) -> dict[str, Pool]:
    """The services that the sender may query."""
    return {name: pool for name, pool in pools.items() if may_query(sender, name) is None}


def meant(service: str, pools: Mapping[str, Pool]) -> dict[str, Pool]:
    """The one that is named; where there is no service `default`, and none named, all."""
    if service in pools:
        return {service: pools[service]}
    return dict(pools) if service == DEFAULT else {}


def cost(areas: Sequence[str], pools: Mapping[str, Pool]) -> int:
    """Tokens for the query: as for one that names all the areas."""
    if EVERYWHERE not in areas:
        return cost_of(len(areas) * len(pools))
    return cost_of(sum(len(pool.announced) for pool in pools.values()))


def split(areas: tuple[str, ...], pools: Mapping[str, Pool]) -> tuple[list[Asked], list[str]]:
    """Whom to ask for what, and the areas that no IAD of these services offers."""
    asked: list[Asked] = []
    unmatched = dict.fromkeys(areas)
    for name, pool in pools.items():
        fanout = pool.all_of(areas)
        asked += [Asked(name, match) for match in fanout.matches]
        left = set(fanout.unmatched)
        unmatched = {area: None for area in unmatched if area in left}
    return asked, list(unmatched)


def told(answer: Answer, pools: Mapping[str, Pool], sender: Sender) -> Answer:
    """The answer with the services that its client may query, and without raised triggers if it may
    not subscribe to their alerts. O(results)."""
    services = tuple([_service(name, pools[name]) for name in sorted(pools)])
    results = answer.results
    if may_subscribe(sender) is not None:
        results = tuple([_without_raised(each) for each in results])
    return replace(answer, services=services, results=results)


def not_answered(form: QueryForm, result: TaskResult, iad: str, *, own: bool) -> str:
    """Why an IAD's refusal is a gap in the answer, for people; empty: it refuses the query. A
    master of an earlier version does not know the form, one that lost its state, or has that of an
    earlier pool, neither the service nor its members; and what a master says about its areas does
    not depend on the others."""
    earlier = result.reason == "malformed" and not own
    if form == "buckets" and earlier and FORM in result.message:
        return EARLIER.format(form)
    if form != "about":
        return named(result, iad).message if result.reason in STRANGE and not own else ""
    return EARLIER.format(form) if earlier else result.message or "its master refused"


def _without_raised(result: AreaResult) -> AreaResult:
    if result.about is None or not result.about.raised:
        return result
    return replace(result, about=replace(result.about, raised=()))


def _service(name: str, pool: Pool) -> ServiceInfo:
    terms = pool.service.terms
    return ServiceInfo(
        name,
        pool.service.capability,
        None if terms is None else terms.percentile,
        None if terms is None else terms.budget_ms,
        None if terms is None else terms.rate_per_s,
        pool.roots,
    )
