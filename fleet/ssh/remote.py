"""Runs a Python program as root on a host: sent on standard input, replies as lines of JSON.

It uses one channel and no file on the host: first an archive of the program's modules, then its
request, then any bytes that it reads. None of these appear in the host's process list. The program
is fleet/on_host; the same archive also runs as a file there.
"""

from __future__ import annotations

import io
import json
import math
import re
import shlex
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any, Final

import paramiko
from fabric import Connection

from fleet.ssh.deadline import begin, within
from fleet.ssh.errors import REMEDIES, HostError, Kind

PYTHON: Final = "/usr/bin/python3"
# Reads the lengths of archive and request, then runs the archive from a file in memory, with
# REQUEST and ARCHIVE (for a program that leaves itself on the host); the rest of standard input is
# left to it.
BOOT: Final = (
    "import json,os,sys,zipimport\n"
    "i=sys.stdin.buffer\n"
    "a,b=map(int,i.readline().split())\n"
    "s=i.read(a)\n"
    "p='/proc/self/fd/%d'%os.memfd_create('sanderling')\n"
    "with open(p,'wb') as f: f.write(s)\n"
    "sys.path.insert(0,p)\n"
    "exec(zipimport.zipimporter(p).get_code('__main__'),"
    "{'__name__':'__main__','ARCHIVE':s,'REQUEST':json.loads(i.read(b))})"
)
# The archive's __main__, from memory or from a file.
MAIN: Final = """from fleet.on_host.program import start

start(globals().get("REQUEST"), globals().get("ARCHIVE", b""))
"""
# Room for the facts of a host with many files; a host cannot fill this machine's memory.
MAX_LINE: Final = 16 << 20
# Of a line: each may take hundreds of bytes once it is read.
MAX_VALUES: Final = 1 << 19
# Of a number: larger ones are none of a host's, and cannot be computed with.
MAX_INTEGER: Final = 1 << 63
# Of the reason of a failure: it is one line on a terminal, and of the journal.
MAX_ERROR: Final = 2_000
MAX_STDERR: Final = 4_096
RECEIVE: Final = 65_536
# Long-running programs send a line regularly (`beat`): silence is a lost connection.
SILENCE_S: Final = 30.0
# A host that only lives must not hold a command for ever. What a slow host had not finished goes on
# with the next one.
MOST_S: Final = 3600.0

Answer = dict[str, Any]


def packed(files: Mapping[str, str]) -> bytes:
    """An archive that Python can run; equal files give equal bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def host_files() -> dict[str, str]:
    """The content of fleet/on_host's archive, by path."""
    folder = resources.files("fleet.on_host")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(".py"))
    modules = {f"fleet/on_host/{name}": folder.joinpath(name).read_text() for name in names}
    return {"__main__.py": MAIN, "fleet/__init__.py": "", **modules}


@cache
def host_program() -> bytes:
    """The archive of fleet/on_host."""
    return packed(host_files())


def run_program(
    connection: Connection,
    request: object,
    *,
    program: bytes | None = None,
    data: Iterable[bytes] = (),
    silence_s: float = SILENCE_S,
    most_s: float = MOST_S,
    on_line: Callable[[Answer], None] | None = None,
    on_beat: Callable[[], None] | None = None,
) -> Answer:
    """Run the program on the host; returns the last object that it prints. Earlier ones go to
    `on_line`.

    The program, an archive, sees `REQUEST`, and `data` on its standard input. It ends with an
    object that has `ok`, or `kind` and `error`, which become a HostError; so does silence of
    `silence_s` seconds, and a program that has not ended after `most_s`. `on_beat` is called with
    each sign of life that says nothing else.
    """
    late = f"it was not done within {most_s:g} s"
    with within(connection.transport, most_s, late):
        return _run(
            connection,
            request,
            program or host_program(),
            data,
            silence_s,
            most_s,
            on_line,
            on_beat,
        )


def _run(
    connection: Connection,
    request: object,
    program: bytes,
    data: Iterable[bytes],
    silence_s: float,
    most_s: float,
    on_line: Callable[[Answer], None] | None,
    on_beat: Callable[[], None] | None,
) -> Answer:
    channel = _start(connection, program, request, silence_s)
    try:
        _send(channel, data)
        with suppress(OSError):  # as in _send
            channel.shutdown_write()
        last: Answer | None = None
        for line in _lines(channel, most_s):
            if "beat" in line:
                if on_beat is not None:
                    on_beat()
                continue
            if last is not None and on_line is not None:
                on_line(last)
            last = line
        if not channel.status_event.wait(silence_s):
            raise TimeoutError
        status = channel.recv_exit_status()
        errors = _read_errors(channel)
    except TimeoutError:
        raise HostError("lost", f"not a word for {silence_s:g} s") from None
    finally:
        channel.close()
    if last is None or not (last.get("ok") or "error" in last):
        raise _failed(errors, status, connection.user)
    if "error" in last:
        details = {name: value for name, value in last.items() if name not in {"kind", "error"}}
        kind: Kind = next((kind for kind in REMEDIES if kind == last.get("kind")), "failed")
        raise HostError(kind, str(last["error"])[:MAX_ERROR], **details)
    return last


def _start(
    connection: Connection, program: bytes, request: object, silence_s: float
) -> paramiko.Channel:
    asked = json.dumps(request, separators=(",", ":")).encode()
    sudo = "" if connection.user == "root" else "sudo -n "
    channel: paramiko.Channel = connection.transport.open_session(timeout=silence_s)
    channel.settimeout(silence_s)
    begin(connection.transport, channel, f"{sudo}{PYTHON} -I -c {shlex.quote(BOOT)}", silence_s)
    _send(channel, [b"%d %d\n%b%b" % (len(program), len(asked), program, asked)])
    return channel


def _send(channel: paramiko.Channel, data: Iterable[bytes]) -> None:
    """Send all data, unless the other end stops reading: its output then gives the reason."""
    for piece in data:
        try:
            channel.sendall(piece)
        except TimeoutError:
            raise
        except OSError:
            return


def _lines(channel: paramiko.Channel, most_s: float) -> Iterator[Answer]:
    """The objects that the program prints; HostError for an invalid line, and after `most_s`."""
    rest = bytearray()  # grows in place: small pieces of a long line would be copied each time
    until_s = time.monotonic() + most_s
    while piece := channel.recv(RECEIVE):
        if time.monotonic() > until_s:
            raise HostError("lost", f"it was not done within {most_s:g} s")
        rest += piece
        if len(rest) > MAX_LINE:
            raise HostError("failed", f"the host wrote more than {MAX_LINE} bytes in one line")
        if b"\n" not in piece:
            continue
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in lines:
            if line.count(b",") > MAX_VALUES:
                raise HostError("failed", f"the host wrote more than {MAX_VALUES} values in a line")
            try:
                answer = _read(line)
            except (ValueError, RecursionError):
                answer = None
            if not isinstance(answer, dict):
                shown = line[:200].decode(errors="replace")
                raise HostError("failed", f"the host wrote {shown!r}")
            yield answer


def _read(line: bytes) -> Any:
    """The value of a line of JSON. ValueError, also for a number of more than 64 bits, or none;
    RecursionError.

    Half of a surrogate pair, which can be neither written nor shown, becomes a question mark.
    """
    value = json.loads(line.decode(), parse_int=_integer, parse_float=_real, parse_constant=_real)
    if b"\\u" in line:
        value = json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
    return value


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) > MAX_INTEGER:
        raise ValueError("a number of more than 64 bits")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number that is none")
    return number


def _read_errors(channel: paramiko.Channel) -> str:
    found = b""
    while len(found) < MAX_STDERR and (piece := channel.recv_stderr(MAX_STDERR)):
        found += piece
    return found.decode(errors="replace").strip()


def _failed(errors: str, status: int, user: str) -> HostError:
    """Why a program ended without an answer, from its standard error."""
    said = errors.splitlines()[-1] if errors else f"exit status {status}"
    if re.search(r"sudo: (command )?not found", errors):
        return HostError("sudo", "sudo is not installed there: log in as root, or install it")
    if PYTHON in errors and re.search("not found|No such file", errors):
        return HostError("failed", f"{PYTHON} is missing there: apt install python3")
    if "sudo:" in errors:
        return HostError("sudo", f"{user}: {said}")
    if status == -1:
        return HostError("lost", "the connection was lost")
    return HostError("failed", f"the program there ended: {said}")
