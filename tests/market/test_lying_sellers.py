"""Sellers whose words about areas, terms and times are made to cost the buyer or other sellers."""

import math

import msgspec
import pytest

from agent.wire.base import MAX_AREAS
from agent.wire.codec import MAX_REQUEST_BYTES, encode
from agent.wire.market import Join, Joined, Offer, Propose, Terms
from agent.wire.operator import AddIad
from tests.market.rig import BUYER, building, request

LIAR = "iad1"


def answering(market, answer):
    """The liar answers proposals with `answer(propose)`, and joins whatever comes; all others are
    honest, and what the liar and they are sent has to be what their sockets take."""

    def deliver_all():
        while market.network:
            direction, iad, message = market.network[0]
            if direction == "to":
                assert len(encode(message)) <= MAX_REQUEST_BYTES
            if direction == "to" and iad == LIAR:
                market.network.pop(0)
                if isinstance(message, Propose):
                    market.network.append(("from", iad, answer(message)))
                elif isinstance(message, Join):
                    market.network.append(("from", iad, Joined(message.id, ok=True)))
            else:
                if direction == "to":
                    msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))
                market.deliver()

    market.deliver_all = deliver_all


@pytest.mark.parametrize(
    "counter", [Terms(5e-324, 99.0, 800.0), Terms(5.0, 99.0, 3.6e6), Terms(1e-9, 1e-9, 5e-324)]
)
def test_a_counter_offer_that_no_request_could_meet_is_not_named(counter):
    market = building(1)
    answering(market, lambda propose: Offer(propose.id, "countered", counter=counter))
    market.ask(request(relax=1.5))
    market.run(1.0)
    report = market.report()
    assert not report.ok
    assert "--relax" not in report.message
    assert "try a longer --slo" in report.message


@pytest.mark.parametrize("retry_s", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_none_ends_the_wait_of_no_other(retry_s):
    market = building(2)
    answering(market, lambda propose: Offer(propose.id, "refused", retry_s=retry_s))
    market.ask(request(timeout_ms=8_000.0))
    market.run(8.0)
    [service] = market.report().services
    assert [m.iad for m in service.members] == ["iad2", BUYER]


def test_a_counter_offer_is_never_harder_than_what_was_asked():
    market = building(1)

    def answer(propose):
        if propose.terms.rate_per_s == 5.0 and not asked:
            asked.append(propose.terms)
            harder = Terms(1e6, propose.terms.percentile, 1e-300)
            return Offer(propose.id, "countered", counter=harder)
        return Offer(propose.id, "accepted")

    asked = []
    answering(market, answer)
    market.ask(request())
    market.run(1.0)
    [service] = market.report().services
    assert (service.terms.rate_per_s, service.terms.budget_ms) == (5.0, 800.0)
    assert [m.rate_per_s for m in service.members if m.areas] == [5.0]


def offer_areas(market, iad, areas):
    """It registers these, whatever it has."""
    found = market.found

    def lying(capability, asked):
        given = found(capability, asked)
        candidates = [
            msgspec.structs.replace(each, areas=areas) if each.iad == iad else each
            for each in given.candidates
        ]
        return msgspec.structs.replace(given, candidates=tuple(candidates))

    market.found = lying


def accept(propose):
    return Offer(propose.id, "accepted", hold_s=math.nan)


def test_an_offer_of_more_areas_than_a_proposal_has_is_left_out_in_words():
    market = building()
    answering(market, accept)
    offer_areas(market, LIAR, tuple(f"b1/f1/r{n}" for n in range(MAX_AREAS + 1)))
    market.ask(request())
    market.run(20.0)
    report = market.report()
    [service] = report.services
    assert [m.iad for m in service.members] == ["iad2", "iad3", BUYER]
    [step] = [step for step in report.steps if step.iad == LIAR]
    assert step.outcome == "offers 1,025 areas there, a proposal has at most 1,024: ask finer areas"
    assert len(report.uncovered) == MAX_AREAS + 1


def test_long_names_of_one_leave_room_in_the_pool_for_others():
    market = building(4)
    answering(market, accept)
    long = tuple("b1/" + "/".join("x" * 62 for _ in range(8)) + f"/{n}" for n in range(MAX_AREAS))
    offer_areas(market, LIAR, long)
    offer_areas(market, "iad2", long)
    market.ask(request())
    market.run(20.0)
    report = market.report()
    [service] = report.services
    assert {"iad3", "iad4", BUYER} <= {m.iad for m in service.members}
    assert len(encode(Join("x", service))) <= MAX_REQUEST_BYTES
    steps = [step.outcome for step in report.steps if step.step == "discover" and step.iad]
    assert steps == ["has areas that do not fit into the pool beside those of others: ask fewer"]


def test_the_only_offer_that_is_too_large_is_named():
    market = building(1)
    answering(market, accept)
    offer_areas(market, LIAR, tuple(f"b1/f1/r{n}" for n in range(MAX_AREAS + 1)))
    market.ask(request())
    market.run(1.0)
    report = market.report()
    assert not report.ok
    assert report.message == (
        "1 IAD offers temperature there; "
        "iad1 offers 1,025 areas there, a proposal has at most 1,024: ask finer areas"
    )


def test_an_iad_that_does_not_fit_is_not_added():
    market = building(2)
    answering(market, accept)
    market.ask(request(only=("iad2",)))
    market.run(1.0)
    assert market.report().ok
    offer_areas(market, LIAR, tuple(f"b1/f1/r{n}" for n in range(MAX_AREAS + 1)))
    market.ask(AddIad("x", "climate", LIAR))
    market.run(20.0)
    report = market.report()
    assert not report.ok
    assert report.message == (
        "iad1 offers 1,025 areas there, a proposal has at most 1,024: ask finer areas"
    )
    assert market.versions("climate").keys() == {"iad2", BUYER}
