"""A registration service with keys: who gets in, as whom, and with which of two keys."""

import pytest
import zmq

from agent.net.keys import Handshake, new
from agent.wire import directory as d

OFFERINGS = (d.Offering("temperature", ("b1",)),)
PARTIES = ("iad1", "iad1-next", "iad2", "acme", "mirror1", "admin", "stranger")
ALLOW = """
[[iad]]
name = "iad1"
keys = ["{iad1}"]
[[iad]]
name = "iad2"
keys = ["{iad2}"]
[[csp]]
name = "acme"
keys = ["{acme}"]
[[mirror]]
name = "mirror1"
keys = ["{mirror1}"]
[[operator]]
name = "admin"
keys = ["{admin}"]
"""


class Keyed:
    """A primary with keys, and what a party shows it."""

    def __init__(self, start, folder):
        self.pairs = {name: new(str(folder / name)) for name in ("drs", *PARTIES)}
        publics = {name: pair.public for name, pair in self.pairs.items()}
        (folder / "allow.toml").write_text(ALLOW.format(**publics))
        self.folder = folder
        self.drs = start("keyed", trust=self.trust("drs"))

    def trust(self, name):
        return f'[trust]\nkey = "{self.folder / name}.secret"\nallow = "{self.folder}/allow.toml"\n'

    def shows(self, name):
        return Handshake(self.pairs[name], self.pairs["drs"].public)

    def register(self, iad, *names):
        keys = tuple(self.pairs[name].public for name in names)
        return d.Register("r", iad, "tcp://127.0.0.1:5700", OFFERINGS, 60.0, keys)


@pytest.fixture
def keyed(start_drs, tmp_path):
    return Keyed(start_drs, tmp_path)


def test_a_key_speaks_for_its_own_party_and_no_other(keyed, asker):
    iad1 = asker(keyed.drs, keyed.shows("iad1"))
    acme = asker(keyed.drs, keyed.shows("acme"))
    assert isinstance(iad1.ask(keyed.register("iad1", "iad1")), d.Registered)
    assert iad1.ask(keyed.register("iad2", "iad1")).reason == "not_authorised"
    assert acme.ask(keyed.register("acme", "acme")).reason == "not_authorised"
    assert acme.ask(d.Withdraw("w", "iad1")).reason == "not_authorised"
    assert isinstance(acme.ask(d.OpenAccount("o", "acme")), d.Registered)
    found = acme.ask(d.Discover("d", "temperature", ("b1",)))
    assert [(c.iad, c.keys) for c in found.candidates] == [("iad1", (keyed.pairs["iad1"].public,))]


def test_who_has_no_key_or_a_strange_one_gets_no_connection(keyed, context):
    for handshake in (None, keyed.shows("stranger")):
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED
            | zmq.EVENT_HANDSHAKE_FAILED_AUTH
            | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
            | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            | zmq.EVENT_DISCONNECTED
        )
        if handshake is not None:
            handshake.apply(socket)
        socket.connect(keyed.drs.public)
        assert monitor.poll(20_000)
        event = int.from_bytes(monitor.recv_multipart()[0][:2], "little")
        assert event != zmq.EVENT_HANDSHAKE_SUCCEEDED
        socket.disable_monitor()
        monitor.close(0)


def test_a_rotation_needs_no_edit_of_the_allow_list_and_no_restart(keyed, asker):
    old = asker(keyed.drs, keyed.shows("iad1"))
    assert isinstance(old.ask(keyed.register("iad1", "iad1", "iad1-next")), d.Registered)
    following = asker(keyed.drs, keyed.shows("iad1-next"))
    assert isinstance(following.ask(d.Renew("n", "iad1")), d.Registered)
    assert isinstance(following.ask(keyed.register("iad1", "iad1-next")), d.Registered)
    thief = asker(keyed.drs, keyed.shows("iad2"))
    assert thief.ask(keyed.register("iad2", "iad2", "iad1-next")).reason == "not_authorised"


def test_a_key_of_the_allow_list_is_no_other_partys_before_its_party_has_come(keyed, asker):
    thief = asker(keyed.drs, keyed.shows("iad1"))
    for victim in ("iad2", "acme", "admin"):
        assert thief.ask(keyed.register("iad1", "iad1", victim)).reason == "not_authorised"
    assert isinstance(
        asker(keyed.drs, keyed.shows("iad2")).ask(keyed.register("iad2", "iad2")), d.Registered
    )


def test_the_operator_shuts_a_party_out(keyed, asker):
    iad1 = asker(keyed.drs, keyed.shows("iad1"))
    iad1.ask(keyed.register("iad1", "iad1"))
    file = keyed.folder / "allow.toml"
    file.write_text(
        file.read_text().replace(keyed.pairs["iad1"].public, keyed.pairs["stranger"].public)
    )
    admin = asker(keyed.drs, keyed.shows("admin"))
    assert isinstance(admin.ask(d.Withdraw("w", "iad1")), d.Registered)
    assert admin.ask(keyed.register("iad1", "admin")).reason == "not_authorised"
    iad1.ask_until(d.ListAccounts("a"), lambda reply: isinstance(reply, d.Denied))
    assert asker(keyed.drs, keyed.shows("iad2")).ask(d.ListAccounts("a")).accounts == ()


def test_a_mirror_follows_with_a_key_of_its_own(keyed, start_drs, asker):
    asker(keyed.drs, keyed.shows("iad1")).ask(keyed.register("iad1", "iad1"))
    mirror = start_drs(
        "mirror",
        primary=keyed.drs.public,
        primary_keys=f"{keyed.folder}/drs.public",
        trust=keyed.trust("mirror1"),
    )
    shows = Handshake(keyed.pairs["iad1"], keyed.pairs["mirror1"].public)
    reader = asker(mirror, shows)
    discover = d.Discover("d", "temperature", ("b1",))
    reader.ask_until(discover, lambda r: isinstance(r, d.Found) and r.candidates)
    assert reader.ask(d.Renew("n", "iad1")).reason == "read_only"
    follower = asker(keyed.drs, keyed.shows("mirror1"))
    assert follower.ask(discover).reason == "not_authorised"
