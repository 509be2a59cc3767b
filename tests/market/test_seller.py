"""A seller: what it accepts, counters and refuses, whom it obeys, what it keeps."""

import pytest
from msgspec import json

from agent.market import seller
from agent.market.seller import DRAIN_S
from agent.market.seller_events import Membership, Serve, SetPods
from agent.market.terms import Tick
from agent.wire.market import Join, Leave, Member, Propose, Release, Service, Terms
from agent.wire.principals import Sender
from tests.market.rig import FAST_S, Iad

TERMS = Terms(5.0, 99.0, 800.0)
AREA = "b1/f1/r0"
OWNER = Sender("iad", "iad9")


@pytest.fixture
def iad():
    return Iad("iad1", {"n1": (AREA, FAST_S)}, most_pods=2)


def propose(service="climate", terms=TERMS, areas=(AREA,), number="p1"):
    return Propose(number, service, "temperature", areas, terms)


def join(version=1, service="climate", terms=TERMS, owner="iad9", members=None):
    own = Member("iad1", "tcp://127.0.0.1:1", (AREA,), rate_per_s=terms.rate_per_s)
    members = (own,) if members is None else members
    pool = Service(service, owner, version, members, "temperature", terms)
    return Join(f"j{version}", pool)


def one(iad, message, now=0.0, sender=OWNER):
    [reply] = iad.take(message, now, sender)
    return reply


def tick(iad, now):
    assert iad.perform(iad.seller.handle(Tick(), now)) == []


def test_an_acceptance_holds_pods_against_others_until_it_expires(iad):
    # 1/0.05 − θ = 14.2/s a pod: two pods keep 28.
    heavy = Terms(20.0, 99.0, 800.0)
    assert one(iad, propose("a", heavy)).verdict == "accepted"
    other = one(iad, propose("b", heavy))
    assert other.verdict == "countered"
    assert 8.0 < other.counter.rate_per_s < 9.0
    tick(iad, 30.0)
    assert one(iad, propose("b", heavy), 30.0).verdict == "accepted"


def test_a_counter_offer_is_accepted_when_proposed(iad):
    counter = one(iad, propose(terms=Terms(100.0, 99.0, 800.0))).counter
    assert one(iad, propose(terms=counter)).verdict == "accepted"


def test_a_new_proposal_takes_the_place_of_the_buyers_former_one(iad):
    for number in range(5):
        offer = one(iad, propose(terms=Terms(20.0, 99.0, 800.0), number=f"p{number}"))
        assert offer.verdict == "accepted"


def test_a_release_frees_the_hold_of_its_id_only(iad):
    heavy = Terms(20.0, 99.0, 800.0)
    one(iad, propose("a", heavy, number="p1"))
    one(iad, propose("a", heavy, number="p2"))
    assert iad.take(Release("p1", "a"), 0.0, OWNER) == []
    assert iad.take(Release("p2", "a"), 0.0, Sender("iad", "iad8")) == []
    assert one(iad, propose("b", heavy)).verdict == "countered"
    iad.take(Release("p2", "a"), 0.0, OWNER)
    assert one(iad, propose("b", heavy)).verdict == "accepted"


@pytest.mark.parametrize(
    ("message", "sender", "says"),
    [
        (propose(areas=("b1/f9",)), OWNER, "does not offer temperature in these areas"),
        (propose(areas=(AREA, "b1")), OWNER, "does not offer temperature in these areas"),
        (Propose("p", "s", "humidity", (AREA,), TERMS), OWNER, "does not offer humidity"),
        (propose("default"), OWNER, "the name default is taken"),
        (propose(), Sender("client", "app"), "a client's key may not negotiate"),
        (propose(), Sender("node", "n1"), "a node's key may not negotiate"),
        (propose(terms=Terms(1e6, 99.0, 1.0)), OWNER, "cannot keep 1,000,000 tasks/s"),
    ],
)
def test_refusals_are_in_words(iad, message, sender, says):
    offer = one(iad, message, sender=sender)
    assert offer.verdict == "refused"
    assert says in offer.message
    assert "n1" not in offer.message.split()


HARD = Terms(5.0, 99.0, 400.0)


@pytest.mark.parametrize(
    ("mean_s", "samples", "sold", "says"),
    [
        (0.4, 0, 0.0, "its nodes are not measured yet: query them first"),
        (0.4, 9, 0.0, "too slow for this latency: ask for more time"),
        (0.08, 9, 20.0, "the rate is too high for it"),
        (0.06, 9, 18.0, "its pods are sold to other services"),
    ],
)
def test_a_refusal_names_the_cause_and_what_would_help(mean_s, samples, sold, says):
    iad = Iad("iad1", {"n1": (AREA, mean_s)}, most_pods=2)
    iad.samples = samples
    terms = HARD
    if "rate" in says:
        terms = Terms(1_000.0, 99.0, 400.0)
    elif sold:
        assert one(iad, propose("first", Terms(sold, 99.0, 1_500.0))).verdict == "accepted"
    offer = one(iad, propose("b", terms))
    assert offer.verdict == ("countered" if "sold" in says else "refused")
    assert says in offer.message


def test_a_counter_offer_far_from_what_was_asked_is_a_refusal_in_words(iad):
    # Two pods keep 28 tasks/s; what is left is below a tenth, and no budget makes room for ten.
    assert one(iad, propose("a", Terms(28.0, 99.0, 800.0))).verdict == "accepted"
    offer = one(iad, propose("b", Terms(15.0, 99.0, 800.0)))
    assert offer.verdict == "refused"
    assert "its pods are sold to other services" in offer.message


def test_no_live_node_and_nothing_to_sell(iad):
    iad.away = True
    assert "no edge node is live" in one(iad, propose()).message
    assert "no edge node is live" in one(iad, join()).message
    assert "sells nothing" in one(Iad("iad2", {}, 2), propose()).message


def test_nothing_says_how_many_nodes_or_pods_there_are(iad):
    answers = [one(iad, propose(terms=Terms(rate, 99.0, 800.0))) for rate in (5.0, 100.0)]
    assert not any("pod" in a.message or "node" in a.message for a in answers)


def test_a_join_turns_the_hold_into_pods_and_is_kept(iad):
    one(iad, propose(terms=Terms(20.0, 99.0, 800.0)))
    assert one(iad, join(terms=Terms(20.0, 99.0, 800.0))).ok
    assert iad.pods == {("n1", "climate"): 2}
    assert iad.disk["climate"].terms == Terms(20.0, 99.0, 800.0)
    assert iad.seller.next_due is None


def test_an_acceptance_is_kept_even_if_the_node_has_become_slower(iad):
    one(iad, propose())
    iad.nodes = {"n1": (AREA, 1.0)}
    assert one(iad, join()).ok
    assert one(iad, propose("b")).verdict == "refused"


def test_a_join_without_a_hold_is_checked(iad):
    assert one(iad, join()).ok
    refused = one(iad, join(service="b", terms=Terms(30.0, 99.0, 800.0)))
    assert not refused.ok
    assert refused.message.startswith("cannot keep 30 tasks/s, p99 ≤ 800 ms: ")
    assert iad.seller.services.keys() == {"climate"}
    # A hold for less than the join asks is no hold for it.
    one(iad, propose("b", Terms(1.0, 99.0, 800.0)))
    assert not one(iad, join(service="b", terms=Terms(30.0, 99.0, 800.0))).ok


def test_a_join_that_makes_no_sense(iad):
    assert "not in the pool" in one(iad, join(members=())).message
    elsewhere = (Member("iad1", "tcp://127.0.0.1:1", ("b2",), rate_per_s=1.0),)
    assert "does not offer" in one(iad, join(members=elsewhere)).message
    free = (Member("iad1", "tcp://127.0.0.1:1", (AREA,)),)
    assert "no terms" in one(iad, join(members=free)).message


def test_versions_only_grow(iad):
    one(iad, join(2))
    assert one(iad, join(1, terms=Terms(1.0, 99.0, 800.0))).ok
    assert one(iad, join(2, terms=Terms(1.0, 99.0, 800.0))).ok
    assert iad.disk["climate"].terms == TERMS
    assert one(iad, join(3, terms=Terms(1.0, 99.0, 800.0))).ok
    assert iad.disk["climate"].terms.rate_per_s == 1.0
    one(iad, Leave("l", "climate", 3))
    assert "climate" in iad.seller.services


def test_a_scheduler_has_the_service_and_no_pods(iad):
    assert one(iad, join(members=(Member("iad1", "tcp://127.0.0.1:1"),))).ok
    assert iad.seller.services.keys() == {"climate"}
    assert not iad.pods


def test_a_member_that_leaves_drains_first_and_does_not_come_back_by_a_late_join(iad):
    one(iad, join(1))
    assert one(iad, Leave("l", "climate", 2), 5.0).ok
    assert not iad.seller.services
    tick(iad, 5.0 + DRAIN_S - 0.01)
    assert iad.served
    assert iad.pods
    assert not one(iad, join(2), 6.0).ok
    tick(iad, 5.0 + DRAIN_S)
    assert (iad.served, iad.pods, iad.disk) == ({}, {}, {})
    assert not one(iad, join(1), 20.0).ok
    assert not one(iad, join(2), 20.0).ok
    assert one(iad, join(3), 20.0).ok


def test_a_leave_before_the_join_counts_too(iad):
    assert one(iad, Leave("l", "climate", 2)).ok
    assert not one(iad, join(1)).ok


def test_a_join_while_it_drains_brings_it_back(iad):
    one(iad, join(1))
    one(iad, Leave("l", "climate", 2))
    assert one(iad, join(3), 1.0).ok
    tick(iad, 60.0)
    assert iad.served["climate"].version == 3
    assert iad.pods


@pytest.mark.parametrize("sender", [Sender("iad", "iad8"), Sender("client", "iad9")])
def test_only_the_owner_changes_a_service(iad, sender):
    assert "only iad9 may change" in one(iad, join(), sender=sender).message
    one(iad, join(1))
    assert not one(iad, join(2), sender=sender).ok
    assert not one(iad, Leave("l", "climate", 2), sender=sender).ok
    assert one(iad, propose(), sender=sender).verdict == "refused"


def test_without_keys_the_claimed_owner_stays_the_same(iad):
    anyone = Sender("anyone", "x")
    assert one(iad, join(1), sender=anyone).ok
    other = one(iad, join(2, owner="iad7"), sender=anyone)
    assert other.message == "climate belongs to iad9"
    assert not one(iad, join(1, service="default"), sender=anyone).ok


def test_without_keys_a_leave_ends_no_service_of_another_owner(iad):
    """As of one whose set-up under a name failed here, since that was taken."""
    anyone = Sender("anyone", "x")
    assert one(iad, join(1), sender=anyone).ok
    assert one(iad, Leave("l", "climate", 5, owner="iad7"), sender=anyone).ok
    tick(iad, 2 * DRAIN_S)
    assert iad.served["climate"].owner == "iad9"
    assert one(iad, join(2), 3 * DRAIN_S, anyone).ok
    assert one(iad, Leave("l", "climate", 3, owner="iad9"), 3 * DRAIN_S, anyone).ok
    tick(iad, 5 * DRAIN_S)
    assert not iad.served
    # And that owner's late join is too late, as of any that left.
    late = one(iad, join(5, owner="iad7"), 5 * DRAIN_S, anyone)
    assert late.message == "iad1 has left climate"


def test_a_key_takes_nothing_back_in_the_name_of_another(iad):
    assert one(iad, join(1)).ok
    assert one(iad, Leave("l", "climate", 5, owner="iad9"), sender=Sender("iad", "iad8")).message
    one(iad, Leave("l", "warm", 5, owner="iad9"), sender=Sender("iad", "iad8"))
    assert one(iad, join(4, service="warm"), sender=OWNER).ok
    assert iad.served["climate"].owner == "iad9"


def test_without_keys_only_configured_hosts_trade(iad):
    iad.hosts = {"127.0.0.1"}
    iad.start()
    neighbour = Sender("anyone", "6e", host="127.0.0.1")
    assert one(iad, join(1), sender=neighbour).ok
    for stranger in (Sender("anyone", "73", host="127.0.0.9"), Sender("anyone", "69")):
        for message in (join(2), Leave("l", "climate", 2), Leave("l", "unknown", 2)):
            reply = one(iad, message, sender=stranger)
            assert not reply.ok
            assert "iad1 knows no party of the market at your address" in reply.message
            assert "\n" not in reply.message
        assert one(iad, propose("other"), sender=stranger).verdict == "refused"
        assert iad.take(Release("p1", "other"), 0.0, stranger) == []
    tick(iad, DRAIN_S)
    assert iad.pods, "nobody took it out of the pool"
    # What a key says, no address has to.
    assert one(iad, join(3), sender=OWNER).ok
    assert one(iad, Leave("l", "climate", 4), sender=neighbour).ok


def test_services_share_a_node_and_the_tightest_terms_bind(iad):
    loose, tight = Terms(10.0, 90.0, 2_000.0), Terms(2.0, 99.0, 300.0)
    one(iad, join(service="a", terms=loose))
    assert iad.pods == {("n1", "a"): 1}
    one(iad, join(service="b", terms=tight))
    # 12/s with θ = 15.4: 2.6 pods of 4.6/s would be needed.
    assert ("n1", "b") not in iad.pods
    iad.most_pods = 4
    iad.start()
    iad.pods = {}
    one(iad, join(service="a", terms=loose))
    one(iad, join(service="b", terms=tight))
    assert iad.pods == {("n1", "a"): 1, ("n1", "b"): 2}
    one(iad, Leave("l", "a", 9))
    tick(iad, DRAIN_S)
    assert iad.pods == {("n1", "b"): 1}


def test_a_restart_goes_on_with_services_pods_and_drains(iad):
    one(iad, join(1, service="a"))
    one(iad, join(1, service="b"))
    one(iad, Leave("l", "b", 2))
    bodies = [json.encode(membership) for membership in iad.disk.values()]
    iad.start()
    done = iad.seller.load([json.decode(b, type=Membership) for b in bodies], 100.0)
    assert [i.service.id for i in done if isinstance(i, Serve)] == ["a", "b"]
    assert sum(i.count for i in done if isinstance(i, SetPods)) == 1
    assert iad.seller.services.keys() == {"a"}
    assert iad.seller.next_due == 100.0 + DRAIN_S


def test_a_member_whose_nodes_are_away_takes_a_new_version(iad):
    one(iad, join(1))
    iad.away = True
    stricter = Terms(5.0, 99.5, 800.0)
    assert one(iad, join(2, terms=stricter)).ok
    assert iad.disk["climate"].terms == stricter
    assert iad.pods == {("n1", "climate"): 1}


def test_harder_terms_have_to_fit_also_where_no_node_is_live(iad):
    iad.nodes["n2"] = ("b1/f2/r0", FAST_S)
    iad.start()
    one(iad, join(1))
    del iad.nodes["n2"]
    much, harder = Terms(1_000.0, 99.0, 800.0), Terms(20.0, 99.0, 800.0)

    def asked(version, terms, area):
        own = Member("iad1", "tcp://127.0.0.1:1", (area,), rate_per_s=terms.rate_per_s)
        return one(iad, join(version, terms=terms, members=(own,)))

    assert asked(2, much, "b1/f2/r0").message == "no edge node is live in these areas now"
    assert "cannot keep 1000 tasks/s" in asked(3, much, AREA).message
    iad.away = True
    assert "cannot keep 1000 tasks/s" in asked(3, much, AREA).message
    assert asked(3, harder, AREA).ok
    assert not asked(4, TERMS, "b1/f2/r0").ok, "nothing was sold there"
    iad.away = False
    assert one(iad, propose("b", harder)).verdict == "countered"


def test_a_member_keeps_what_it_sold_though_its_node_is_slower_now(iad):
    one(iad, join(1))
    iad.nodes = {"n1": (AREA, 1.0)}
    assert one(iad, join(2)).ok
    assert not one(iad, join(3, terms=Terms(6.0, 99.0, 800.0))).ok


def test_what_is_held_for_one_buyer_is_no_others(iad):
    assert one(iad, propose()).verdict == "accepted"
    other = Sender("iad", "iad8")
    taken = one(iad, join(owner="iad8"), sender=other)
    assert (taken.ok, taken.message) == (False, "the name climate is taken; choose another")
    assert one(iad, join()).ok
    # An acceptance that has expired holds no name.
    assert one(iad, propose("b")).verdict == "accepted"
    assert one(iad, join(service="b", owner="iad8"), 30.0, other).ok


@pytest.mark.parametrize("releases", [False, True])
def test_what_is_held_and_never_bought_is_free_for_others_most_of_the_time(iad, releases):
    heavy = Terms(20.0, 99.0, 800.0)
    idle = Sender("csp", "idle")
    held, told = 0, set()
    for second in range(7_200):
        now = float(second)
        tick(iad, now)
        if releases and second % 29 == 28:
            iad.take(Release("p", "a"), now, idle)
        offer = one(iad, propose("a", heavy, number="p"), now, idle)
        told.add(offer.message.partition(";")[0])
        # A buyer that is honest is countered as long as it is held.
        held += one(iad, propose("b", heavy, number="q"), now).verdict == "countered"
        iad.take(Release("q", "b"), now, OWNER)
    assert held < 600 + 0.1 * 7_200 + 60
    assert "iad1 has held for idle what it did not buy" in told
    assert one(iad, propose("b", heavy), 8_000.0).verdict == "accepted"
    # This master itself buys as it likes, and so does who cannot be told apart.
    for sender in (Sender("iad", "iad1"), Sender("anyone", "")):
        assert not iad.seller._unused.why_not(sender, 8_000.0)


def test_leaves_of_others_do_not_make_it_forget_what_was_left(iad, monkeypatch):
    monkeypatch.setattr(seller, "MAX_REMEMBERED", 4)
    one(iad, join(3))
    one(iad, Leave("l", "climate", 4))
    tick(iad, DRAIN_S)
    for number in range(9):
        one(iad, Leave("l", f"s{number}", 1), DRAIN_S, Sender("iad", "iad8"))
    assert one(iad, join(3), DRAIN_S).message == "iad1 has left climate"


def test_only_the_owners_word_keeps_a_service_away(iad):
    stranger = Sender("csp", "shop")
    assert one(iad, Leave("l1", "climate", 2**53 - 1), sender=stranger).ok
    assert one(iad, join()).ok
    # Its own: a late Join does not revive what it has ended.
    assert one(iad, Leave("l2", "light", 7), sender=OWNER).ok
    assert not one(iad, join(7, "light")).ok
    assert one(iad, join(8, "light")).ok


def test_what_is_held_has_so_many_areas_and_no_more(iad, monkeypatch):
    monkeypatch.setattr(seller, "MAX_AREAS_HELD", 6)
    small = Terms(0.1, 99.0, 800.0)
    rooms = [f"{AREA}/{number}" for number in range(3)]
    iad.nodes = {f"n{n}": (room, FAST_S) for n, room in enumerate(rooms)}
    assert one(iad, propose("a", small, rooms[:2])).verdict == "accepted"
    assert "2 areas are held here" in one(iad, propose("b", small, rooms[1:])).message
    assert one(iad, propose("a", small, rooms)).verdict == "accepted"


def share(iad, many):
    """`many(sender, number)` gets so many until it is refused: one buyer, another one, then this
    master's own."""
    counts = []
    for name in ("iad9", "iad8", "iad1"):
        sender, count = Sender("iad", name), 0
        while many(sender, f"{name}-{count}"):
            count += 1
        counts.append(count)
        iad.seller.check_invariants()
    return counts


def test_one_buyer_leaves_as_many_services_as_it_has(iad, monkeypatch):
    monkeypatch.setattr(seller, "MAX_SERVICES", 8)
    only = [Member("iad1", "tcp://127.0.0.1:1")]

    def joined(sender, service):
        reply = one(iad, join(1, service, owner=sender.name, members=only), sender=sender)
        assert reply.ok or "no room for more" in reply.message
        return reply.ok

    assert share(iad, joined) == [4, 2, 2]
    assert one(iad, join(2, "iad9-0", members=only)).ok, "those that it has may change"
    assert one(iad, Leave("l", "iad9-0", 3)).ok
    tick(iad, DRAIN_S)
    assert joined(Sender("iad", "iad8"), "more") is False
    assert joined(Sender("iad", "iad7"), "more") is False, "one is free, and would leave none"


def test_one_buyers_members_leave_room_for_those_of_others(iad, monkeypatch):
    monkeypatch.setattr(seller, "MAX_NAMES", 80)
    pool = [Member("iad1", "tcp://127.0.0.1:1")]
    pool += [Member(f"x{n}", "tcp://127.0.0.1:1") for n in range(9)]

    def joined(sender, service):
        reply = one(iad, join(1, service, owner=sender.name, members=pool), sender=sender)
        assert reply.ok or "too large beside" in reply.message
        return reply.ok

    assert share(iad, joined) == [4, 2, 2]
    assert one(iad, join(2, "iad9-0", members=pool[:9])).ok, "it becomes smaller"


@pytest.mark.parametrize(("limit", "most"), [("MAX_HOLDS", 8), ("MAX_AREAS_HELD", 8)])
def test_one_buyers_proposals_leave_room_for_those_of_others(iad, monkeypatch, limit, most):
    monkeypatch.setattr(seller, limit, most)

    def held(sender, service):
        offer = one(iad, propose(service, Terms(0.001, 50.0, 8_000.0)), sender=sender)
        assert offer.verdict == "accepted" or "held here; try again later" in offer.message
        return offer.verdict == "accepted"

    assert share(iad, held) == [4, 2, 2]


def test_all_services_have_so_many_members_and_areas_and_no_more(iad, monkeypatch):
    monkeypatch.setattr(seller, "MAX_NAMES", 20)
    only = Member("iad1", "tcp://127.0.0.1:1")
    large = [only, *(Member(f"x{n}", "tcp://127.0.0.1:1", ("b1", "b2")) for n in range(3))]
    assert one(iad, join(1, "a", members=[only])).ok
    assert one(iad, join(1, "b", members=large[:3])).ok
    iad.seller.check_invariants()
    assert "b is too large beside" in one(iad, join(2, "b", members=large)).message
    assert one(iad, Leave("l", "a", 2)).ok
    tick(iad, DRAIN_S)
    assert one(iad, join(2, "b", members=large)).ok
    iad.seller.check_invariants()


def test_a_pool_names_nobody_twice():
    # As a member that only schedules, and as one that serves: no seller can tell what is meant.
    twice = [Member("iad1", "tcp://127.0.0.1:1", areas, rate_per_s=1.0) for areas in ((), (AREA,))]
    with pytest.raises(ValueError, match="names an IAD twice"):
        join(members=twice)
