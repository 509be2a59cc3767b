"""The commands that pages say to paste, and a terminal of 80 columns to paste them into."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from fcntl import ioctl
from pathlib import Path

import pytest

from fleet.testbed.ports import free_ports

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COLUMNS = 80
# A hung page ends here; no page takes a tenth of it.
PATIENCE_S = 300.0
COMMANDS = re.compile(
    r"(\$ )?([A-Z_]+=\S+ )?(\(?(apt|cat|cp|curl|echo|eval|export|fleet|install|journalctl|kill|make"
    r"|mkdir|python3|sanderling-\w+|ssh-\w+|sudo|systemctl|touch|umask|until)\b|\.venv/bin/)"
)
CALL = re.compile(
    r"(?:^|[\s(|&;])(?:\S*/)?"
    r"((?:fleet|sanderling-\w+) (?:'[^']*'|\"[^\"]*\"|[^'\"|&;>)])*)"
)
# What agents say is for the journal; then the probe, JSON, and the line about a failed command.
AGENTS = re.compile(r"sanderling-|gateway: |\d\d:\d\d:\d\dZ |\{|<\d")


ROOMS = ("use", "run", "understand", "papers")


def names() -> list[str]:
    return [
        "README.md",
        "docs/README.md",
        *sorted(
            str(path.relative_to(ROOT))
            for room in ROOMS
            for path in (ROOT / "docs" / room).glob("*.md")
        ),
    ]


def blocks(page: str) -> dict[str, list[str]]:
    """Section → what is set apart in it to be pasted: fenced, or indented by four."""
    found: dict[str, list[str]] = {}
    section = ""
    text = (ROOT / page).read_text("utf-8")
    parts = re.split(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    for number, part in enumerate(parts):
        if number % 3 == 2 and parts[number - 1] in ("", "sh"):
            found.setdefault(section, []).append(part)
        if number % 3 == 0:
            for piece in re.split(r"\n\n(?! {4})", part):
                if heading := re.findall(r"^#+ (.*)$", piece, re.MULTILINE):
                    section = heading[-1]
                for indented in re.findall(r"(?:^|\n\n)((?: {4}.*(?:\n|$)|\n(?= {4}))+)", piece):
                    found.setdefault(section, []).append(re.sub("(?m)^ {4}", "", indented))
    return {
        name: [typed(block) for block in wanted]
        for name, each in found.items()
        if (wanted := [block for block in each if COMMANDS.match(block)])
    }


def typed(block: str) -> str:
    """What is typed; where there are prompts, the rest is what came of it."""
    if not block.startswith("$ "):
        return block
    return "".join(f"{line}\n" for line in re.findall(r"(?m)^\$ ((?:.*\\\n)*.*)$", block))


def script(page: str, *sections: str) -> str:
    """The commands of some sections of a page, in its order."""
    found = blocks(page)
    return "\n".join(block for section in sections for block in found[section])


def calls(text: str) -> Iterator[str]:
    """Each call of `fleet` and of the agents in a script, with its continued lines."""
    for line in text.replace("\\\n", " ").splitlines():
        for found in CALL.finditer(re.sub(r"(^|\s)#.*", "", line)):
            yield found[1].strip()


def with_own_ports(text: str) -> str:
    """The same, where the inventory in it has ports for its master that are free."""
    names = ("public_port", "nodes_port", "operator_port")
    own = "".join(
        f"{name} = {port}\n" for name, port in zip(names, free_ports(len(names)), strict=True)
    )
    return re.sub(r"(?m)^(nodes_address = .*\n)", rf"\1{own}", text)


def pasted(
    text: str, folder: Path, patience_s: float = PATIENCE_S, environment: Mapping[str, str] = {}
) -> list[str]:
    """The lines that a terminal shows while bash runs a script. Each command that fails is told
    by a line ``<status> command``; what runs in the background is ended with it."""
    failed = "trap 'echo \"<$?> $BASH_COMMAND\"' ERR\n"
    # All that it began, in the background or not.
    end = "\ntrap - ERR; trap '' TERM; kill 0; wait\n"
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    shown = b""
    with closing(os.fdopen(master, "rb", buffering=0)) as terminal:
        shell = subprocess.Popen(
            ["bash", "-c", f"{failed}{text}{end}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={
                **os.environ,
                "PATH": f"{BIN}:{os.environ['PATH']}",
                "TERM": "dumb",
                "NO_COLOR": "1",
                **environment,
            },
        )
        os.close(slave)
        until = time.monotonic() + patience_s
        try:
            while select.select([terminal], [], [], max(0.0, until - time.monotonic()))[0]:
                try:
                    more = terminal.read(65_536)
                except OSError:  # nobody has the terminal open any more
                    break
                if not more:
                    break
                shown += more
            else:
                pytest.fail(f"it hangs after:\n{shown.decode()}")
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
            for agent in re.findall(rb"serves: kill (\d+) ends it", shown):
                _end(int(agent))
    return shown.decode().replace("\r", "").splitlines()


def _end(agent: int) -> None:
    """End an agent in the background, which has left the shell's group."""
    with suppress(ProcessLookupError):
        ended = os.pidfd_open(agent)
        with closing(os.fdopen(ended)):
            os.kill(agent, signal.SIGTERM)
            select.select([ended], [], [], PATIENCE_S)


def require_sound(lines: list[str], folder: Path, allowed: Mapping[str, int] = {}) -> None:
    """Every command ended with 0, or with the status that is allowed to those with such words; and
    nothing is wider than the terminal but what agents say, JSON, and lines with a path in `folder`,
    which are to be copied whole."""
    text = "\n".join(lines)
    for line in lines:
        if found := re.match(r"<(\d+)> (.*)", line):
            [status] = [status for part, status in allowed.items() if part in found[2]] or [0]
            assert int(found[1]) == status, text
    wide = [line for line in lines if len(line) > COLUMNS and str(folder) not in line]
    assert [line for line in wide if not AGENTS.match(line)] == [], text
