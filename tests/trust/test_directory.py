"""A registration service with keys: parties of its allow-list register, and are told to others."""

import subprocess
import sys
from pathlib import Path

import pytest
import zmq

from agent.client import Operator
from agent.net.keys import Handshake, new, read_publics
from agent.wire.codec import Decoder, encode
from agent.wire.directory import Accounts, Denied, DirectoryReply, ListAccounts, Register
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS, PATIENCE_S, wait_until

MASTER = """
[iad]
name = "{iad}"
[sockets]
public = "{public}"
operator = "ipc://{folder}/{iad}.operator"
[records]
directory = ""
[state]
path = "{iad}.sqlite"
[market]
directories = ["{drs}"]
directory_keys = "drs.public"
[trust]
key = "{iad}.secret"
"""


@pytest.fixture
def start():
    processes = []

    def start(command, config):
        processes.append(
            subprocess.Popen(
                [Path(sys.executable).with_name(command), "--config", config,
                 "--exit-on-stdin-eof"],
                stdin=subprocess.PIPE,
            )
        )  # fmt: skip

    yield start
    for process in processes:
        process.stdin.close()
        process.wait(PATIENCE_S)


def test_masters_register_with_keys_and_learn_whom_to_let_in(tmp_path, start):
    drs = free_address()
    keys = {name: new(str(tmp_path / name)) for name in ("drs", "iad1", "iad2", "stranger")}
    (tmp_path / "allow.toml").write_text(
        "".join(
            f'[[iad]]\nname = "{iad}"\nkeys = ["{keys[iad].public}"]\n' for iad in ("iad1", "iad2")
        )
    )
    (tmp_path / "drs.toml").write_text(
        f'[sockets]\npublic = "{drs}"\n[trust]\nkey = "drs.secret"\nallow = "allow.toml"\n'
    )
    start("sanderling-drs", tmp_path / "drs.toml")
    public = {iad: free_address() for iad in ("iad1", "iad2")}
    for iad, address in public.items():
        text = MASTER.format(iad=iad, public=address, folder=tmp_path, drs=drs)
        (tmp_path / f"{iad}.toml").write_text(text)
        start("sanderling-master", tmp_path / f"{iad}.toml")
    for iad in public:
        with Operator(f"ipc://{tmp_path}/{iad}.operator") as operator:
            wait_until(lambda link=operator: link.status(PATIENCE_MS).registered)

    context = zmq.Context()
    try:

        def unconnected(own, server):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.setsockopt(zmq.IMMEDIATE, 1)
            Handshake(keys[own], keys[server].public).apply(socket)
            return socket

        def connect(address, own, server):
            socket = unconnected(own, server)
            socket.connect(address)
            return socket

        socket = connect(drs, "iad1", "drs")

        def ask(request):
            assert socket.poll(PATIENCE_MS, zmq.POLLOUT)
            socket.send(encode(request))
            assert socket.poll(PATIENCE_MS)
            return Decoder(DirectoryReply).decode(socket.recv())[0]

        accounts = ask(ListAccounts("a"))
        assert isinstance(accounts, Accounts)
        assert {a.name: a.keys for a in accounts.accounts} == {
            iad: read_publics(str(tmp_path / f"{iad}.public")) for iad in public
        }
        # A key writes its own record only.
        denied = ask(Register("r", "iad2", "tcp://127.0.0.1:1", (), 60.0))
        assert isinstance(denied, Denied)
        assert denied.reason == "not_authorised"

        # iad1 has no allow-list of its own: it knows iad2's key from the accounts. An unknown key
        # makes it ask for them anew, so connecting again is enough.
        for attempt in range(1, 21):
            peer = connect(public["iad1"], "iad2", "iad1")
            admitted = peer.poll(500 * attempt, zmq.POLLOUT)
            peer.close(0)
            if admitted:
                break
        assert admitted
        stranger = unconnected("stranger", "iad1")
        refusals = stranger.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        stranger.connect(public["iad1"])
        assert refusals.poll(PATIENCE_MS)
        assert not stranger.poll(0, zmq.POLLOUT)
        stranger.disable_monitor()
        refusals.close(0)
    finally:
        context.destroy(linger=0)
