"""The primary against a list of records, and a mirror against the primary, under any interleaving:
changes, leases that end, a disk that refuses, restarts of both, messages that are lost."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.directory.leader import Leader
from agent.directory.replica import PATIENCE_S, ReadReplica
from agent.wire import directory as d
from agent.wire.principals import Sender
from tests.directory.directory_oracle import AREAS, CAPABILITIES, KEYS, NAMES, Disk, Oracle
from tests.examples import examples

ANYONE = Sender("anyone", "x")
MAX_LEASE_S = 50.0
EVERY_S = 1.0

names = st.sampled_from(NAMES)
keys = st.lists(st.sampled_from(KEYS), max_size=2, unique=True).map(tuple)
areas = st.lists(st.sampled_from(AREAS), min_size=1, max_size=4).map(tuple)
# Most things go well: what is rare in life should not hide what comes after it.
fates = st.sampled_from(["fine"] * 8 + ["question lost", "reply lost", "disk full"])
works = st.sampled_from([True] * 7 + [False])
offerings = st.lists(st.builds(d.Offering, st.sampled_from(CAPABILITIES), areas), max_size=3)


class DirectoryMachine(RuleBasedStateMachine):
    """One primary and one mirror, each with a disk."""

    @initialize()
    def start(self):
        self.now = 100.0
        self.oracle = Oracle()
        self.disk = Disk("first")
        self.copy = Disk("")
        self.epochs = 1
        self.primary_starts()
        self.mirror_starts()

    # --- the primary ---------------------------------------------------------------------------

    def primary_starts(self):
        self.leader = Leader(self.disk.load(), longest_lease_s=MAX_LEASE_S, now=self.now)
        self.confirmed = set()

    def ask(self, request, *, works=True):
        """What the server does; False if the disk refused."""
        before = list(self.leader.directory)
        outcome = self.leader.handle(request, ANYONE, self.now)
        assert list(self.leader.directory) == before, "a request alone changes nothing"
        assert outcome.reply.id == request.id
        if outcome.edit is not None:
            if not works:
                return None
            self.disk.write(outcome.edit)
            self.leader.applied(outcome.edit, self.now)
        return outcome.reply

    @rule(name=names, offered=offerings, keys=keys, lease_s=st.floats(1, 99), works=works)
    def register(self, name, offered, keys, lease_s, works):
        request = d.Register("r", name, "tcp://127.0.0.1:1", tuple(offered), lease_s, keys)
        reply = self.ask(request, works=works)
        if reply is None:
            return
        if not self.oracle.may_be(name, "iad", keys):
            assert reply.reason == "not_authorised"
            return
        lease_s = min(lease_s, MAX_LEASE_S)
        assert reply == d.Registered("r", lease_s)
        self.confirmed.add(name)
        self.oracle.kinds[name] = "iad"
        self.oracle.keys[name] = keys
        self.oracle.records[name] = request
        self.oracle.ends[name] = self.now + lease_s

    @rule(name=names)
    def renew(self, name):
        reply = self.ask(d.Renew("r", name))
        if name not in self.oracle.records or name not in self.confirmed:
            assert reply.reason == "unknown"
            return
        lease_s = min(self.oracle.records[name].lease_s, MAX_LEASE_S)
        assert reply == d.Registered("r", lease_s)
        self.oracle.ends[name] = self.now + lease_s

    @rule(name=names, keys=keys, works=works)
    def open_account(self, name, keys, works):
        reply = self.ask(d.OpenAccount("o", name, keys), works=works)
        if reply is None:
            return
        if self.oracle.may_be(name, "csp", keys):
            assert reply == d.Registered("o", 0.0 if keys else MAX_LEASE_S)
            self.oracle.kinds[name] = "csp"
            self.oracle.keys[name] = keys
            if keys:
                self.oracle.ends.pop(name, None)
            else:
                self.oracle.ends[name] = self.now + MAX_LEASE_S
        else:
            assert reply.reason == "not_authorised"

    @rule(name=names, kind=st.sampled_from(["iad", "csp"]))
    def leave(self, name, kind):
        reply = self.ask(d.Withdraw("w", name) if kind == "iad" else d.CloseAccount("w", name))
        if self.oracle.kinds.get(name) == kind:
            assert reply == d.Registered("w", 0.0)
            self.oracle.forget(name)
        else:
            assert reply.reason == "unknown"

    @rule(seconds=st.floats(0.1, 60), works=works)
    def time_passes(self, seconds, works):
        self.now += seconds
        if not works:
            self.leader.expire(self.now)  # the disk refused: again a second later
            assert self.leader.next_due is None or self.leader.next_due > self.now
            self.now += 1.0
        if (edit := self.leader.expire(self.now)) is not None:
            self.disk.write(edit)
            self.leader.applied(edit, self.now)
        self.oracle.expire(self.now)
        assert self.leader.next_due == min(self.oracle.ends.values(), default=None)

    @rule(what=st.sampled_from(["primary", "primary", "mirror", "file"]), down_s=st.floats(0, 1e4))
    def crash(self, what, down_s):
        if what == "mirror":
            before = list(self.replica.directory)
            self.mirror_starts()
            assert list(self.replica.directory) == before
            return
        self.now += down_s
        if what == "file":
            self.epochs += 1
            self.disk = Disk(f"epoch {self.epochs}")
            self.oracle = Oracle()
        self.primary_starts()
        # Every record is there, with a whole lease.
        for name, record in self.oracle.records.items():
            self.oracle.ends[name] = self.now + min(record.lease_s, MAX_LEASE_S)
        for name in self.oracle.kinds.keys() - self.oracle.records.keys():
            if not self.oracle.keys[name]:
                self.oracle.ends[name] = self.now + MAX_LEASE_S

    @rule(capability=st.sampled_from(CAPABILITIES), asked=areas)
    def discover(self, capability, asked):
        found = self.ask(d.Discover("d", capability, asked))
        assert (found.candidates, found.uncovered) == self.oracle.discover(capability, asked)
        assert found.age_s == 0

    @invariant()
    def each_area_alone(self):
        for area in AREAS:
            found = self.leader.directory.discover("temperature", (area,))
            assert found == self.oracle.discover("temperature", (area,))

    @invariant()
    def places_and_owners(self):
        known = self.leader.directory
        assert known.places == self.oracle.places()
        assert [known.owner(key) for key in KEYS] == [self.oracle.owner(key) for key in KEYS]

    @rule(asked=st.lists(names, min_size=1))
    def look_up(self, asked):
        found = self.ask(d.LookUp("l", tuple(asked)))
        assert found.candidates == self.oracle.look_up(asked)

    @invariant()
    def accounts(self):
        assert self.ask(d.ListAccounts("a")).accounts == self.oracle.accounts()

    # --- the mirror ----------------------------------------------------------------------------

    def mirror_starts(self):
        self.replica = ReadReplica(self.copy.load(), "tcp://primary", every_s=EVERY_S, now=self.now)
        self.late = []

    @rule(fate=fates, late=st.booleans())
    def mirror_follows(self, fate, late):
        self.now = max(self.now, self.replica.next_due)
        question = self.replica.tick(self.now)
        assert self.replica.tick(self.now) is None, "one question at a time"
        if fate == "question lost":
            self.now += PATIENCE_S
            return
        reply = self.ask(question)
        if fate == "reply lost":
            self.late.append(reply)
            self.now += PATIENCE_S
            return
        if late:
            for old in self.late:
                assert self.replica.received(old, self.now) is None
        edit = self.replica.received(reply, self.now)
        if edit is not None:
            if fate == "disk full":
                return
            self.copy.write(edit)
            self.replica.applied(edit, self.now)
        same = sorted(self.replica.directory, key=lambda e: e.version)
        assert same == sorted(self.leader.directory, key=lambda e: e.version)
        assert same == sorted(self.copy.entries.values(), key=lambda e: e.version)
        assert self.replica.directory.version == self.leader.directory.version
        assert self.replica.age_s(self.now) == 0
        assert self.replica.directory.places == self.oracle.places()
        for key in KEYS:
            assert self.replica.directory.owner(key) == self.oracle.owner(key)
        read = d.Discover("d", "temperature", ("a", "e"))
        assert self.replica.handle(read, ANYONE, self.now).reply == self.ask(read)


DirectoryMachine.TestCase.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)
TestDirectory = DirectoryMachine.TestCase
