"""The registrar against a real primary and a real mirror: messages are lost, processes killed,
files lost. Whatever happened, every question is answered once and in time, and once the world is
whole again the party is registered."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.directory.leader import Leader
from agent.directory.registrar import MAX_PAUSE_S, READ_PATIENCE_S, WRITE_PATIENCE_S, Registrar
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
    Tick,
    Undelivered,
)
from agent.directory.replica import ReadReplica
from agent.wire import directory as d
from agent.wire.principals import Sender
from tests.directory.directory_oracle import Disk
from tests.examples import examples

ANYONE = Sender("anyone", "x")
PARTIES = {
    "iad": Registrant(
        "iad1", "iad", "tcp://127.0.0.1:1", (d.Offering("temperature", ("b1",)),), ("k",)
    ),
    "csp": Registrant("acme", "csp", keys=("k",)),
}
LEASE_S = 30.0
DIRECTORIES = 2
# One round of them that is cut short, then one that is not.
MAX_ANSWER_S = (2 * DIRECTORIES + 1) * READ_PATIENCE_S + 0.5
FATES = ("answered", "question lost", "reply lost", "hangs")


class RegistrarMachine(RuleBasedStateMachine):
    """One party, a primary (0) and a mirror (1)."""

    @initialize(kind=st.sampled_from(sorted(PARTIES)))
    def start(self, kind):
        self.now = 0.0
        self.registrant = PARTIES[kind]
        self.up = [True, True]
        self.fates = ["answered", "answered"]
        self.disks = [Disk("epoch 0"), Disk("")]
        self.lost_files = 0
        self.held = []
        self.asked = {}
        self.told = ()
        self.processes_start(0, 1)
        self.registrar = Registrar(
            self.registrant, DIRECTORIES, lease_s=LEASE_S, jitter=lambda: self.jitter
        )
        self.jitter = 0.5
        self.do(Start())

    def processes_start(self, *numbers):
        if 0 in numbers:
            self.leader = Leader(self.disks[0].load(), longest_lease_s=60.0, now=self.now)
        if 1 in numbers:
            self.replica = ReadReplica(self.disks[1].load(), "primary", every_s=1.0, now=self.now)

    # --- the network ---------------------------------------------------------------------------

    def do(self, event):
        waiting = [event]
        while waiting:
            for instruction in self.registrar.handle(waiting.pop(0), self.now):
                match instruction:
                    case Send(directory, request):
                        waiting += self.deliver(directory, request)
                    case Answer(ask, found):
                        asked_at = self.asked.pop(ask)  # KeyError: answered twice
                        assert self.now - asked_at <= MAX_ANSWER_S
                        if found is None:
                            assert self.now - asked_at >= READ_PATIENCE_S
                    case TellAccounts(accounts):
                        assert accounts != self.told
                        self.told = accounts

    def deliver(self, directory, request):
        """The events that sending it leads to now."""
        if directory != 0:
            assert isinstance(request, d.Discover | d.LookUp | d.ListAccounts)
        if not self.up[directory]:
            return [Undelivered(request.id)]
        fate = self.fates[directory]
        if fate == "question lost":
            return []
        rules, disk = (self.leader, self.replica)[directory], self.disks[directory]
        outcome = rules.handle(request, ANYONE, self.now)
        if outcome.edit is not None:
            disk.write(outcome.edit)
            rules.applied(outcome.edit, self.now)
        if fate == "reply lost":
            return []
        if fate == "hangs":
            self.held.append(Replied(directory, outcome.reply))
            return []
        return [Replied(directory, outcome.reply)]

    def pass_until(self, until):
        """Time goes on, from one thing that is due to the next."""
        turns = 0
        while (due := self.registrar.wake_at) <= until:
            turns += 1
            assert turns < 1_000, "it wakes without end"
            self.now = max(self.now, due)
            self.world()
            self.do(Tick())
            assert self.registrar.wake_at > self.now
        self.now = until
        self.world()

    def world(self):
        """Leases end, and the mirror follows."""
        if not self.up[0]:
            return
        if (edit := self.leader.expire(self.now)) is not None:
            self.disks[0].write(edit)
            self.leader.applied(edit, self.now)
        if self.up[1] and (question := self.replica.tick(self.now)) is not None:
            reply = self.leader.handle(question, ANYONE, self.now).reply
            if (edit := self.replica.received(reply, self.now)) is not None:
                self.disks[1].write(edit)
                self.replica.applied(edit, self.now)

    # --- what happens --------------------------------------------------------------------------

    @rule(directory=st.integers(0, 1), fate=st.sampled_from(FATES))
    def network_changes(self, directory, fate):
        self.fates[directory] = fate

    @rule(directory=st.integers(0, 1), lost=st.booleans())
    def process_ends(self, directory, lost):
        self.up[directory] = False
        if lost:
            self.lost_files += 1
            self.disks[directory] = Disk(f"epoch {self.lost_files}" if directory == 0 else "")

    @rule(directory=st.integers(0, 1))
    def process_starts(self, directory):
        if not self.up[directory]:
            self.up[directory] = True
            self.processes_start(directory)

    @rule()
    def what_was_late_arrives(self):
        held, self.held = self.held, []
        for reply in held:
            self.do(reply)

    @rule(seconds=st.floats(0.01, 40.0), jitter=st.floats(0.0, 0.999))
    def time_passes(self, seconds, jitter):
        self.jitter = jitter
        self.pass_until(self.now + seconds)

    @rule()
    def discover(self):
        ask = object()
        self.asked[ask] = self.now
        self.do(DiscoverWanted(ask, "temperature", ("b1",)))

    @rule()
    def look_up(self):
        ask = object()
        self.asked[ask] = self.now
        self.do(LookUpWanted(ask, ("iad1",)))

    @rule()
    def a_stranger_calls(self):
        self.do(AccountsWanted())

    @rule(keys=st.sampled_from([(), ("k",), ("k", "new"), ("new",)]))
    def keys_change(self, keys):
        self.registrant = self.registrant._replace(keys=keys)
        self.do(Changed(self.registrant))

    @rule()
    def the_world_is_whole_again(self):
        self.fates = ["answered", "answered"]
        for directory in (0, 1):
            self.process_starts(directory)
        # A renewal that is not due before a third of the lease finds out that the file was lost.
        self.pass_until(self.now + LEASE_S / 3 + WRITE_PATIENCE_S + MAX_PAUSE_S + 2.0)
        assert self.registrar.registered
        account = d.Account(self.registrant.name, self.registrant.kind, self.registrant.keys)
        assert self.leader.directory.accounts == (account,)
        entry = self.leader.directory.get(self.registrant.name)
        assert (entry.address, entry.offerings) == (
            self.registrant.address,
            self.registrant.offerings,
        )
        assert not self.asked, "every question is answered"
        self.do(AccountsWanted())
        self.pass_until(self.now + 1.0)
        assert self.told == self.registrar.accounts == (account,)
        ask = object()
        self.asked[ask] = self.now
        self.do(DiscoverWanted(ask, "temperature", ("b1",)))
        assert not self.asked, "answered at once"

    @rule()
    def the_mirror_alone_answers(self):
        self.up[0] = False
        if not self.up[1] or self.fates[1] != "answered" or not self.replica.directory.epoch:
            return
        ask = object()
        self.asked[ask] = self.now
        self.do(DiscoverWanted(ask, "temperature", ("b1",)))
        assert ask not in self.asked, "a primary that is down costs no time"

    @invariant()
    def questions_are_answered_in_time(self):
        assert all(self.now - at <= MAX_ANSWER_S for at in self.asked.values())


RegistrarMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestRegistrar = RegistrarMachine.TestCase
