"""The operator's side: the `fleet` command as a process, and the master that runs beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from agent.client import Client, NoReplyError, Operator
from agent.wire.operator import IadStatus
from fleet.common import toml
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.model import Iad, Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.store import Store
from testkit.waiting import wait_until

BIN: Final = Path(sys.executable).parent
PATIENCE_S: Final = 600
LOOK_EVERY_S: Final = 0.02
STOP_S: Final = 15
ANSWER_MS: Final = 1_000.0


class Ended(NamedTuple):
    """What a command did."""

    command: str
    status: int
    out: str
    err: str
    seconds: float

    def told(self, *words: str) -> str:
        """The line on standard error with all of `words`; AssertionError unless there is one."""
        found = [line for line in self.err.splitlines() if all(word in line for word in words)]
        assert len(set(found)) == 1, (words, self)
        return found[0].strip()


class Running:
    """A command under way."""

    def __init__(self, command: list[str | Path], environment: dict[str, str]) -> None:
        self.command = " ".join(["fleet", *map(str, command[1:])])
        self._lines: dict[str, list[str]] = {"out": [], "err": []}
        self._news = threading.Condition()
        self._began_s = time.monotonic()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(name,)) for name in ("out", "err")
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def await_line(self, pattern: str, stream: Literal["out", "err"] = "err") -> str:
        """The first line that has it, once it is written."""

        def found() -> str | None:
            lines = (line for line in self._lines[stream] if re.search(pattern, line))
            return next(lines, None)

        with self._news:
            self._news.wait_for(lambda: found() or not self._readers_live(), PATIENCE_S)
            line = found()
        assert line is not None, (pattern, self._lines)
        return line

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(number)

    def wait(self) -> Ended:
        """How it ended."""
        try:
            status = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.command} hangs: {self._lines}") from None
        for reader in self._readers:
            reader.join()
        seconds = time.monotonic() - self._began_s
        out, err = ("".join(self._lines[name]) for name in ("out", "err"))
        return Ended(self.command, status, out, err, seconds)

    def kill(self) -> None:
        """End it if it has not ended."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join()

    def _read(self, name: Literal["out", "err"]) -> None:
        stream = self._process.stdout if name == "out" else self._process.stderr
        assert stream is not None
        with stream:
            for line in stream:
                with self._news:
                    self._lines[name].append(line)
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _readers_live(self) -> bool:
        return any(reader.is_alive() for reader in self._readers)


class Desk:
    """Where the operator of a fleet sits."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._masters: dict[str, subprocess.Popen[bytes]] = {}
        self._started: list[Running] = []

    @property
    def store(self) -> Store:
        """The fleet's keys."""
        return Store(self.folder)

    @property
    def inventory(self) -> Inventory:
        """The fleet's file as it is now."""
        return load(self.folder)

    @inventory.setter
    def inventory(self, inventory: Inventory) -> None:
        self.folder.inventory.write_text(toml.dump(inventory))

    def start(self, *arguments: str, program: Path = BIN / "fleet", **more: str) -> Running:
        """Start a `fleet` command; `more` are variables of its environment."""
        environment = {
            **os.environ, "SANDERLING_FLEET": str(self.folder.root), "NO_COLOR": "1", **more,
        }  # fmt: skip
        running = Running([program, *arguments], environment)
        self._started.append(running)
        return running

    def kill_commands(self) -> None:
        """End what `start` started and nobody waited for."""
        for running in self._started:
            running.kill()
        self._started.clear()

    def fleet(self, *arguments: str, **more: str) -> Ended:
        """Run a `fleet` command."""
        return self.start(*arguments, **more).wait()

    def start_master(self, iad: str) -> None:
        """Start the master of an IAD that runs on this machine, with the files that it has in the
        fleet's folder."""
        folder = self.folder.master(iad)
        with (folder / "output.log").open("ab") as log:
            self._masters[iad] = subprocess.Popen(
                [BIN / "sanderling-master", "--config", folder / "master.toml",
                 "--exit-on-stdin-eof"],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        await_(lambda: self.status(iad), f"the master of {iad}")

    def write_master(self, iad: str) -> None:
        """Write the files of a master that runs on this machine, where no command has."""
        fleet = self.inventory
        (found,) = (each for each in fleet.iad if each.name == iad)
        for file in files_of(fleet, HostOf(found, None), self.store):
            path = self.folder.master(iad) / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(file.mode)
            path.chmod(file.mode)
            path.write_bytes(file.content)

    def stop_masters(self) -> None:
        """Stop what `start_master` started."""
        for process in self._masters.values():
            try:
                process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        self._masters.clear()

    def client(self, iad: str) -> Client:
        """A client of an IAD's master, with the fleet's own key."""
        master = self._iad(iad).master
        keys = self.store.key_files("client", iad)
        return Client(f"tcp://{master.address}:{master.public_port}", keys)

    def status(self, iad: str) -> IadStatus | None:
        """What an IAD's master says of it; None where it says nothing."""
        master = self._iad(iad).master
        keys = self.store.key_files("operator", iad)
        try:
            with Operator(f"tcp://{master.address}:{master.operator_port}", keys) as operator:
                return operator.status(ANSWER_MS)
        except NoReplyError:
            return None

    def live(self, iad: str) -> dict[str, str]:
        """The release of each node that is live, by its name."""
        found = self.status(iad)
        nodes = found.nodes if found else ()
        return {node.node: node.version for node in nodes if node.state == "live"}

    def areas(self, iad: str) -> list[str]:
        """All areas of an IAD's nodes."""
        return sorted({area for node in self._iad(iad).node for area in node.areas})

    def _iad(self, name: str) -> Iad:
        (found,) = (each for each in self.inventory.iad if each.name == name)
        return found


def await_(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; AssertionError with `what` was waited for if it does not."""
    wait_until(condition, patience_s=patience_s, pause_s=LOOK_EVERY_S, what=f"for {what}:")
