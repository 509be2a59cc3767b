"""A rotation carried out with a fake clock and fake hosts: interrupted, held up, gone on with."""

import pytest

from fleet.inventory.parties import Party, hosts, parties
from fleet.keys import rotation
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from fleet.rollout.keys.push import give_to
from fleet.rollout.keys.revoke import revoke
from fleet.rollout.keys.rotate import Rotator
from fleet.ssh.errors import HostError
from tests.fleet.keys.rig import inventory, store

FLEET = inventory(nodes=2)
EVERYBODY = list(parties(FLEET))


class Hosts:
    """What each host was given last; `dead` ones take nothing, `stop_after` pushes Ctrl-C comes."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        self.dead = set()
        self.count = 0
        self.stop_after = None
        self.now = 1_800_000_000.0
        self.meanwhile = {}

    def push(self, host, files):
        self.count += 1
        if host.name in self.dead:
            raise HostError("dead", f"no way to {host.address}")
        if act := self.meanwhile.pop(host.name, None):
            act()
        self.files[host.name] = {file.path: file.content for file in files}

    def clock(self):
        """The time; Ctrl-C comes in the thread that asks for it."""
        if self.stop_after is not None and self.count > self.stop_after:
            raise KeyboardInterrupt
        return self.now

    def rotator(self, store):
        said = []

        def wait_until(time_s):
            self.now = time_s

        return Rotator(
            store, FLEET, self.push, said.append,
            parallel=1, clock=self.clock, wait_until=wait_until,
        )  # fmt: skip


@pytest.fixture
def there(tmp_path):
    return Hosts(tmp_path)


@pytest.fixture
def keys(tmp_path):
    return store(tmp_path, FLEET)


def test_all_keys_are_others_afterwards(there, keys):
    before = {party: keys.publics(party) for party in EVERYBODY}
    rotator = there.rotator(keys)
    result = rotator.run(rotator.begin(EVERYBODY))
    assert set(result.through) == set(EVERYBODY)
    assert there.now - 1_800_000_000.0 == 2 * rotation.OVERLAP_S + 3 * rotation.SETTLE_S
    assert there.count == 3 * 6
    for party in EVERYBODY:
        (key,) = keys.publics(party)
        assert key not in before[party]
        assert not any(
            before[party][0].encode() in c for f in there.files.values() for c in f.values()
        )
    for host in hosts(FLEET):
        secret = "master" if host.node is None else "node"
        assert there.files[host.name][f"keys/{secret}.secret"] == keys.secret_file(host.party)


@pytest.mark.parametrize("stop_after", [0, 3, 6, 8, 12, 14, 17])
def test_interrupted_it_goes_on_and_no_second_key_is_made(there, keys, stop_after):
    rotator = there.rotator(keys)
    there.stop_after = stop_after
    with pytest.raises(KeyboardInterrupt):
        rotator.run(rotator.begin(EVERYBODY))
    there.stop_after = None
    newest = {party: keys.publics(party)[-1] for party in EVERYBODY if len(keys.keys(party)) > 1}
    made = {p: max(keys.keys(p), key=lambda k: k.order).pair.public for p in EVERYBODY}
    another = there.rotator(Store(keys.folder))
    result = another.run(another.under_way())
    assert set(result.through) == set(EVERYBODY)
    assert {p: keys.publics(p) for p in EVERYBODY} == {p: (made[p],) for p in EVERYBODY}
    assert another.under_way() is None
    assert stop_after >= 12 or newest


def test_it_is_held_up_by_a_dead_host_and_goes_on(there, keys):
    there.dead = {"iad4/n1"}
    rotator = there.rotator(keys)
    result = rotator.run(rotator.begin(EVERYBODY))
    assert {each.party for each in result.held} == {
        Party("master", "iad4"), Party("node", "iad4/n1")
    }  # fmt: skip
    assert str(result.errors["iad4/n1"]) == "no way to 10.0.4.2"
    assert len(keys.publics(Party("node", "iad4/n2"))) == 1
    assert len(keys.publics(Party("master", "iad4"))) == 2
    there.dead = set()
    result = rotator.run(rotator.under_way())
    assert result.held == ()
    assert all(len(keys.publics(party)) == 1 for party in EVERYBODY)


def test_a_host_left_behind_keeps_its_key(there, keys):
    there.dead = {"iad4/n1"}
    before = keys.publics(Party("node", "iad4/n1"))
    rotator = there.rotator(keys)
    result = rotator.run(rotator.begin(EVERYBODY), ["iad4/n1"])
    assert result.held == ()
    assert set(result.through) == set(EVERYBODY) - {Party("node", "iad4/n1")}
    assert keys.publics(Party("node", "iad4/n1")) == before
    # One that was given up on its way is finished by the next.
    rotator.run(rotator.begin([Party("node", "iad4/n2")]))


def test_nodes_of_a_master_left_behind_keep_their_keys_with_it(there, keys):
    """It may be running, and would refuse their new keys."""
    there.dead = {"iad4/master"}
    left = [Party("master", "iad4"), Party("node", "iad4/n1"), Party("node", "iad4/n2")]
    before = {party: keys.publics(party) for party in EVERYBODY}
    rotator = there.rotator(keys)
    result = rotator.run(rotator.begin(EVERYBODY), ["iad4/master"])
    assert result.held == ()
    assert {p for p in EVERYBODY if keys.publics(p) == before[p]} == set(left)
    assert rotator.under_way() is None


def test_a_rotation_given_up_after_the_switch_is_finished_by_the_next(there, keys):
    node = Party("node", "iad4/n1")
    rotator = there.rotator(keys)
    there.stop_after = 3  # two were announced, one switched
    with pytest.raises(KeyboardInterrupt):
        rotator.run(rotator.begin([node]))
    there.stop_after = None
    new, _old = keys.publics(node)
    rotator.run(rotator.under_way(), ["iad4/n1"])  # left behind
    assert rotator.under_way() is None
    rotator.run(rotator.begin([node]))
    assert keys.publics(node) == (new,)


def test_who_is_revoked_meanwhile_is_out_and_stays_out(there, keys):
    """The files for the master were read before the revocation, and arrive after its own."""
    node = Party("node", "iad4/n1")
    rotator = there.rotator(keys)
    before = keys.publics(node)[0]
    there.meanwhile["iad4/master"] = lambda: revoke(keys, FLEET, [node], "stolen", there.push)
    result = rotator.run(rotator.begin(EVERYBODY))
    assert result.held == ()
    assert node not in result.through
    allowed = there.files["iad4/master"]["allow.toml"].decode()
    assert 'name = "n1"' not in allowed
    assert before not in allowed
    assert "iad4/n1" not in there.files


def test_two_rotations_do_not_run_at_once(there, keys):
    rotator = there.rotator(keys)
    another = there.rotator(Store(keys.folder))

    def meanwhile():
        with pytest.raises(KeyStoreError, match="another command is rotating"):
            another.run(another.under_way())

    there.meanwhile["iad4/master"] = meanwhile
    assert rotator.run(rotator.begin([Party("node", "iad4/n1")])).held == ()
    assert there.meanwhile == {}


@pytest.mark.parametrize("begun", [True, False])
def test_a_state_that_was_read_before_another_went_on_counts_no_more(there, keys, begun):
    """A second command waited for its operator's yes: its state would make a second key, taken for
    announced already."""
    rotator = there.rotator(keys)
    if begun:
        there.dead = {"iad4/n2"}
        rotator.run(rotator.begin(EVERYBODY))
        there.dead = set()
    late = there.rotator(Store(keys.folder))
    state = late.under_way() or late.begin(EVERYBODY)
    there.dead = set() if begun else {"iad4/n2"}
    rotator.run(rotator.under_way() or rotator.begin(EVERYBODY))
    before = {party: keys.publics(party) for party in EVERYBODY}
    with pytest.raises(KeyStoreError, match="another command went on with the rotation"):
        late.run(state)
    assert {party: keys.publics(party) for party in EVERYBODY} == before


def test_a_clock_that_is_wrong_does_not_confuse_old_and_new(there, keys):
    node = Party("node", "iad4/n1")
    there.now = 1_000_000.0  # decades before the keys were made
    before = keys.publics(node)
    rotator = there.rotator(keys)
    rotator.run(rotator.begin([node]))
    assert keys.publics(node) != before


def test_a_damaged_state_is_one_line(there, keys):
    path = keys.folder.keys / "rotation.json"
    path.write_text("{")
    path.chmod(0o600)
    with pytest.raises(KeyStoreError, match=r"rotation\.json: .*remove it"):
        there.rotator(keys).under_way()


def test_files_that_a_revocation_overtook_are_given_again(there, keys):
    (master,) = (host for host in hosts(FLEET) if host.name == "iad4/master")
    node = Party("node", "iad4/n1")
    there.meanwhile["iad4/master"] = lambda: revoke(keys, FLEET, [node], "", there.push)
    give_to(keys, FLEET, master, there.push)
    assert 'name = "n1"' not in there.files["iad4/master"]["allow.toml"].decode()
    assert there.count == 3
