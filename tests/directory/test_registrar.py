"""The party's side, scripted."""

import pytest

from agent.directory.registrar import (
    READ_PATIENCE_S,
    WRITE_PATIENCE_S,
    Registrar,
    State,
)
from agent.directory.registrar_events import (
    AccountsWanted,
    Answer,
    Changed,
    DiscoverWanted,
    LookUpWanted,
    Registrant,
    Replied,
    Send,
    Start,
    TellAccounts,
    TellOperator,
    Tick,
    Undelivered,
)
from agent.runtime.state_machine import InvalidTransition
from agent.wire import directory as d
from agent.wire.codec import Decoder, WireError, encode

OFFERINGS = (d.Offering("temperature", ("b1",)),)
IAD = Registrant("iad1", "iad", "tcp://127.0.0.1:1", OFFERINGS, ("k",))
LEASE_S = 60.0


def new(registrant=IAD, directories=2):
    return Registrar(registrant, directories, lease_s=LEASE_S, jitter=lambda: 1.0)


def sent(instructions, kind):
    [send] = [i for i in instructions if isinstance(i, Send) and isinstance(i.request, kind)]
    return send


def started(registrant=IAD, directories=2):
    """A party that is registered at time 0."""
    registrar = new(registrant, directories)
    instructions = registrar.handle(Start(), 0.0)
    write = sent(instructions, d.Register | d.OpenAccount)
    accounts = sent(instructions, d.ListAccounts)
    registrar.handle(Replied(0, d.Registered(write.request.id, LEASE_S)), 0.0)
    registrar.handle(Replied(0, d.Accounts(accounts.request.id, ())), 0.0)
    return registrar


def test_an_iad_registers_and_renews_after_a_third_of_its_lease():
    registrar = new()
    write, accounts = registrar.handle(Start(), 0.0)
    assert write == Send(0, d.Register("d1", "iad1", IAD.address, OFFERINGS, LEASE_S, ("k",)))
    registrar.handle(Replied(0, d.Accounts(accounts.request.id, ())), 0.5)
    assert not registrar.registered
    assert registrar.handle(Replied(0, d.Registered("d1", 30.0)), 1.0) == []
    assert registrar.registered
    assert registrar.wake_at == 11.0, "a third of the lease that was given"
    assert registrar.handle(Tick(), 10.9) == []
    assert registrar.handle(Tick(), 11.0) == [Send(0, d.Renew("d3", "iad1"))]


def test_a_lease_that_ends_at_once_is_not_renewed_without_end():
    """A service that gives such leases had its parties do nothing else."""
    registrar = new()
    write, accounts = registrar.handle(Start(), 0.0)
    registrar.handle(Replied(0, d.Accounts(accounts.request.id, ())), 0.0)
    registrar.handle(Replied(0, d.Registered(write.request.id, 1e-9)), 0.0)
    assert registrar.wake_at >= 0.25


def test_a_longer_lease_than_was_asked_for_is_renewed_as_if_it_were_that():
    """The service that gave it may be replaced by one that has no record of the party."""
    registrar = started()
    renewal = sent(registrar.handle(Tick(), 20.0), d.Renew).request
    registrar.handle(Replied(0, d.Registered(renewal.id, 86_400.0)), 20.0)
    again = sent(registrar.handle(Tick(), 40.0), d.Renew).request
    registrar.handle(Replied(0, d.Denied(again.id, "unknown", "who?")), 40.0)
    assert not registrar.registered


def test_who_is_unknown_registers_at_once():
    registrar = started()
    renewal = sent(registrar.handle(Tick(), 20.0), d.Renew).request
    again = registrar.handle(Replied(0, d.Denied(renewal.id, "unknown", "who?")), 20.1)
    assert isinstance(sent(again, d.Register), Send)
    assert not registrar.registered


def test_a_csp_opens_its_account_and_says_so_again():
    registrar = started(Registrant("acme", "csp", keys=("k",)))
    again = sent(registrar.handle(Tick(), 20.0), d.OpenAccount).request
    assert (again.name, again.keys) == ("acme", ("k",))


def test_writes_go_to_the_primary_alone_with_pauses_that_grow():
    registrar = new()
    instructions = registrar.handle(Start(), 0.0)
    now, pauses, reports = 0.0, [], []
    for _ in range(9):
        write = sent(instructions, d.Register)
        assert write.directory == 0
        reports += registrar.handle(Undelivered(write.request.id), now)
        assert registrar.state is State.WAITING
        before = now
        while True:
            now = registrar.wake_at
            instructions = registrar.handle(Tick(), now)
            if any(isinstance(getattr(i, "request", 0), d.Register) for i in instructions):
                break
        pauses.append(round(now - before, 6))
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0]
    assert reports == [TellOperator("the registration service cannot be reached; trying again")]
    write = sent(instructions, d.Register).request
    assert registrar.handle(Replied(0, d.Registered(write.id, 60.0)), now) == [
        TellOperator("registered with the registration service")
    ]


def test_a_refusal_is_told_at_once_and_once():
    registrar = new()
    write = sent(registrar.handle(Start(), 0.0), d.Register).request
    denied = d.Denied(write.id, "not_authorised", "your key is iad2's")
    assert registrar.handle(Replied(0, denied), 0.0) == [
        TellOperator("the registration service refused: your key is iad2's; trying again")
    ]


def test_a_primary_that_hangs_is_given_up():
    registrar = new()
    registrar.handle(Start(), 0.0)
    registrar.handle(Tick(), WRITE_PATIENCE_S)
    assert registrar.state is State.WAITING
    assert registrar.handle(Replied(0, d.Registered("d1", 60.0)), 3.1) == [], "too late"


def test_other_keys_are_registered_at_once():
    registrar = started()
    changed = IAD._replace(keys=("k", "new"))
    write = sent(registrar.handle(Changed(changed), 5.0), d.Register)
    assert write.request.keys == ("k", "new")
    registrar = new()
    assert registrar.handle(Changed(changed), 0.0) == []
    assert sent(registrar.handle(Start(), 0.0), d.Register).request.keys == ("k", "new")


def test_a_read_goes_to_the_primary_then_to_the_mirrors():
    registrar = started(directories=3)
    [first] = registrar.handle(DiscoverWanted("ask", "temperature", ["b1"]), 1.0)
    assert first == Send(0, d.Discover(first.request.id, "temperature", ("b1",)))
    [second] = registrar.handle(Tick(), 1.0 + READ_PATIENCE_S)
    assert second.directory == 1
    denied = d.Denied(second.request.id, "not_ready", "no copy yet")
    [third] = registrar.handle(Replied(1, denied), 2.1)
    assert third.directory == 2
    assert registrar.handle(Replied(0, d.Found(first.request.id, ())), 2.2) == [], "too late"
    found = d.Found(third.request.id, (), age_s=4.0)
    assert registrar.handle(Replied(2, found), 2.3) == [Answer("ask", found)]
    assert registrar.handle(Replied(2, found), 2.4) == [], "answered once"


def test_nobody_there_is_none_after_the_patience_and_not_before():
    registrar = started()
    now = 1.0
    instructions = registrar.handle(LookUpWanted("ask", ["iad2"]), now)
    asked = []
    while not any(isinstance(i, Answer) for i in instructions):
        for send in [i for i in instructions if isinstance(i, Send)]:
            asked.append(send.directory)
            instructions = registrar.handle(Undelivered(send.request.id), now)
            break
        else:
            now = registrar.wake_at
            instructions = registrar.handle(Tick(), now)
    assert instructions == [Answer("ask", None)]
    assert READ_PATIENCE_S <= now - 1.0 < 1.5 * READ_PATIENCE_S
    assert asked[:4] == [0, 1, 0, 1]


def test_accounts_are_told_when_they_change_and_asked_for_once_a_second():
    registrar = started()
    wanted = sent(registrar.handle(AccountsWanted(), 5.0), d.ListAccounts).request
    accounts = (d.Account("iad2", "iad", ("k2",)),)
    reply = Replied(0, d.Accounts(wanted.id, accounts))
    assert registrar.handle(reply, 5.1) == [TellAccounts(accounts)]
    assert registrar.handle(AccountsWanted(), 5.2) == []
    assert registrar.handle(AccountsWanted(), 5.9) == []
    assert registrar.wake_at == 6.0
    wanted = sent(registrar.handle(Tick(), 6.0), d.ListAccounts).request
    assert registrar.handle(Replied(0, d.Accounts(wanted.id, accounts)), 6.1) == []
    assert registrar.accounts == accounts


def test_accounts_that_nobody_gave_are_asked_for_again_soon():
    registrar = new(directories=1)
    _, first = registrar.handle(Start(), 0.0)
    registrar.handle(Undelivered("d1"), 0.0)
    asked, now = [first], 0.0
    while now < 5.0:
        for send in [i for i in asked if isinstance(getattr(i, "request", 0), d.ListAccounts)]:
            registrar.handle(Undelivered(send.request.id), now)
            latest = now
        now = registrar.wake_at
        asked = registrar.handle(Tick(), now)
    assert latest > 4.0, "not a third of a lease later"


@pytest.mark.parametrize(
    "reply", [d.Found("d1", ()), d.Accounts("d1", ()), d.Changes("d1", "e", 1, True, ())]
)
def test_a_reply_that_makes_no_sense_is_ignored(reply):
    registrar = new()
    registrar.handle(Start(), 0.0)
    assert registrar.handle(Replied(0, reply), 0.1) == []
    assert registrar.state is State.ASKING


def test_what_cannot_happen_raises_with_the_history():
    registrar = started()
    with pytest.raises(
        InvalidTransition,
        match=r"iad1: new Start at 0.000; .*kept Start at 9.000 is not in Registrar",
    ):
        registrar.handle(Start(), 9.0)


def test_a_denial_without_an_id_is_of_nothing_that_is_known():
    registrar = started()
    unread = Replied(0, d.Denied("", "malformed", "empty frame"))
    assert registrar.handle(unread, 1.0) == []
    assert registrar.registered
    registrar.handle(Tick(), 20.0)
    registrar.handle(Tick(), 20.0 + WRITE_PATIENCE_S)
    assert registrar.state is State.WAITING
    assert registrar.handle(unread, 24.0) == []


@pytest.mark.parametrize("lease_s", [float("nan"), float("inf"), -1.0])
def test_a_lease_is_a_time(lease_s):
    with pytest.raises(WireError):
        Decoder(d.DirectoryReply).decode(encode(d.Registered("d1", lease_s)))
