"""Rights and rates: token buckets, the allowance for random arrivals, who may do what."""

import math
import random

import pytest

from agent.runtime.token_bucket import TokenBucket
from agent.scheduling import admission
from agent.scheduling.admission import (
    AGREED_BURST,
    HEADROOM,
    UNLUCKY,
    AgreedRate,
    ClientRates,
    burst_for,
    cost_of,
    may_query,
    may_send,
)
from agent.scheduling.events import ANYONE
from agent.wire.principals import Sender
from tests.scheduling.oracle import task


def test_the_allowance_is_the_documented_one():
    assert (HEADROOM, UNLUCKY) == (1.1, 1e-9)
    assert pytest.approx(113.0, abs=3.0) == AGREED_BURST
    root = -math.log(UNLUCKY) / (AGREED_BURST - 1.0)
    assert math.expm1(root) == pytest.approx(HEADROOM * root)


def poisson(rate_per_s, count, seed):
    draw, now = random.Random(seed), 1_000.0
    for _ in range(count):
        now += draw.expovariate(rate_per_s)
        yield now


def refused_of(agreed_per_s, offered_per_s, count, seed, shares=(1.0,)):
    rate, refused = AgreedRate(agreed_per_s, "tasks", 1_000.0), 0
    draw = random.Random(seed)
    for now in poisson(offered_per_s, count, seed):
        share = draw.choice(shares)
        if rate.refused("climate", "lab", share, now):
            refused += 1
        else:
            rate.take("lab", share)
    return refused


@pytest.mark.parametrize("rate_per_s", [0.5, 15.0, 400.0])
def test_poisson_arrivals_at_the_agreed_rate_are_never_refused(rate_per_s):
    assert refused_of(rate_per_s, rate_per_s, 100_000, seed=rate_per_s) == 0


def test_what_asks_a_part_counts_as_that_part():
    shares = (1.0, 1 / 8, 1 / 8, 1 / 8, 1 / 32)
    mean = sum(shares) / len(shares)
    assert refused_of(15.0, 15.0 / mean, 100_000, seed=2, shares=shares) == 0
    refused = refused_of(15.0, 1.5 * 15.0 / mean, 100_000, seed=2, shares=shares)
    assert 0 < refused / 100_000 < 1 - HEADROOM / 1.5  # the wide ones first


def test_poisson_arrivals_far_above_the_agreed_rate_are_cut_to_it_and_its_headroom():
    refused = refused_of(15.0, 1.5 * 15.0, 100_000, seed=1)
    assert refused / 100_000 == pytest.approx(1 - HEADROOM / 1.5, abs=0.01)


def asked_of(offers, seconds, agreed_per_s=15.0, seed=4):
    """How many of each sender's were refused and taken, by Poisson offers a second."""
    rate = AgreedRate(agreed_per_s, "tasks", 1_000.0)
    draw, counts = random.Random(seed), {sender: [0, 0] for sender in offers}
    due = dict.fromkeys(offers, 1_000.0)
    while (now := min(due.values())) < 1_000.0 + seconds:
        sender = min(due, key=due.__getitem__)
        due[sender] += draw.expovariate(offers[sender])
        taken = rate.refused("climate", sender, 1.0, now) is None
        if taken:
            rate.take(sender, 1.0)
        counts[sender][taken] += 1
        parts = sum(part for part, _ in rate._parts.values())
        assert rate._bucket.wait_s(now, parts) == 0.0, "more is reserved than there is"
    return counts


def test_one_that_asks_without_end_leaves_others_their_parts():
    alone = asked_of({"greedy": 500.0}, 200.0)["greedy"]
    assert alone[1] == pytest.approx(15.0 * HEADROOM * 200.0 + AGREED_BURST, rel=0.01)
    counts = asked_of({"greedy": 500.0, "a": 4.0, "b": 3.0}, 200.0)
    for honest in ("a", "b"):
        refused, taken = counts[honest]
        assert refused / taken < 0.01  # the first ones, before there is a reserve
    # What they leave is its own: no token is lost.
    whole = sum(taken for _, taken in counts.values())
    assert whole == pytest.approx(alone[1], rel=0.03)


def test_senders_that_keep_the_rate_together_are_never_refused():
    counts = asked_of({f"s{n}": 1.0 for n in range(15)}, 5_000.0)
    assert sum(refused for refused, _ in counts.values()) == 0


def test_parts_are_of_the_senders_that_ask(monkeypatch):
    monkeypatch.setattr(admission, "MAX_SHARING", 3)
    rate = AgreedRate(10.0, "tasks", 0.0)
    for sender in ("a", "b", "c", "d"):
        assert rate.refused("climate", sender, 1.0, 1.0) is None
    assert [*rate._parts] == ["b", "c", "d"]
    rate.refused("climate", "d", 1.0, admission.SILENT_S + 2.0)
    assert [*rate._parts] == ["d"]


def test_the_bound_holds_where_it_can_be_seen():
    """With a small bucket refusals are frequent enough to count: no more than it was made for."""
    unlucky = 1e-2
    burst, refused, count = burst_for(HEADROOM, unlucky), 0, 100_000
    bucket = TokenBucket(10.0 * HEADROOM, burst, 1_000.0)
    for now in poisson(10.0, count, seed=3):
        if bucket.wait_s(now):
            refused += 1
        else:
            bucket.take()
    assert unlucky / 30 < refused / count <= unlucky


# --- clients --------------------------------------------------------------------------------------


def test_a_client_over_its_rate_is_told_its_rate_and_when_to_try_again():
    clients = ClientRates(100.0, 0.2)
    sender = Sender("client", "lab", rate_per_s=50.0)
    verdicts = [clients.refused(sender, 1.0) for _ in range(11)]
    assert verdicts[:10] == [None] * 10
    assert verdicts[10] == (
        "over_rate",
        "this client may ask 50 queries/s; try again in 0.02 s",
    )
    assert clients.refused(sender, 1.021) is None


def test_a_request_that_costs_more_than_a_burst_is_taken_of_a_full_bucket():
    clients = ClientRates(10.0, 1.0)
    sender = Sender("client", "lab")
    assert clients.refused(sender, 0.0, 33) is None
    # 23 are owed.
    refused = clients.refused(sender, 0.0)
    assert refused.message == "this client may ask 10 queries/s; try again in 2.4 s"
    refused = clients.refused(sender, 2.4, 33)
    assert refused.message == (
        "this client may ask 10 queries/s, and this counts as 33; try again in 0.9 s"
    )
    assert clients.refused(sender, 3.31, 33) is None


def test_what_is_large_costs_more():
    assert [cost_of(areas) for areas in (1, 64, 65, 1_024)] == [1, 1, 2, 16]
    assert [cost_of(filter_bytes=size) for size in (0, 255, 256, 8_192)] == [1, 1, 2, 33]


def test_one_client_does_not_use_up_what_is_anothers():
    clients = ClientRates(1.0, 1.0)
    for _ in range(100):
        clients.refused(Sender("anyone", "a"), 0.0)
    assert clients.refused(Sender("anyone", "b"), 0.0) is None
    assert clients.refused(Sender("client", "a"), 0.0) is None, "a key's name is not a connection"


def test_a_changed_rate_takes_effect():
    clients = ClientRates(1.0, 1.0)
    while clients.refused(Sender("client", "a"), 0.0) is None:
        pass
    assert clients.refused(Sender("client", "a", rate_per_s=5.0), 0.0) is None


def test_the_table_of_clients_forgets_who_was_silent_longest(monkeypatch):
    monkeypatch.setattr(admission, "MAX_CLIENTS", 2)
    clients = ClientRates(0.001, 1.0)
    for _ in range(10):
        clients.refused(Sender("anyone", "a"), 0.0)
    clients.refused(Sender("anyone", "b"), 1.0)
    assert clients.refused(Sender("anyone", "a"), 2.0), "it is not the oldest"
    clients.refused(Sender("anyone", "c"), 3.0)
    assert len(clients) == 2
    assert clients.refused(Sender("anyone", "a"), 4.0)


def test_without_a_limit_nothing_is_remembered():
    clients = ClientRates(math.inf, 1.0)
    assert clients.refused(ANYONE, 0.0) is None
    assert len(clients) == 0


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sender", "allowed"),
    [
        (ANYONE, True),
        (Sender("client", "lab"), True),
        (Sender("client", "lab", ("climate", "water")), True),
        (Sender("client", "lab", ("water",)), False),
        (Sender("client", "lab", ()), False),
        (Sender("node", "n1"), False),
        (Sender("operator", "op"), False),
        (Sender("iad", "iad2"), False),
        (Sender("csp", "buyer"), False),
        (Sender("mirror", "m"), False),
    ],
)
def test_who_may_query(sender, allowed):
    refused = may_query(sender, "climate")
    assert (refused is None) == allowed
    if refused:
        assert refused.reason == "not_authorised"


@pytest.mark.parametrize(
    ("sender", "origin", "allowed"),
    [
        (ANYONE, "", True),
        (ANYONE, "iad9", True),
        (Sender("iad", "iad2"), "", True),
        (Sender("iad", "iad2"), "iad2", True),
        (Sender("csp", "buyer"), "buyer", True),
        (Sender("iad", "iad2"), "buyer", False),
        (Sender("iad", "iad3"), "", False),
        (Sender("iad", "iad3"), "iad2", False),
        (Sender("client", "iad2"), "", False),
        (Sender("node", "iad2"), "iad2", False),
        (Sender("operator", "iad2"), "", False),
    ],
)
def test_who_may_send_tasks(sender, origin, allowed):
    refused = may_send(sender, task(1, origin=origin), {"iad2", "buyer"})
    assert (refused is None) == allowed
    if refused:
        assert refused.reason == "not_authorised"
