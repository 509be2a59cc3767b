"""Programs over standard input, with this machine's shell in the place of sshd's."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from fleet.inspect.facts import gather
from fleet.inspect.facts.diagnosis import diagnose
from fleet.ssh import remote
from fleet.ssh.errors import HostError
from fleet.ssh.remote import packed, run_program


class Ended:
    """The event of a channel that its program's exit status has come."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait(self, timeout: float) -> bool:
        self._process.wait()
        return True


class Channel:
    """What run_program uses of a channel of paramiko."""

    @property
    def status_event(self) -> Any:
        return Ended(self._process)

    def settimeout(self, seconds: float) -> None: ...

    def exec_command(self, command: str) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe
        )

    def sendall(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def shutdown_write(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def recv(self, count: int) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.read1(count)  # type: ignore[attr-defined, no-any-return]

    def recv_stderr(self, count: int) -> bytes:
        assert self._process.stderr is not None
        return self._process.stderr.read1(count)  # type: ignore[attr-defined, no-any-return]

    def recv_exit_status(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._process.wait()


class Connection:
    """What run_program uses of a connection of Fabric."""

    def __init__(self, user: str = "root") -> None:
        self.user = user

    @property
    def transport(self) -> Any:
        return self

    def open_session(self, timeout: float) -> Channel:
        return Channel()

    def close(self) -> None: ...


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(remote, "PYTHON", sys.executable)
    return Connection()


def test_a_program_gets_its_request_and_data_and_answers(here: Any) -> None:
    source = (
        "import json, sys\n"
        "data = sys.stdin.buffer.read()\n"
        "print(json.dumps({'at': 'reading'}), json.dumps({'beat': True}), sep='\\n')\n"
        "print(json.dumps({'ok': True, 'size': len(data), 'word': REQUEST['word'],"
        " 'archive': len(ARCHIVE)}))\n"
        "print(json.dumps({'beat': True}))\n"
    )
    lines: list[Any] = []
    program = packed({"__main__.py": source})
    answer = run_program(
        here,
        {"word": "ü"},
        program=program,
        data=[b"x" * 70_000, b"y"],
        on_line=lines.append,
    )
    assert answer == {"ok": True, "size": 70_001, "word": "ü", "archive": len(program)}
    assert lines == [{"at": "reading"}]


def test_what_a_program_says_of_its_failure_comes_with_its_details(here: Any) -> None:
    source = 'print(\'{"error": "no room", "kind": "disk_full", "rolled_back": "1-a"}\')'
    with pytest.raises(HostError, match="no room") as caught:
        run_program(here, {}, program=packed({"__main__.py": source}))
    endless = 'print(\'{"error": "\' + "x" * 1_000_000 + \'", "kind": "failed"}\')'
    with pytest.raises(HostError) as long:
        run_program(here, {}, program=packed({"__main__.py": endless}))
    assert str(long.value) == "x" * remote.MAX_ERROR
    assert caught.value.kind == "disk_full"
    assert caught.value.details == {"rolled_back": "1-a"}


def test_what_a_host_says_can_be_written_and_shown(here: Any) -> None:
    source = r"""print('{"a": "\\ud800", "b": "\\ud83d\\ude00"}'); print('{"ok": true}')"""
    lines: list[Any] = []
    run_program(here, {}, program=packed({"__main__.py": source}), on_line=lines.append)
    assert lines == [{"a": "?", "b": "\U0001f600"}]
    source = r"""import sys; sys.stdout.buffer.write(b'{"a": "\xed\xa0\x80"}\n')"""
    with pytest.raises(HostError, match="the host wrote"):
        run_program(here, {}, program=packed({"__main__.py": source}))


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ("raise SystemExit('broken')", "failed", "the program there ended: broken"),
        ("print('hello')", "failed", "the host wrote 'hello'"),
        ("print('5')", "failed", "the host wrote '5'"),
        ("print('[' * 100_000)", "failed", "the host wrote"),
        ("print('[\"ok\"]')", "failed", "the host wrote"),
        ("print('{\"ok\": 1' + '0' * 400 + '}')", "failed", "the host wrote"),
        ("print('{\"ok\": -9223372036854775809}')", "failed", "the host wrote"),
        ("print('{\"ok\": 1e400}')", "failed", "the host wrote"),
        ("print('{\"ok\": NaN}')", "failed", "the host wrote"),
        ('print(\'{"error": 5, "self": 1, "kind": []}\')', "failed", "5"),
        ('print(\'{"error": "x", "kind": "none", "text": 1}\')', "failed", "x"),
        ("import sys; sys.exit(3)", "failed", "exit status 3"),
    ],
)
def test_a_program_without_an_answer_is_one_line(
    here: Any, source: str, kind: str, text: str
) -> None:
    with pytest.raises(HostError, match=text) as caught:
        run_program(here, {}, program=packed({"__main__.py": source}))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("said", "kind", "text"),
    [
        ("sudo: a password is required", "sudo", "fleet: sudo: a password is required"),
        ("bash: line 1: sudo: command not found", "sudo", "not installed"),
        ("sh: 1: sudo: not found", "sudo", "not installed"),
        ("sudo: /usr/bin/python3: command not found", "failed", "apt install python3"),
        ("bash: line 1: /usr/bin/python3: No such file or directory", "failed", "apt install"),
    ],
)
def test_what_a_shell_says_is_understood(said: str, kind: str, text: str) -> None:
    error = remote._failed(said, 1, "fleet")
    assert error.kind == kind
    assert text in str(error)


def test_an_end_that_never_comes_is_a_loss(here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the host vanishes between a program's last word and its exit status."""
    monkeypatch.setattr(Channel, "status_event", threading.Event())
    program = packed({"__main__.py": "print('{\"ok\": true}')"})
    with pytest.raises(HostError, match="not a word") as caught:
        run_program(here, {}, program=program, silence_s=0.1)
    assert caught.value.kind == "lost"


@pytest.mark.parametrize("said", ["print('{\"beat\": true}')", "print('{', end='')"])
def test_a_program_that_only_lives_is_a_loss(here: Any, said: str) -> None:
    program = packed({"__main__.py": f"import sys\nwhile True:\n  {said}\n  sys.stdout.flush()"})
    with pytest.raises(HostError, match=r"it was not done within 0\.1 s") as caught:
        run_program(here, {}, program=program, most_s=0.1)
    assert caught.value.kind == "lost"


@pytest.mark.parametrize("ask", [gather, partial(diagnose, units=[], connect=[])])
def test_a_host_that_trickles_its_facts_does_not_hold_up_a_command_for_an_hour(
    here: Any, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    for module in ("gather", "diagnosis"):
        monkeypatch.setattr(sys.modules[f"fleet.inspect.facts.{module}"], "MOST_S", 0.1)
    source = "import sys\nwhile True:\n  print('{', end='')\n  sys.stdout.flush()"
    monkeypatch.setattr(remote, "host_program", lambda: packed({"__main__.py": source}))
    monkeypatch.setattr(remote, "MAX_LINE", 1_000_000)
    with pytest.raises(HostError, match=r"it was not done within 0\.1 s"):
        ask(here)


def test_a_line_of_very_many_values_is_refused_unread(
    here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MAX_VALUES", 10)
    monkeypatch.setattr(remote, "_read", lambda line: pytest.fail("it was read"))
    program = packed({"__main__.py": "print('{\"ok\": true, \"x\": [' + '{},' * 20 + '0]}')"})
    with pytest.raises(HostError, match="more than 10 values in a line"):
        run_program(here, {}, program=program)


def test_the_probe_runs_anywhere(here: Any) -> None:
    facts = gather(here)
    assert facts.hostname
    assert facts.disks["/"].total_bytes
    assert facts.python == f"{sys.version_info.major}.{sys.version_info.minor}"
