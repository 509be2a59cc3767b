"""Runs README's commands in their order, as a reader types them; needs Python alone.

The demo stays up in one terminal until Ctrl-C, and the sections after it are typed in another one.
Each command has to end with 0; what goes on until Ctrl-C is given it once it has shown something.

Usage: python3 tools/follow_readme.py [--packages | --list]
  --packages  print the Debian packages that README asks for, with commas between them
  --list      print the commands, one a line
"""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

README: Final = Path("README.md")
DEMO: Final = "make demo"
DEMO_IS_UP: Final = "Its live page, for one browser"
# Typed where no demo runs: it starts a fleet of its own.
AFTER_THE_DEMO: Final = "Your own sensor"
ENDLESS: Final = re.compile(r"\S*fleet (watch|subscribe) ")
# A heading; a fence, which may be a program; or lines indented by four.
BLOCKS: Final = re.compile(r"^#+ (.*)$|^```(\w*)\n([\s\S]*?)^```$|((?:^ {4}.*\n)+)", re.MULTILINE)
# Not the report's Java, which saves its classes for the next report.
AGENT: Final = re.compile(r"/bin/sanderling-|agent\.master\.topics\.worker_process")
# The heading of a table, and its first row.
LINES_SHOWN: Final = 2
# A query is late where a machine is busy, and says so with its status.
TRIES: Final = {"query": 5}
INTERRUPTED: Final = 130
# Setting up compiles for minutes, and a pipeline is 640 MB to download.
PATIENCE_S: Final = 3_600.0
ENDING_S: Final = 20.0
LOOK_EVERY_S: Final = 0.1


def packages(text: str) -> list[str]:
    """Names of the packages that it asks for. ValueError if it names none."""
    found = re.search(r"^You need Linux with (.*?);", text, re.MULTILINE)
    if not found:
        raise ValueError("README names no packages")
    return re.split(r", | and ", re.sub(r" \(.*?\)", "", found[1]))


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Section and command, in order: lines indented by four, and Python programs."""
    section = ""
    for block in BLOCKS.finditer(text):
        heading, language, program, shell = block.groups()
        if heading:
            section = heading
        elif language == "python":
            yield section, f".venv/bin/python -c {shlex.quote(program)}"
        elif shell:
            joined = re.sub("(?m)^ {4}", "", shell).replace("\\\n", " ")
            yield from ((section, line) for line in joined.splitlines())


def main(arguments: list[str]) -> int:
    """Follow it; 1 where a command fails, with the reason on stderr."""
    text = README.read_text("utf-8")
    if arguments == ["--packages"]:
        print(",".join(packages(text)))
        return 0
    typed = [*commands(text)]
    if arguments == ["--list"]:
        print("\n".join(shlex.quote(command) for _, command in typed))
        return 0
    # A background job ignores Ctrl-C, and all that it starts; what is typed in a terminal does not.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    first, *rest = typed
    if first[1] != DEMO:
        stop(f"README begins with {first[1]}, not with {DEMO}")
    demo, terminal = start_demo()
    try:
        for _, command in (each for each in rest if each[0] != AFTER_THE_DEMO):
            follow(command)
        end_demo(demo, terminal)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(demo.pid, signal.SIGKILL)
    for _, command in (each for each in rest if each[0] == AFTER_THE_DEMO):
        follow(command)
    print(f"README: {len(typed)} commands ended well.", flush=True)
    return 0


def start_demo() -> tuple[subprocess.Popen[bytes], int]:
    """On a terminal of its own, until it is up."""
    print(f"$ {DEMO}", flush=True)
    terminal, inside = pty.openpty()
    demo = subprocess.Popen(
        shlex.split(DEMO), stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    )
    os.close(inside)
    shown = "".join(read(terminal, DEMO_IS_UP))
    if DEMO_IS_UP not in shown:
        stop(f"{DEMO} ended before it was up")
    return demo, terminal


def read(terminal: int, until: str = "") -> Iterator[str]:
    """What a terminal shows until these words, or its end; it is shown here, too."""
    end_s, last = time.monotonic() + PATIENCE_S, ""
    while not (until and until in last):
        if not select.select([terminal], [], [], max(0.0, end_s - time.monotonic()))[0]:
            stop("it hangs")
        try:
            more = os.read(terminal, 65_536)
        except OSError:  # nobody has it open any more
            return
        if not more:
            return
        piece = more.decode(errors="replace").replace("\r", "")
        print(piece, end="", flush=True)
        last = (last + piece)[-2_000:]
        yield piece


def end_demo(demo: subprocess.Popen[bytes], terminal: int) -> None:
    """Ctrl-C, after which no process of the demo is left."""
    print("^C", flush=True)
    os.killpg(demo.pid, signal.SIGINT)
    if "Traceback" in "".join(read(terminal)):
        stop(f"{DEMO} fails at Ctrl-C")
    demo.wait()
    os.close(terminal)
    # A worker of a master that was killed ends as soon as it has noticed.
    end_s = time.monotonic() + ENDING_S
    while left := [each for each in running() if AGENT.search(each) and str(Path.cwd()) in each]:
        if time.monotonic() > end_s:
            stop(f"processes of the demo are left: {'; '.join(left)}")
        time.sleep(LOOK_EVERY_S)


def running() -> Iterator[str]:
    """Command lines of all processes here."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            yield path.read_bytes().decode(errors="replace").replace("\0", " ").strip()


def follow(command: str) -> None:
    """Run it, and stop if it fails."""
    print(f"$ {command}", flush=True)
    if ENDLESS.match(command):
        return follow_until_shown(command)
    word = shlex.split(command)[1]
    for _ in range(TRIES.get(word, 1)):
        try:
            done = subprocess.run(
                shlex.split(command) if word == "-c" else ["bash", "-ec", command],
                stdin=subprocess.DEVNULL,
                check=False,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired:
            stop(f"it hangs: {command}")
        if done.returncode == 0:
            return None
    return stop(f"status {done.returncode}: {command}")


def follow_until_shown(command: str) -> None:
    """Run it until it has shown something, and end it by Ctrl-C."""
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for n, line in enumerate(process.stdout, 1):
        print(line, end="", flush=True)
        if n == LINES_SHOWN:
            break
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    if process.returncode not in (0, INTERRUPTED) or n < LINES_SHOWN:
        stop(f"status {process.returncode}: {command}")


def stop(why: str) -> NoReturn:
    """End with a reason."""
    sys.exit(f"follow_readme: {why}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
