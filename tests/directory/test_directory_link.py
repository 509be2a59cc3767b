"""A master's connection to real registration services: registered, failed over, found again."""

import signal
import sys
import time

import pytest

from agent.directory.registrar_events import Registrant
from agent.master.market.directory_link import DirectoryLink
from agent.net.secure_sockets import SecureSockets
from agent.runtime.reactor import Reactor
from agent.wire import directory as d
from agent.wire.config import Trust
from testkit.waiting import wait_until

OFFERINGS = (d.Offering("temperature", ("b1/f4",)),)
IAD = Registrant("iad1", "iad", "tcp://127.0.0.1:5700", OFFERINGS)
RECORD = d.Candidate("iad1", "tcp://127.0.0.1:5700", (), ("b1/f4",))


class Until:
    """Stops a reactor when a condition holds."""

    filenos = ()

    def __init__(self, condition):
        self.condition = condition
        self.turns = 0

    @property
    def requested(self):
        self.turns += 1
        assert self.turns < 100_000
        return self.condition()


class Master:
    """As much of one as the link needs."""

    def __init__(self, context, folder, *addresses, registrant=IAD):
        self.reactor = Reactor(time.monotonic)
        secure_sockets = SecureSockets(
            context.context, Trust(), folder, clock=time.monotonic, warn=lambda line: None
        )
        self.accounts = []
        self.link = DirectoryLink(
            self.reactor,
            secure_sockets,
            addresses,
            "",
            registrant,
            lease_s=6.0,
            say=sys.stderr.write,
        )
        self.link.on_accounts(self.accounts.append)

    def until(self, condition):
        self.reactor.serve(Until(condition))

    def ask(self, ask, *arguments):
        """What a question leads to, and after how many seconds."""
        done = []
        started = time.monotonic()
        ask(*arguments, lambda found, now: done.append((found, now - started)))
        self.until(lambda: done)
        return done[0]

    def discover(self):
        return self.ask(self.link.discover, "temperature", ["b1"])[0]

    def discover_at_the_primary(self):
        """Its own answer: where it takes longer than a second, the mirror is asked."""
        return wait_until(self.discover, lambda found: found is not None and found.age_s == 0.0)


@pytest.fixture
def services(start_drs):
    primary = start_drs("primary")
    return primary, start_drs("mirror", primary=primary.public)


def test_it_registers_fails_over_and_comes_back(services, context, asker, tmp_path, capfd):
    primary, mirror = services
    master = Master(context, tmp_path, primary.public, mirror.public)
    master.until(lambda: master.link.registered)
    found = master.discover_at_the_primary()
    assert (found.candidates, found.uncovered) == ((RECORD,), ())
    assert master.ask(master.link.look_up, ["iad1", "iad2"])[0].candidates == (RECORD,)
    master.link.refresh_accounts()
    master.until(lambda: master.accounts)
    assert master.link.accounts == master.accounts[-1] == (d.Account("iad1", "iad", ()),)
    asker(mirror).ask_until(
        d.LookUp("l", ("iad1",)), lambda r: isinstance(r, d.Found) and r.candidates
    )

    primary.stop(signal.SIGKILL)
    found = wait_until(master.discover)
    assert found.candidates == (RECORD,), "the mirror answers"
    assert found.age_s > 0.0
    # Longer than a third of a lease: what is renewed meanwhile fails.
    master.until(lambda: master.link._registrar.state.value == "waiting")
    assert wait_until(master.discover).candidates == (RECORD,)

    primary.start()
    master.until(lambda: master.link._registrar.state.value == "kept")
    assert master.discover_at_the_primary().candidates == (RECORD,)


def test_accounts_of_before_count_until_a_directory_answers(start_drs, context, tmp_path):
    before = (d.Account("iad9", "iad", ()),)
    master = Master(context, tmp_path, start_drs("primary").public)
    master.link.restore(before)
    assert master.link.accounts == before
    master.until(lambda: master.link.registered)
    master.link.refresh_accounts()
    master.until(lambda: master.link.accounts == (d.Account("iad1", "iad", ()),))
    assert master.accounts[0] == before
    assert before not in master.accounts[1:]


def test_a_hanging_primary_costs_a_second(services, context, asker, tmp_path):
    primary, mirror = services
    master = Master(context, tmp_path, primary.public, mirror.public)
    master.until(lambda: master.link.registered)
    asker(mirror).ask_until(
        d.LookUp("l", ("iad1",)), lambda r: isinstance(r, d.Found) and r.candidates
    )
    primary.process.send_signal(signal.SIGSTOP)
    try:
        found, seconds = master.ask(master.link.discover, "temperature", ["b1"])
    finally:
        primary.process.send_signal(signal.SIGCONT)
    assert found.candidates == (RECORD,)
    assert seconds >= 1.0


def test_nobody_there_is_none(context, tmp_path, capfd):
    master = Master(context, tmp_path, "tcp://127.0.0.1:9", "tcp://127.0.0.1:19")
    found, seconds = master.ask(master.link.discover, "temperature", ["b1"])
    assert found is None
    assert seconds >= 1.0
    assert not master.link.registered
    assert capfd.readouterr().err == (
        "the registration service cannot be reached; trying again (tcp://127.0.0.1:9)\n"
    )


def test_a_refusal_is_one_line_for_the_operator(services, context, asker, tmp_path, capfd):
    primary, _ = services
    asker(primary).ask(d.OpenAccount("o", "iad1"))
    master = Master(context, tmp_path, primary.public)
    master.until(lambda: capfd.readouterr().err.startswith("the registration service refused: "))
    assert not master.link.registered
    asker(primary).ask(d.CloseAccount("c", "iad1"))
    master.until(lambda: master.link.registered)
    assert capfd.readouterr().err == (
        f"registered with the registration service ({primary.public})\n"
    )


def test_a_master_with_a_mirror_for_its_primary_hears_so(services, context, asker, tmp_path, capfd):
    _, mirror = services
    master = Master(context, tmp_path, mirror.public)
    said = []

    def told():
        said.append(capfd.readouterr().err)
        return "this is a mirror; the primary is " in "".join(said)

    master.until(told)


def test_a_csp_has_an_account_and_no_record(services, context, asker, tmp_path):
    primary, _ = services
    master = Master(context, tmp_path, primary.public, registrant=Registrant("acme", "csp"))
    master.until(lambda: master.link.registered)
    assert asker(primary).ask(d.ListAccounts("a")).accounts == (d.Account("acme", "csp", ()),)
    assert asker(primary).ask(d.LookUp("l", ("acme",))).candidates == ()
