"""The local host: runs commands, reports to the operator, takes locks."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from fleet.on_host.places import JOURNAL

Json = dict[str, Any]

BEAT_S = 2.0
# Another of these programs may be about to notice that its operator is gone.
LOCK_S = 60.0
MAX_HOLDER = 200
COMMAND_S = 60.0


class Failure(Exception):
    """Ends the program with one line."""

    def __init__(self, text: str, kind: str = "failed", **more: object) -> None:
        super().__init__(text)
        self.kind = kind
        self.more = more


def kind_of(error: BaseException) -> str:
    if isinstance(error, Failure):
        return error.kind
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return "disk_full" if full else "failed"


class Host:
    """This host, or in tests a stand-in below `root`, whose commands are in `tools`."""

    def __init__(self, root: str, tools: str = "", by: str = "") -> None:
        """`by`: the operator on whose behalf the program runs, as others are told."""
        self.root = root.rstrip("/")
        self.tools = tools
        self.by = by
        self._printing = threading.Lock()

    def at(self, path: str) -> str:
        return self.root + path

    def say(self, **line: object) -> None:
        """Send a line to the operator. The operator may be gone: actions are completed all the
        same."""
        with self._printing, contextlib.suppress(OSError, ValueError):
            print(json.dumps(line), flush=True)

    def run(self, *command: str, timeout_s: float = COMMAND_S, **more: Any) -> str:
        """Run a command; returns its output. Failure with its last line if it fails."""
        program, *rest = command
        try:
            done = subprocess.run(
                [program if os.path.isabs(program) else self.tools + program, *rest],
                capture_output=True,
                # What an agent wrote into the journal is any bytes.
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
                check=False,
                **more,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(command)} takes more than {timeout_s:g} s") from None
        except FileNotFoundError:
            raise Failure(f"{program} is missing there") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failure(f"{' '.join(command)}: {said[-1] if said else done.returncode}")
        return str(done.stdout)

    @contextlib.contextmanager
    def lock(self, name: str = "lock", patience_s: float = LOCK_S) -> Iterator[None]:
        """Run one of these programs at a time. `files` is a separate lock for those that write
        files, so that keys can be written while a release is being uploaded. Failure, naming the
        operator who has the lock, after `patience_s`."""
        os.makedirs(self.at(JOURNAL), mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with open(os.open(self.at(f"{JOURNAL}/{name}"), flags, 0o600), "r+b", 0) as file:
            give_up = time.monotonic() + patience_s
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise Failure(f"{_holder(file)}; wait for its end") from None
                    time.sleep(0.2)
            _note(file, self.by)
            try:
                yield
            finally:
                _note(file, "")

    def beat(self) -> None:
        """Send lines while the program runs: the operator takes silence for a lost connection."""

        def go_on() -> None:
            while True:
                time.sleep(BEAT_S)
                self.say(beat=True)

        threading.Thread(target=go_on, daemon=True).start()


def _note(file: BinaryIO, text: str) -> None:
    """Write into a lock's file who has it; without room for that it is not told."""
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.seek(0)
        file.write(text.encode())


def _holder(file: BinaryIO) -> str:
    """What is under way, by the file of a lock that another process has."""
    try:
        name = os.pread(file.fileno(), MAX_HOLDER, 0).decode(errors="replace")
    except OSError:
        name = ""
    return f"{name} is deploying to it" if name else "another deployment is under way on it"
