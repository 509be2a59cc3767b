"""What the pages say to paste works, pasted: in order, at once, on a terminal of 80 columns.

Each page with commands is run here, or in the test that is named for it, or it says why not.
"""

import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from contextlib import closing
from fcntl import ioctl
from pathlib import Path

import pytest

from fleet.lab.ports import free_ports

ROOT = Path(__file__).parents[2]
COLUMNS = 80
# A hung page ends here; no page takes a tenth of it.
PATIENCE_S = 300.0
COMMANDS = r"(\$ )?(\(?(fleet|make|sudo|mkdir|apt|export|eval|cp|umask|python3)\b|\.venv/bin/)"

# (page, section) → its commands that may end with a status other than 0, and which.
PASTED = {
    ("README.md", "Set a service up"): {"service create damp": 1},  # one of two areas, as it says
    ("README.md", "Run it yourself"): {},
    ("docs/trust.md", "Files"): {},
}

TESTED = "tests/fleet/test_cli.py and the tests of its commands"
HOSTS = "needs hosts: tests/hosts, by make test-hosts as root"
IMAGES = "needs a card or QEMU: tests/image, by make test-image"
DEMO = "needs the demo running: tests/fleet/test_demo.py"
LAB = "takes minutes to hours: tests/fleet/test_lab_*.py run its parts"
SPARK = "needs a JVM: tests/fleet/spark, tests/fleet/pipeline and make test-long"
REASONS = {
    ("README.md", "Try it"): DEMO,
    ("README.md", "Ask"): DEMO,
    ("README.md", "Be told"): DEMO,
    ("README.md", "Learn from the logs"): SPARK,
    ("README.md", "Plan capacity"): "needs records: tests/fleet/test_plan_command.py",
    ("README.md", "Rerun the experiments"): LAB,
    ("README.md", "Run a fleet"): HOSTS,
    "docs/commands.md": "a synopsis of each command: tests/fleet/test_commands_conventions.py",
    "docs/demo.md": DEMO,
    "docs/deploy.md": HOSTS,
    "docs/directory.md": "one foreground process, which README's market starts, too",
    "docs/edge.md": "two terminals and Ctrl-C: tests/systemd and tests/edge run the agent so",
    "docs/first-fleet.md": IMAGES,
    "docs/flashing.md": IMAGES,
    "docs/history.md": "needs a node that has run for a while: tests/edge",
    "docs/images.md": IMAGES,
    "docs/inventory.md": TESTED,
    "docs/keys.md": "rotates and revokes keys of hosts: tests/fleet/keys",
    "docs/lake.md": SPARK,
    "docs/logs.md": SPARK,
    "docs/market.md": "one command, which README's market has, too",
    "docs/operations.md": HOSTS,
    "docs/overlay-lab.md": LAB,
    "docs/planning.md": LAB,
    "docs/push.md": "waits for an alert: tests/fleet/test_subscribe.py",
    "docs/quality.md": LAB,
    "docs/releases.md": HOSTS,
    "docs/report.md": SPARK,
    "docs/sensors.md": "a template to be filled in: tests/sensors",
    "docs/simulation.md": LAB,
    "docs/spark.md": SPARK,
    "docs/styles.md": "goes on until Ctrl-C: tests/fleet/test_watch.py",
    "docs/subscriptions.md": "goes on until Ctrl-C: tests/fleet/test_subscribe.py",
    "docs/systemd.md": "needs root and systemd: tests/systemd",
    "docs/testbed.md": LAB,
    "docs/torture.md": "thousands of power cuts: make torture",
    "docs/webhooks.md": "needs a receiver: tests/master/test_webhook_process.py",
}


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
        name: wanted
        for name, each in found.items()
        if (wanted := [block for block in each if re.match(COMMANDS, block)])
    }


def pages() -> list[str]:
    return ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def test_every_page_with_commands_is_run_or_says_why_not():
    with_commands = {(page, section) for page in pages() for section in blocks(page)}
    unaccounted = {
        (page, section)
        for page, section in with_commands
        if not {(page, section), page} & (PASTED.keys() | REASONS.keys())
    }
    assert unaccounted == set()
    named = {key if isinstance(key, tuple) else (key, "") for key in (*PASTED, *REASONS)}
    there = with_commands | {(page, "") for page, _ in with_commands}
    assert named - there == set(), "listed, and has no commands any more"


def test_an_address_of_this_machine_is_one_of_what_the_section_starts():
    addressed = {
        (page, section)
        for page in pages()
        for section, scripts in blocks(page).items()
        if re.search(r"--(master|operator) tcp://127\.0\.0\.1", text := "\n".join(scripts))
        and "sanderling-master" not in text
    }
    assert addressed == set(), "nobody listens there: leave it out, and the demo is asked"


def pasted(script: str, folder: Path) -> list[str]:
    """The lines that a terminal shows while bash runs `script`."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    shown = b""
    with closing(os.fdopen(master, "rb", buffering=0)) as terminal:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
        )
        os.close(slave)
        until = time.monotonic() + PATIENCE_S
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
    return shown.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize(("page", "section"), PASTED)
def test_a_page_works_as_it_is_pasted(page, section, tmp_path):
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    configurations = list((tmp_path / "docs" / "examples").rglob("*.toml"))
    script = "\n".join(blocks(page)[section])
    texts = [script, *(path.read_text("utf-8") for path in configurations)]
    # Somebody's demo may run here.
    ports = sorted({port for text in texts for port in re.findall(r"127\.0\.0\.1:(\d+)", text)})
    free = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))

    def moved(text: str) -> str:
        return re.sub(r"(127\.0\.0\.1:)(\d+)", lambda found: found[1] + free[found[2]], text)

    for path in configurations:
        path.write_text(moved(path.read_text("utf-8")), "utf-8")
    failed = "trap 'echo \"<$?> $BASH_COMMAND\"' ERR\n"
    # All that it began, in the background or not.
    end = "\ntrap - ERR; trap '' TERM; kill 0; wait\n"
    lines = pasted(f"{failed}{moved(script)}{end}", tmp_path)
    text = "\n".join(lines)
    allowed = PASTED[page, section]
    for line in lines:
        if found := re.match(r"<(\d+)> (.*)", line):
            [status] = [status for part, status in allowed.items() if part in found[2]] or [0]
            assert int(found[1]) == status, text
    assert "complete:" in text, text
    tables = [line for line in lines if not line.startswith(("sanderling-", "<"))]
    assert [line for line in tables if len(line) > COLUMNS] == [], text
