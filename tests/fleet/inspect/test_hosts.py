"""`fleet exec`, `logs tail`, `status` and `doctor` on hosts that are logged in to."""

import json
import os
import signal
import subprocess
import threading
from typing import NamedTuple

import pytest

from fleet.cli import commands
from fleet.common import exits
from fleet.inspect.facts.facts import Facts
from fleet.inspect.look import Connections, Reach, look
from fleet.inspect.remote import CommandTimeout, Stopped, stream
from fleet.ssh.connect import open_host
from fleet.ssh.errors import HostError
from testkit.agent_process import installed

FLEET = installed("fleet")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def fleet(site, capsys, monkeypatch):
    """Runs `fleet` in this process: it takes half a second to start."""
    monkeypatch.setenv("SANDERLING_FLEET", str(site.folder.root))

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        status = commands.run(arguments)
        return Done(status, *capsys.readouterr())

    return run


def test_lines_come_with_their_host_and_end_where_they_were_written(site, fleet):
    done = fleet("exec", "--", "echo out; echo err >&2; test $HOST = ${HOST%2}")
    assert done.returncode == exits.FAILED  # on n2
    assert sorted(done.stdout.splitlines()) == [f"iad4/n{i} | out" for i in (1, 2, 3)]
    assert "iad4/n3 | err" in done.stderr
    assert "iad4/n2: exit status 1" in done.stderr
    assert "2 of 3 hosts: exit status 0" in done.stderr
    assert "left out, since nobody logs in there: iad4/master" in done.stderr


def test_exec_in_json_has_each_line_and_each_end(site, fleet):
    (site.hosts["n3"].folder / "no_sudo").touch()
    done = fleet("exec", "--sudo", "--json", "--", "echo", "two  words")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    ends = {row["host"]: row for row in rows if row["type"] == "end"}
    assert {host: end["exit"] for host, end in ends.items()} == {
        "iad4/n1": 0,
        "iad4/n2": 0,
        "iad4/n3": 1,
    }
    lines = [(r["host"], r["stream"], r["text"]) for r in rows if r["type"] == "line"]
    assert ("iad4/n1", "stdout", "two  words") in lines
    assert ("iad4/n3", "stderr", "sudo: a password is required") in lines


def test_equal_outputs_are_shown_together(site, fleet):
    done = fleet("exec", "--group-output", "--", "test -e $HOST/x; echo same")
    assert done.stdout == "iad4/n1, iad4/n2, iad4/n3:\nsame\n"
    assert done.returncode == exits.DONE


def test_a_dead_host_costs_nobody_else_anything(site, fleet):
    site.hosts["n2"].close()
    done = fleet("exec", "--json", "--", "true")
    ends = {row["host"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert ends["iad4/n1"]["exit"] == ends["iad4/n3"]["exit"] == 0
    assert "refuses the connection" in ends["iad4/n2"]["error"]
    assert ends["iad4/n2"]["remedy"]
    assert done.returncode == exits.FAILED
    for host in site.hosts.values():
        host.close()
    assert fleet("exec", "--", "true").returncode == exits.NOTHING


def test_much_output_arrives_whole(site):
    with open_host(site.folder, site.fleet, site.chosen[1]) as connection:
        found = {"stdout": bytearray(), "stderr": bytearray()}
        status = stream(
            connection,
            "head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 7",
            lambda which, data: found[which].extend(data),
            stop=threading.Event(),
        )
    assert (status, len(found["stdout"]), len(found["stderr"])) == (7, 3_000_000, 2_000_000)


def test_a_command_is_left_when_it_takes_too_long_or_nobody_wants_it(site):
    with open_host(site.folder, site.fleet, site.chosen[1]) as connection:
        stop = threading.Event()
        with pytest.raises(CommandTimeout, match=r"no end after 0\.1 s"):
            stream(connection, "sleep 1000", print, stop=stop, timeout_s=0.1)
        stop.set()
        with pytest.raises(Stopped):
            stream(connection, "sleep 1000", print, stop=stop)


def test_a_connection_that_is_cut_is_told(site):
    with open_host(site.folder, site.fleet, site.chosen[1]) as connection:
        with pytest.raises(HostError) as caught:
            stream(
                connection,
                "echo up; sleep 1000",
                lambda *_: site.hosts["n1"].cut(),
                stop=threading.Event(),
            )
        assert caught.value.kind == "lost"


JOURNAL = """#!/bin/sh
[ -e "$HOST/no_journal" ] && { echo 'No journal files were found.' >&2; exit 1; }
cat "$HOST/journal"
case "$*" in *--follow*) exec sleep 1000;; esac
"""


def write_journals(site):
    site.everywhere("journalctl", JOURNAL)
    for number, host in enumerate(site.hosts.values()):
        rows = [
            {
                "__REALTIME_TIMESTAMP": str(1_795_297_613_000_000 + 1_000 * (10 * i + number)),
                "MESSAGE": f"line {i}",
                "PRIORITY": "4",
                "SANDERLING_SENSOR": "desk",
            }
            for i in range(3)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (host.folder / "journal").write_text(text)


def test_journals_are_one_in_the_order_of_time(site, fleet):
    write_journals(site)
    done = fleet("logs", "tail", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["text"], row["host"]) for row in rows] == [
        (f"line {i}", f"iad4/n{n}") for i in range(3) for n in (1, 2, 3)
    ]
    assert done.returncode == exits.DONE
    people = fleet("logs", "tail", "--limit", "n1").stdout.splitlines()
    assert people[0].endswith(" iad4/n1 desk: line 0")


def test_a_host_whose_journal_cannot_be_read_is_one_line(site, fleet):
    write_journals(site)
    (site.hosts["n2"].folder / "no_journal").touch()
    (site.hosts["n3"].folder / "no_sudo").touch()
    done = fleet("logs", "tail", "--json")
    assert len(done.stdout.splitlines()) == 3
    assert "iad4/n2: No journal files were found." in done.stderr
    assert "iad4/n3: sudo: a password is required" in done.stderr
    assert done.returncode == exits.FAILED


def test_following_ends_with_ctrl_c_in_one_line(site):
    write_journals(site)
    with subprocess.Popen(
        [FLEET, "logs", "tail", "-f", "--json"],
        env={**os.environ, "SANDERLING_FLEET": str(site.folder.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = [process.stdout.readline() for _ in range(9)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    assert all(json.loads(line)["host"] for line in shown)
    assert rest == ""
    assert process.returncode == exits.INTERRUPTED
    assert errors.splitlines()[1:] == ["fleet: interrupted"]


def test_status_asks_hosts_and_masters_and_keeps_connections(site):
    (site.hosts["n3"].folder / "no_sudo").touch()
    hosts = site.chosen
    with Connections(site.folder, site.fleet, keep=True) as connections:
        reach = Reach(500.0, 8)
        for _ in range(2):
            iads, seen = look(site.folder, site.fleet, hosts, reach, connections, lambda _: None)
        assert len(site.hosts["n1"]._transports) == 1
        site.hosts["n1"].cut()
        look(site.folder, site.fleet, hosts, reach, connections, lambda _: None)
        _, seen = look(site.folder, site.fleet, hosts, reach, connections, lambda _: None)
    assert "nothing listens" in iads[0].error
    by_name = {each.name: each for each in seen}
    assert by_name["iad4/master"].facts is by_name["iad4/master"].error is None
    assert isinstance(by_name["iad4/n1"].facts, Facts)
    assert abs(by_name["iad4/n1"].skew_s or 0.0) < 1.0
    error = by_name["iad4/n3"].error
    assert error is not None
    assert error.kind == "sudo"


def test_status_and_doctor_are_one_document_each(site, fleet):
    done = fleet("status", "--json", "--timeout", "500ms")
    document = json.loads(done.stdout)
    assert {row["host"]: row["health"] for row in document["hosts"]}["iad4/master"] == "down"
    assert done.returncode == exits.FAILED
    (site.hosts["n2"].folder / "no_sudo").touch()
    done = fleet("doctor", "--json", "--timeout", "500ms")
    found = {(row["subject"], row["check"]) for row in json.loads(done.stdout)["findings"]}
    assert ("iad4", "master_silent") in found
    assert ("iad4/n2", "login_sudo") in found
    assert done.returncode == exits.FAILED


FACTS = {"ok": True, "hostname": "h", "machine": "aarch64", "python": "3.11"}


@pytest.mark.parametrize(
    "lie",
    [
        {"disks": {"/": {"total_bytes": 10**400, "free_bytes": 1}}},
        {"disks": {"/": {"total_bytes": 1, "free_bytes": 10**400}}},
        {"memory_total_bytes": 1, "memory_available_bytes": 10**400},
        {"units": {"sanderling-edge": {"active": "x" * 100_000}}},
        {"disks": {f"/{i}": {"total_bytes": 1, "free_bytes": 0} for i in range(100_000)}},
    ],
    ids=["large disk", "much room", "much memory", "long word", "many disks"],
)
def test_the_facts_of_one_host_hide_no_other(site, fleet, lie):
    for name, host in site.hosts.items():
        facts = FACTS | lie if name == "n1" else FACTS
        (host.folder / "facts").write_text(json.dumps(facts) + "\n")
        host.program("sudo", '#!/bin/sh\ncat "$HOST/facts"; exec cat >/dev/null\n')
    done = fleet("status", "--json", "--timeout", "500ms")
    rows = {row["host"]: row["error"] for row in json.loads(done.stdout)["hosts"]}
    assert rows["iad4/n2"] is rows["iad4/n3"] is None
    assert rows["iad4/n1"].startswith(("the host wrote", "its facts cannot be read"))
    assert len(done.stdout) < 20_000


def test_wrong_usage_is_one_line_and_status_2(site, fleet):
    for arguments, says in (
        (["exec"], "Missing argument"),
        (["exec", "--json", "--group-output", "--", "true"], "exclude each other"),
        (["exec", "--limit", "iad4/m1", "--", "true"], "did you mean"),
        (["logs", "tail", "--since", "long ago"], "neither how long ago"),
        (["logs", "tail", "--unit", "a;b"], "no name of a unit"),
        (["reboot", "--serial", "0.5", "--yes"], "write 4 or 25%"),
        (["reboot", "--serial", "0", "--yes"], "write 1 or more"),
        (["deploy", "--serial", "0%", "--dry"], "write 1 or more"),
        (["reboot"], "give --yes"),
        (
            ["status", "--operator", "tcp://127.0.0.1:1", "--iad", "iad4"],
            "--operator is one master",
        ),
        (["status", "--key", "x"], "go with --operator"),
    ):
        done = fleet(*arguments)
        assert done.returncode == exits.USAGE, done.stderr
        assert says in done.stderr
        assert done.stdout == ""


class Endless:
    """A connection, and its channel, whose command writes faster than it is read."""

    def __init__(self) -> None:
        self.user, self.left = "root", 10_000
        self.eof_received = self.closed = False
        self._read, write = os.pipe()
        os.write(write, b"y")
        os.close(write)

    @property
    def transport(self):
        return self

    def open_session(self):
        return self

    def fileno(self):
        return self._read

    def recv_ready(self):
        return True

    recv_stderr_ready = exit_status_ready = recv_ready

    def recv(self, _most):
        self.left -= 1
        assert self.left, "it is read without end"
        return b"y\n"

    recv_stderr = recv

    def exec_command(self, _command): ...

    def shutdown_write(self): ...

    def close(self):
        os.close(self._read)


def test_a_host_that_writes_without_end_is_left_in_time(monkeypatch):
    endless = Endless()
    monkeypatch.setattr("fleet.inspect.remote.time.monotonic", lambda: 10_000.0 - endless.left)
    with pytest.raises(CommandTimeout):
        stream(endless, "yes", lambda _stream, _data: None, stop=threading.Event(), timeout_s=1.0)


def test_a_host_that_writes_without_end_is_left_when_the_operator_says_so():
    stop = threading.Event()
    with pytest.raises(Stopped):
        stream(Endless(), "yes", lambda _stream, _data: stop.set(), stop=stop)
