"""Rules of the directory, one by one."""

import itertools

import pytest

from agent.directory import directory as content
from agent.directory import leader as rules_of_writing
from agent.directory.directory import Directory, Edit
from agent.directory.encoding import ReplyEncoder
from agent.directory.index import AreaIndex
from agent.directory.leader import MAX_PARTIES, Leader
from agent.directory.leases import Leases
from agent.directory.replica import ReadReplica
from agent.wire import directory as d
from agent.wire.codec import JSON, MESSAGEPACK, Decoder
from agent.wire.principals import Sender
from tests.wire.samples.directory import SAMPLES

ANYONE = Sender("anyone", "x")
ADDRESS = "tcp://127.0.0.1:5700"


def primary():
    return Leader(Directory("epoch", 0, ()), longest_lease_s=100.0, now=0.0)


def do(rules, request, sender=ANYONE, now=0.0):
    outcome = rules.handle(request, sender, now)
    if outcome.edit is not None:
        rules.applied(outcome.edit, now)
    return outcome.reply


def register(iad, *areas, capability="temperature", keys=(), address=ADDRESS):
    offerings = (d.Offering(capability, areas),) if areas else ()
    return d.Register("r", iad, address, offerings, 60.0, keys)


def found(rules, *asked, capability="temperature"):
    reply = do(rules, d.Discover("d", capability, asked))
    return [(c.iad, c.areas) for c in reply.candidates], reply.uncovered


# --- discovery -----------------------------------------------------------------------------------


def test_parents_match_children_both_ways_by_whole_segments():
    rules = primary()
    do(rules, register("fine", "c/b1/f4/r413", "c/b1/f5"))
    do(rules, register("coarse", "c/b1"))
    do(rules, register("other", "c/b11"))
    assert found(rules, "c/b1") == (
        [("coarse", ("c/b1",)), ("fine", ("c/b1/f4/r413", "c/b1/f5"))],
        (),
    )
    assert found(rules, "c/b1/f4") == ([("coarse", ("c/b1",)), ("fine", ("c/b1/f4/r413",))], ())
    assert found(rules, "c/b1/f9") == ([("coarse", ("c/b1",))], ())
    assert found(rules, "c/b") == ([], ("c/b",))
    assert [name for name, _ in found(rules, "c")[0]] == ["coarse", "fine", "other"]


def test_a_parent_covered_in_part_is_not_uncovered():
    rules = primary()
    do(rules, register("iad1", "b1/f4"))
    assert found(rules, "b1", "b2/f1", "b1/f5")[1] == ("b2/f1", "b1/f5")


def test_an_area_asked_for_twice_counts_once():
    rules = primary()
    do(rules, register("iad1", "b1", "b1/f4", "b1/f4"))
    assert found(rules, "b1/f4", "b1", "b1/f4/r1", "b1/f4") == ([("iad1", ("b1", "b1/f4"))], ())


def test_another_capability_is_another_market():
    rules = primary()
    do(rules, register("iad1", "b1"))
    assert found(rules, "b1", capability="humidity") == ([], ("b1",))


def test_a_scheduling_only_iad_is_found_by_its_name_alone():
    rules = primary()
    do(rules, register("portal"))
    assert found(rules, "b1") == ([], ("b1",))
    reply = do(rules, d.LookUp("l", ("portal", "nobody", "portal")))
    assert reply == d.Found("l", (d.Candidate("portal", ADDRESS, (), ()),))


def test_a_lease_that_ends_leaves_the_account():
    rules = primary()
    do(rules, register("iad1", "b1", keys=("k",)))
    assert rules.next_due == 60.0
    assert rules.expire(59.9) is None
    rules.applied(rules.expire(60.0), 60.0)
    assert found(rules, "b1") == ([], ("b1",))
    assert do(rules, d.LookUp("l", ("iad1",))).candidates == ()
    assert do(rules, d.ListAccounts("a")).accounts == (d.Account("iad1", "iad", ("k",)),)
    assert do(rules, d.Renew("n", "iad1"), now=61.0).reason == "unknown"


def test_a_record_from_before_a_restart_is_renewed_by_registering_alone():
    """Its file may be an older one that was put back: an IAD that renewed left an address, areas
    and keys there that it has no more."""
    older = primary()
    do(older, register("iad1", "b1", address="tcp://127.0.0.1:5999"))
    entries = tuple(older.directory)
    rules = Leader(Directory("another", 1, entries), longest_lease_s=100.0, now=0.0)
    assert do(rules, d.Renew("n", "iad1")).reason == "unknown"
    assert found(rules, "b1")[0] == [("iad1", ("b1",))], "it stays meanwhile"
    do(rules, register("iad1", "b2"))
    assert found(rules, "b1", "b2") == ([("iad1", ("b2",))], ("b1",))
    assert do(rules, d.Renew("n", "iad1")) == d.Registered("n", 60.0)
    rules = Leader(Directory("a third", 1, entries), longest_lease_s=100.0, now=0.0)
    same = register("iad1", "b1", address="tcp://127.0.0.1:5999")
    assert rules.handle(same, ANYONE, 0.0).edit is None
    assert do(rules, d.Renew("n", "iad1")) == d.Registered("n", 60.0)


def test_leases_that_end_at_once_end_in_portions(monkeypatch):
    monkeypatch.setattr(rules_of_writing, "MAX_EXPIRED", 3)
    monkeypatch.setattr(rules_of_writing, "MAX_AREAS", 4)
    rules = primary()
    for name in "abcdefg":
        areas = ("b1", "b2", "b3", "b4") if name == "b" else ("b1",)
        do(rules, register(name, *areas))
    ended = []
    while (rules.next_due or 99.0) <= 60.0:
        edit = rules.expire(60.0)
        rules.applied(edit, 60.0)
        ended.append("".join(entry.account.name for entry in edit.entries))
    assert ended == ["ab", "cde", "fg"]
    assert rules.next_due is None
    assert found(rules, "b1") == ([], ("b1",))


def test_registering_the_same_again_writes_nothing_but_renews():
    rules = primary()
    do(rules, register("iad1", "b1"))
    outcome = rules.handle(register("iad1", "b1"), ANYONE, 50.0)
    assert outcome.edit is None
    assert rules.next_due == 110.0
    assert rules.directory.version == 1


# --- who may do what -----------------------------------------------------------------------------

REQUESTS = [s for s in SAMPLES.values() if isinstance(s, d.DirectoryRequest)]
OWN = {"iad": "iad3", "csp": "acme"}
MAY = {
    "anyone": {type(r) for r in REQUESTS},
    "iad": {d.Register, d.Renew, d.Withdraw, d.Discover, d.LookUp, d.ListAccounts},
    "csp": {d.OpenAccount, d.CloseAccount, d.Discover, d.LookUp, d.ListAccounts},
    "mirror": {d.Follow},
    "client": set(),
    "node": set(),
    "operator": {d.Withdraw, d.CloseAccount, d.Discover, d.LookUp, d.ListAccounts},
}
WRITES = (d.Register, d.Renew, d.Withdraw, d.OpenAccount, d.CloseAccount)


@pytest.mark.parametrize(("role", "request_"), list(itertools.product(MAY, REQUESTS)))
def test_a_key_speaks_for_its_own_party_only(role, request_):
    rules = primary()
    do(rules, register("iad3", "b1"))
    do(rules, d.OpenAccount("o", "acme"))

    def refused(name):
        reply = rules.handle(request_, Sender(role, name), 0.0).reply
        return isinstance(reply, d.Denied) and reply.reason == "not_authorised"

    assert refused(OWN.get(role, "x")) == (type(request_) not in MAY[role])
    if role not in {"anyone", "operator"} and isinstance(request_, WRITES):
        assert refused("somebody else")


def test_a_name_and_a_key_belong_to_one_party():
    rules = primary()
    do(rules, register("iad1", "b1", keys=("old",)))
    assert do(rules, d.OpenAccount("o", "iad1")).reason == "not_authorised"
    assert do(rules, register("iad2", "b2", keys=("new", "old"))).reason == "not_authorised"
    assert isinstance(do(rules, register("iad1", "b1", keys=("old", "new"))), d.Registered)
    assert isinstance(do(rules, register("iad1", "b1", keys=("new",))), d.Registered)
    assert isinstance(do(rules, register("iad2", "b2", keys=("old",))), d.Registered)
    assert do(rules, d.OpenAccount("o", "acme", ("new",))).reason == "not_authorised"


@pytest.mark.parametrize(
    "address",
    [
        "nowhere", "tcp://host", "tcp://host:99999", "ipc://", "tcp://*:5700", "tcp://0.0.0.0:5700",
        "tcp://[::]:5700", "tcp://a b:5700", "tcp://a/b:5700", "tcp://\n:5700", "tcp://-:5700",
        "tcp://10.0.0.9:0;10.0.0.1:5700",
    ],
)  # fmt: skip
def test_an_address_that_nobody_could_use_is_refused(address):
    reply = do(primary(), register("iad1", "b1", address=address))
    assert reply.reason == "malformed"
    assert "address" in reply.message


@pytest.mark.parametrize(
    "address",
    [
        "tcp://10.0.0.1:5700",
        "tcp://[fe80::1%eth0]:1",
        "tcp://iad1.example.com:65535",
        "ipc:///run/p",
    ],
)
def test_an_address_by_which_others_reach_it_is_taken(address):
    assert isinstance(do(primary(), register("iad1", "b1", address=address)), d.Registered)


def test_bounds():
    rules = primary()
    areas = tuple(f"b/r{n}" for n in range(1024))
    offerings = tuple(d.Offering(f"c{n}", areas) for n in range(4))
    assert isinstance(do(rules, d.Register("r", "a", ADDRESS, offerings, 60.0)), d.Registered)
    more = (*offerings, d.Offering("c4", ("b",)))
    reply = do(rules, d.Register("r", "b", ADDRESS, more, 60.0))
    assert (reply.reason, reply.message) == (
        "malformed",
        "4097 areas are offered; at most 4096 can be: offer a parent of some",
    )
    accounts = [d.DirectoryEntry(n, d.Account(f"p{n}", "csp", ())) for n in range(1, MAX_PARTIES)]
    rules.applied(Edit("epoch", rules.directory.version + MAX_PARTIES, tuple(accounts)), 0.0)
    assert len(rules.directory) == MAX_PARTIES
    assert do(rules, d.OpenAccount("o", "one more")).reason == "overloaded"
    assert isinstance(do(rules, d.OpenAccount("o", "p7", ("k",))), d.Registered)


def test_a_party_without_keys_leaves_room_when_its_lease_ends():
    rules = primary()
    do(rules, d.Register("r", "a", ADDRESS, (), 1.0))
    do(rules, d.Register("r", "b", ADDRESS, (), 1.0, ("k",)))
    rules.applied(rules.expire(2.0), 2.0)
    assert [entry.account.name for entry in rules.directory] == ["b"]
    assert isinstance(do(rules, d.OpenAccount("o", "a")), d.Registered)


@pytest.mark.parametrize(
    ("keyed", "keys", "left"), [(True, ("k",), ["a"]), (True, (), []), (False, ("k",), [])]
)
def test_an_account_that_anybody_could_open_ends_unless_it_is_opened_again(keyed, keys, left):
    rules = Leader(Directory("epoch", 0, ()), longest_lease_s=100.0, now=0.0, keyed=keyed)
    reply = do(rules, d.OpenAccount("o", "a", keys))
    assert reply == d.Registered("o", 0.0 if left else 100.0)
    do(rules, d.OpenAccount("o", "a", keys), now=60.0)
    assert rules.expire(100.0) is None
    if (edit := rules.expire(160.0)) is not None:
        rules.applied(edit, 160.0)
    assert [entry.account.name for entry in rules.directory] == left


@pytest.mark.parametrize("codec", [JSON, MESSAGEPACK])
def test_lists_of_all_parties_are_encoded_once_for_each_change(codec):
    rules, encoded = primary(), ReplyEncoder()
    decoder = Decoder(d.DirectoryReply)
    for n in range(300):
        do(rules, d.OpenAccount("o", f"a{n}"))

    def kept(request):
        reply = do(rules, request)
        assert decoder.decode(encoded(reply, codec))[0] == reply
        return [raw for _, raw in encoded._kept.values()]

    def all_kept(number):
        kept(d.ListAccounts(f"l{number}"))
        return kept(d.Follow(f"f{number}", "", 0))

    first = all_kept(1)
    assert all(now is then for now, then in zip(all_kept(2), first, strict=True))
    do(rules, d.OpenAccount("o", "a1", ("k" * 40,)))
    assert not any(now is then for now, then in zip(all_kept(3), first, strict=True))


def test_a_copy_that_lacks_very_many_changes_is_made_whole(monkeypatch):
    monkeypatch.setattr(content, "MAX_CHANGES", 3)
    rules = primary()
    for name in "abcde":
        do(rules, d.OpenAccount("o", name))
    changes = [do(rules, d.Follow("f", "epoch", version)) for version in (1, 2)]
    assert [(each.whole, len(each.entries)) for each in changes] == [(True, 5), (False, 3)]


# --- copies --------------------------------------------------------------------------------------


def test_a_copy_too_old_for_what_is_remembered_is_made_whole(monkeypatch):
    monkeypatch.setattr(content, "MAX_GONE", 3)
    rules = primary()
    for name in "abcdef":
        do(rules, d.OpenAccount("o", name))
    for name in "abcd":
        do(rules, d.CloseAccount("c", name))
    known = rules.directory
    assert known.version == 10
    assert known.since("epoch", 6).whole, "that a is gone is forgotten"
    edit = known.since("epoch", 7)
    assert not edit.whole
    assert [(e.version, e.account.name, e.gone) for e in edit.entries] == [
        (8, "b", True),
        (9, "c", True),
        (10, "d", True),
    ]
    assert known.since("epoch", 10).entries == ()
    assert known.since("epoch", 11).whole
    assert known.since("other", 10).whole


def test_changes_come_in_the_order_of_their_versions():
    rules = primary()
    do(rules, d.OpenAccount("o", "a"))
    do(rules, d.OpenAccount("o", "b"))
    do(rules, d.CloseAccount("c", "a"))
    do(rules, d.OpenAccount("o", "c"))
    do(rules, d.CloseAccount("c", "b"))
    assert [e.version for e in rules.directory.since("epoch", 2).entries] == [3, 4, 5]


def test_after_a_restart_nobody_knows_who_is_gone():
    rules = primary()
    do(rules, d.OpenAccount("o", "a"))
    do(rules, d.OpenAccount("o", "b"))
    do(rules, d.CloseAccount("c", "a"))
    again = Directory("epoch", 3, list(rules.directory))
    assert again.since("epoch", 2) == Edit("epoch", 3, tuple(again), whole=True)
    assert again.since("epoch", 3) == Edit("epoch", 3, ())


def test_a_mirror_refuses_writes_in_words_and_answers_from_its_copy():
    mirror = ReadReplica(Directory("", 0, ()), "tcp://primary:1", every_s=1.0, now=0.0)
    for request in REQUESTS:
        reply = mirror.handle(request, ANYONE, 0.0).reply
        if isinstance(request, (*WRITES, d.Follow)):
            assert reply.reason == "read_only"
            assert "tcp://primary:1" in reply.message
        else:
            assert reply.reason == "not_ready"
    question = mirror.tick(0.0)
    assert question == d.Follow("f1", "", 0)
    edit = mirror.received(d.Changes("f1", "epoch", 0, whole=True, entries=()), 0.5)
    mirror.applied(edit, 0.5)
    reply = mirror.handle(SAMPLES["discover"], ANYONE, 3.0).reply
    assert (reply.candidates, reply.age_s) == ((), 3.0), "as old as the question"
    assert mirror.next_due == 1.5


# --- parts ---------------------------------------------------------------------------------------


def test_a_record_with_the_same_offerings_leaves_the_index_alone(monkeypatch):
    rules = primary()
    do(rules, register("iad1", "b1", keys=("k1",)))
    monkeypatch.setattr(AreaIndex, "replace", None)
    do(rules, register("iad1", "b1", keys=("k2",), address="tcp://127.0.0.1:9"))
    reply = do(rules, d.Discover("d", "temperature", ("b1",)))
    assert reply.candidates == (d.Candidate("iad1", "tcp://127.0.0.1:9", ("k2",), ("b1",)),)


def test_a_copy_that_hears_of_a_keys_next_owner_first_knows_it():
    entries = [d.DirectoryEntry(1, d.Account("a", "csp", ("k",)))]
    copy = Directory("e", 1, entries)
    # a gave k up, b took it, a was changed again: what is left of that, by version.
    b = d.DirectoryEntry(3, d.Account("b", "csp", ("k",)))
    a = d.DirectoryEntry(4, d.Account("a", "csp", ("k2",)))
    copy.apply(Edit("e", 4, (b, a)))
    assert (copy.owner("k"), copy.owner("k2")) == ("b", "a")


def test_leases_end_in_order():
    leases = Leases()
    for name, until in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        leases.give(name, until)
    leases.give("b", 9.0)
    leases.end("nobody")
    assert (len(leases), "b" in leases, leases.next_due) == (3, True, 2.0)
    assert list(leases.ended(3.0)) == ["c", "a"]
    leases.end("b")
    assert leases.next_due is None


def test_all_records_together_have_a_limit(monkeypatch):
    monkeypatch.setattr(rules_of_writing, "MAX_AREAS_IN_ALL", 4)
    rules = primary()
    assert isinstance(do(rules, register("iad1", "b1/f1", "b1/f2", "b1/f3")), d.Registered)
    refused = do(rules, register("iad2", "b2/f1", "b2/f2"))
    assert (refused.reason, refused.message) == (
        "overloaded",
        "the directory is full: it holds 4 areas; offer parents",
    )
    assert isinstance(do(rules, register("iad2", "b2")), d.Registered)
    assert isinstance(do(rules, register("iad1", "b1/f1", "b1/f2", "b1/f4")), d.Registered)
    assert do(rules, register("iad2", "b2", "b3")).reason == "overloaded"
    do(rules, d.Withdraw("w", "iad1"))
    assert isinstance(do(rules, register("iad2", "b2", "b3")), d.Registered)


def test_areas_of_great_depth_that_share_nothing_have_a_limit(monkeypatch):
    monkeypatch.setattr(rules_of_writing, "MAX_PLACES", 6)
    monkeypatch.setattr(rules_of_writing, "MAX_PLACES_IN_ALL", 10)
    rules = primary()
    refused = do(rules, register("iad1", "a/b/c", "d/e/f", "g"))
    assert (refused.reason, refused.message) == (
        "malformed",
        "the areas offered and those above them are over 6: offer a parent of some",
    )
    assert isinstance(do(rules, register("iad1", "a/b/c", "a/b/d", "a/b/e")), d.Registered)
    assert isinstance(do(rules, register("iad2", "a/b/c")), d.Registered)
    refused = do(rules, register("iad3", "a/b/c"))
    assert (refused.reason, refused.message) == (
        "overloaded",
        "the directory is full: it holds 10 areas with those above them; offer parents",
    )
    assert isinstance(do(rules, register("iad1", "a/b/c", "a/b/d", "a/b/f")), d.Registered)
    assert do(rules, register("iad2", "a/b/c", "d/b/c")).reason == "overloaded"
    assert isinstance(do(rules, register("iad2", "a/b")), d.Registered)
    assert rules.directory.places == 7
    assert isinstance(do(rules, register("iad3", "a/b/c")), d.Registered)
