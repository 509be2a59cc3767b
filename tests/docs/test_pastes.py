"""What the pages say to paste works, pasted: in order, at once, on a terminal of 80 columns.

Each page with commands is run here, or in the test that is named for it, or it says why not. All
of them are parsed (test_command_lines.py).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec import Struct, structs

from agent.client import Operator
from agent.wire.messages import Slo
from agent.wire.operator import CreateService
from fleet.demo import alerts as demo_alerts
from fleet.query import running
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed.ports import free_ports
from fleet.testbed.testbed import Testbed
from tests.docs import pages
from tests.master.worker_rig import package

FIRST = "docs/use/first-fleet.md"


class Shell(Struct, frozen=True):
    """Sections that are pasted one after the other into one terminal."""

    sections: tuple[tuple[str, str], ...]
    shows: str
    # Words of commands that may end with a status other than 0, and which.
    allowed: Mapping[str, int] = {}
    # What a reader has by then.
    before: str = ""


WEBHOOKS = pages.ROOT / "docs/use/webhooks.md"
SHELLS = {
    "market": Shell(
        (("docs/use/market.md", "Set a service up"),),
        "complete: 2 of 2 areas",
        {"service create damp": 1},  # one of two areas, as it says
    ),
    "one's own sensor": Shell((("README.md", "Your own sensor"),), "complete: 1 of 1 areas"),
    "one node": Shell((("docs/run/by-hand.md", "Start and query them"),), "complete: 1 of 1 areas"),
    "keys": Shell((("docs/understand/trust.md", "Files"),), "complete: 1 of 1 areas"),
    "a serial sensor": Shell(
        (("docs/understand/edge.md", "Run one by hand"),), "complete: 1 of 1 areas"
    ),
    # What needs no image; all of it is pasted by tests/image.
    "a first fleet": Shell(
        (
            (FIRST, "2. What the fleet consists of"),
            (FIRST, "3. Keys"),
            (FIRST, "4. The master"),
            ("docs/run/deploy.md", "A master on your own machine"),
        ),
        "nothing to do: 1 host up to date",
    ),
    "an inventory": Shell((("docs/run/inventory.md", "Inventory"),), "8 nodes"),
    "a webhook": Shell(
        (("docs/use/webhooks.md", "Webhooks"),),
        "master.toml: ok",
        before="cp docs/examples/master.toml .\n"
        f"sed -n '/^.\\[webhook/,/^```/p' {WEBHOOKS} | grep -v '```' >> master.toml",
    ),
}
# What goes on until Ctrl-C is ended, or goes on beside the rest, as in another terminal.
ENDLESS = {
    r"(\.venv/bin/sanderling-probe .*)": r"timeout --preserve-status --signal INT 3 \1",
    r"(\.venv/bin/python \S+/pretend.py .*)": r"\1 &",
    r"sanderling-master --config masters/iad4/master.toml$": "",  # it runs already
    r"(fleet deploy --limit iad4/master)$": r"\1 --yes",  # nobody is there to be asked
}
# Asked of a demo that runs, in its reader's words; it is one fleet for all of them.
OF_A_DEMO = [
    ("README.md", "Ask"),
    ("README.md", "Subscribe"),
    ("README.md", "Watch"),
    ("README.md", "Set a service up"),
    ("README.md", "Process"),
    ("README.md", "Export"),
    ("docs/use/ask.md", "From a terminal"),
    ("docs/use/ask.md", "Into a file"),
    ("docs/use/demo.md", "Queries by hand"),
    ("docs/use/push.md", "Contents of an alert"),
    ("docs/understand/styles.md", "From a terminal"),
    ("docs/use/subscriptions.md", "From a terminal"),
    ("docs/use/subscriptions.md", "A limit of your own"),
    ("docs/use/topics.md", "From a terminal"),
    ("docs/use/clones.md", "From a terminal"),
    ("docs/use/processors.md", "Try it with the demo"),
]
BRIEF = {"watch": "--every 1s --rounds 1 --for 2s", "subscribe": "--count 1 --for 2s"}
# So that there are alerts all the time, of a node an IAD.
RISES, FALLS = "rate(humidity) > 0/min", "rate(humidity) < 0/min"

HOSTS = "needs hosts: tests/hosts, by make test-hosts as root"
IMAGES = "needs a card or QEMU: tests/image, by make test-image"
DEMO = "needs the demo itself: tests/fleet/demo/test_demo.py"
PAGE = "needs a page or a broker: tests/docs/test_pastes_gateway.py"
LAB = "takes minutes to hours: tests/lab run its parts"
SPARK = "needs a JVM: tests/fleet/spark, tests/fleet/spark_jobs and make test-long"
REASONS = {
    ("README.md", "Try it"): DEMO,
    ("README.md", "Report"): "needs a JVM: tests/docs/test_pastes_report.py",
    ("docs/README.md", "Run it"): HOSTS,
    ("docs/README.md", "Rerun the papers"): LAB,
    "docs/run/commands.md": "each command's synopsis: tests/fleet/cli/test_commands_conventions.py",
    ("docs/use/demo.md", "The demo"): DEMO,
    ("docs/use/ask.md", "From a device's clone"): "needs a device that sleeps: "
    "tests/master/clones/test_derived_process.py",
    ("docs/run/deploy.md", "Deploying"): HOSTS,
    "docs/understand/directory.md": "one foreground process, which the market's page starts, too",
    ("docs/run/gateway.md", "Start it"): PAGE,
    ("docs/run/gateway.md", "Tokens"): PAGE,
    ("docs/run/gateway.md", "The API"): "needs a fleet: tests/gateway/test_gateway_process.py",
    "docs/use/outputs.md": PAGE,
    FIRST: "the rest needs a card: tests/image/test_first_fleet.py pastes the page, to its end",
    "docs/run/flashing.md": IMAGES,
    "docs/understand/history.md": "needs a node that has run for a while: tests/edge",
    "docs/papers/homes.md": LAB,
    "docs/run/images.md": IMAGES,
    ("docs/run/inventory.md", "Clones of nodes"): "needs a node: tests/fleet/query/test_clone.py",
    "docs/run/keys.md": "rotates and revokes keys of hosts: tests/fleet/keys",
    "docs/run/lake.md": SPARK,
    "docs/run/logs.md": SPARK,
    "docs/understand/matching.md": "takes minutes: tests/core/test_matching.py runs what is quick",
    "docs/run/operations.md": HOSTS,
    "docs/papers/overlay-lab.md": LAB,
    "docs/run/placement.md": "needs three masters: tests/master/placement/",
    "docs/run/planning.md": LAB,
    ("docs/understand/placement.md", "Learn from real masters"): "takes an hour: "
    "tests/fleet/placement/campaign/test_campaign.py runs a short one",
    ("docs/understand/placement.md", "The loop from logs"): "a test of make test-long itself",
    "docs/understand/quality.md": LAB,
    "docs/run/releases.md": HOSTS,
    "docs/run/report.md": SPARK,
    "docs/use/sensors.md": "a template to be filled in: tests/sensors",
    "docs/papers/simulation.md": LAB,
    "docs/run/spark.md": SPARK,
    "docs/run/systemd.md": "needs root and systemd: tests/systemd",
    "docs/papers/testbed.md": LAB,
    "docs/papers/torture.md": "thousands of power cuts: make torture",
}


def test_every_page_with_commands_is_run_or_says_why_not():
    with_commands = {(page, section) for page in pages.names() for section in pages.blocks(page)}
    run = {*OF_A_DEMO, *(each for shell in SHELLS.values() for each in shell.sections)}
    unaccounted = {
        (page, section)
        for page, section in with_commands
        if not {(page, section), page} & (run | REASONS.keys())
    }
    assert unaccounted == set()
    named = {key if isinstance(key, tuple) else (key, "") for key in (*run, *REASONS)}
    there = with_commands | {(page, "") for page, _ in with_commands}
    assert named - there == set(), "listed, and has no commands any more"


def test_an_address_of_this_machine_is_one_of_what_the_section_starts():
    addressed = {
        (page, section)
        for page in pages.names()
        for section, scripts in pages.blocks(page).items()
        if re.search(r"--(master|operator) tcp://127\.0\.0\.1", text := "\n".join(scripts))
        and "sanderling-master" not in text
    }
    assert addressed == set(), "nobody listens there: leave it out, and the demo is asked"


def test_what_is_asked_of_a_demo_has_an_objective_that_it_keeps():
    """A demo that has served its load knows how slow its nodes are, and refuses what is stricter
    than its own widest question."""
    asked = [
        call
        for section in OF_A_DEMO
        for call in pages.calls(pages.script(*section))
        if re.match(r"fleet (query|watch) .*--service (temperature|humidity) ", call)
    ]
    assert asked
    assert [call for call in asked if " --slo p99=2s" not in call] == []
    # A topic's rounds have their interval as the objective.
    topics = [
        call
        for section in OF_A_DEMO
        for call in pages.calls(pages.script(*section))
        if re.match(r"fleet topic create .*--area b1 ", call)
    ]
    assert topics
    assert [call for call in topics if not re.search(r" --every [2-9]s ", call)] == []


@pytest.mark.parametrize("name", SHELLS)
def test_a_page_works_as_it_is_pasted(name, tmp_path):
    shell = SHELLS[name]
    for folder in ("docs/examples", "sensors/serial_line"):
        shutil.copytree(pages.ROOT / folder, tmp_path / folder)
    (tmp_path / ".venv").symlink_to(pages.ROOT / ".venv")
    configurations = list((tmp_path / "docs" / "examples").rglob("*.toml"))
    script = "\n".join([shell.before, *(pages.script(*each) for each in shell.sections)])
    for endless, brief in ENDLESS.items():
        script = re.sub(f"(?m)^{endless}", brief, script)
    texts = [script, *(path.read_text("utf-8") for path in configurations)]
    # Somebody's demo may run here.
    ports = sorted({port for text in texts for port in re.findall(r"127\.0\.0\.1:(\d+)", text)})
    free = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))

    def moved(text: str) -> str:
        return re.sub(r"(127\.0\.0\.1:)(\d+)", lambda found: found[1] + free[found[2]], text)

    for path in configurations:
        path.write_text(moved(path.read_text("utf-8")), "utf-8")
    # Nor is what runs here to be found: `fleet up` is ended by the page that begins it.
    own = {"XDG_RUNTIME_DIR": str(tmp_path / "runtime"), "CI": "1"}
    lines = pages.pasted(pages.with_own_ports(moved(script)), tmp_path, environment=own)
    pages.require_sound(lines, tmp_path, shell.allowed)
    assert shell.shows in "\n".join(lines), "\n".join(lines)


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Iterator[Mapping[str, str]]:
    """What finds a fleet as the demo's: its services and triggers, one of its nodes an IAD, and the
    example of a processor."""
    plan = part_of(building_fleet(emulate=False), 4, 1)
    trigger = structs.replace(demo_alerts.TRIGGER, condition=RISES, clear=FALLS)
    found = {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("runtime"))}
    example = (pages.ROOT / "docs/examples/processor/acme_mould.py").read_text("utf-8")
    installed = package(tmp_path_factory.mktemp("installed"), example, mould="acme:process")
    with (
        pytest.MonkeyPatch.context() as patch,
        Testbed(
            plan,
            tmp_path_factory.mktemp("demo"),
            market=True,
            overlay=demo_alerts.OVERLAY,
            triggers={iad.name: (trigger,) for iad in plan.iads},
        ) as bed,
    ):
        patch.setenv("PYTHONPATH", str(installed), prepend=os.pathsep)
        for _ in bed.start():
            pass
        with Operator(bed.operator("iad1")) as operator:
            for service in ("temperature", "humidity"):
                made = operator.ask_service(
                    CreateService(service, service, service, ("b1",), Slo(99.0, 2_000.0), 20.0)
                )
                assert made.ok, made.message
        patch.setenv("XDG_RUNTIME_DIR", found["XDG_RUNTIME_DIR"])
        with running.announced(
            tuple(
                running.Addresses(iad.name, bed.public(iad.name), bed.operator(iad.name))
                for iad in plan.iads
            )
        ):
            yield {**found, "master": bed.public("iad1")}


def test_the_program_of_the_readme_runs_as_it_stands(demo, tmp_path):
    text = (pages.ROOT / "README.md").read_text("utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert program.count("tcp://127.0.0.1:5700") == 1
    done = subprocess.run(
        [sys.executable, "-c", program.replace("tcp://127.0.0.1:5700", demo["master"])],
        capture_output=True,
        text=True,
        check=False,
        timeout=pages.PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(b1/f4/r\d+ (\d+\.\d+|nan)\n)+", done.stdout)


def test_what_is_asked_of_a_demo_is_answered_by_it(demo, tmp_path):
    (tmp_path / ".venv").symlink_to(pages.ROOT / ".venv")

    def answered(section: tuple[str, str]) -> list[str]:
        script = pages.script(*section)
        for command, end in BRIEF.items():
            script = re.sub(rf"(?m)^(\S*fleet {command} .*)", rf"\1 {end}", script)
        return pages.pasted(script, tmp_path, environment=demo)

    # Each command is half a second of work: more at a time would keep the fleet from answering.
    with ThreadPoolExecutor(2) as terminals:
        for lines in terminals.map(answered, OF_A_DEMO):
            pages.require_sound(lines, tmp_path)
            assert "asking the demo that runs here" in "\n".join(lines)
