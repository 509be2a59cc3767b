"""`fleet service`: what it prints where, and what it ends with."""

import io
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from agent.client import Operator
from agent.wire.market import Member, Service, Terms
from agent.wire.messages import Slo
from agent.wire.operator import CreateService, ServiceReport, Step
from fleet.query import service_screen
from fleet.query.service import Asker
from fleet.testbed.ports import free_ports
from fleet.testbed.processes import agent_command
from fleet.testbed.testbed import Testbed
from tests.fleet.conftest import ROWS, SMALL

TERMS = Terms(20.0, 99.498743710662, 800.0)
POOL = Service(
    "climate",
    "iad1",
    3,
    (
        Member("iad1", "tcp://127.0.0.1:5700", ("b1/r1", "b1/r2", "b1/r3", "b1/r4"), (), 20.0),
        Member("portal", "tcp://127.0.0.1:5710"),
    ),
    "temperature",
    TERMS,
    redundant=True,
)
CREATE = ("--capability", "temperature", "--area", "b1", "--slo", "p99=2s", "--rate", "2")


def fleet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*agent_command("fleet"), "service", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def shown(print_it, *what) -> list[str]:
    file = io.StringIO()
    print_it(Console(file=file, width=200, highlight=False), *what)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_report_is_a_table_of_steps_and_the_pool() -> None:
    steps = (
        Step("discover", "", "2 IADs offer temperature there"),
        Step("negotiate", "iad1", "accepted", TERMS),
    )
    report = ServiceReport("c", True, (POOL,), steps, ("b1/f9",), elapsed_ms=12.5)
    assert shown(service_screen.show_report, report) == [
        "step       IAD   asked                 outcome",
        "discover   –     –                     2 IADs offer temperature there",
        "negotiate  iad1  20/s, p99.5 ≤ 800 ms  accepted",
        "climate: temperature, owned by iad1, each IAD 20/s, p99.5 ≤ 800 ms, redundant",
        "IAD     tasks/s  areas                           address",
        "iad1    20       b1/r1, b1/r2, b1/r3 and 1 more  tcp://127.0.0.1:5700",
        "portal  –        only schedules                  tcp://127.0.0.1:5710",
        "serves 4 of 5 areas; nobody serves b1/f9",
        "done in 12 ms",
    ]


def test_a_list_is_a_row_a_service() -> None:
    assert shown(service_screen.show_list, (POOL,)) == [
        "service  owner  capability   IADs              terms",
        "climate  iad1   temperature  1 + 1 scheduling  20/s, p99.5 ≤ 800 ms",
    ]
    assert shown(service_screen.show_list, ()) == ["no services"]


def test_a_silent_master_is_one_line_and_status_4() -> None:
    [port] = free_ports(1)
    address = f"tcp://127.0.0.1:{port}"
    done = fleet("list", "--operator", address, "--timeout", "1ms")
    assert (done.returncode, done.stdout) == (4, "")
    assert address in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("create", "a b", *CREATE), "'a b' is not a name"),
        (("create", "x", *CREATE, "--rate", "0"), "0"),
        (("create", "x", *CREATE, "--slo", "800ms"), "write p99=500ms"),
        (("create", "x", *CREATE, "--relax", "0.5"), "0.5"),
        (("add", "x"), "Missing argument"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments: tuple[str, ...], says: str) -> None:
    done = fleet(*arguments, "--operator", "tcp://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_services_from_the_command_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Testbed(SMALL, tmp_path_factory.mktemp("services"), market=True, preload_rows=ROWS) as bed:
        for _ in bed.start():
            pass

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            return fleet(*arguments, "--operator", bed.operator("iad1"))

        done = run("create", "climate", *CREATE, "--only", "iad1")
        # Its areas are all asked; those of iad2, which is left out, nobody serves.
        assert (done.returncode, done.stderr) == (1, "")
        assert "nobody serves" in done.stdout
        assert "negotiate  iad1" in done.stdout
        assert "climate: temperature, owned by iad1" in done.stdout

        done = run("create", "climate", *CREATE)
        assert (done.returncode, done.stderr) == (
            3,
            "fleet: refused: the name climate is taken; choose another\n",
        )
        done = run("add", "climate", "iad2")
        assert done.returncode == 0
        assert "2 serve" in done.stdout
        done = run("show", "climate", "--json")
        assert done.stdout.startswith('{"type":"service_report"')
        assert "iad2" in done.stdout
        assert run("remove", "climate", "iad2").returncode == 0
        done = run("show", "else")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "fleet: no service else here; see fleet service list\n"
        done = run("drop", "climate")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (
            0,
            "service climate is dropped; it serves for ten more seconds",
        )
        assert run("list").stdout == "no services\n"


LONG = "facility-management-of-the-northern-campus"


@pytest.mark.parametrize("iad", ["north-campus-building-b1", LONG])
@pytest.mark.parametrize("terminal", [False, True])
def test_at_80_columns_nothing_is_cut(iad: str, terminal: bool) -> None:
    areas = tuple(f"b1/f4/r4{n:02}" for n in range(40))
    member = Member(iad, "tcp://master-1.building.example.org:5700", areas, (), 20.0)
    pool = replace(POOL, members=(member, POOL.members[1]))
    outcome = "countered: 12 tasks/s, p99.5 ≤ 900 ms would do; nothing else is free until then"
    report = ServiceReport("c", True, (pool,), (Step("negotiate", iad, outcome, TERMS),))
    file = io.StringIO()
    screen = Console(file=file, width=80, force_terminal=terminal, color_system=None)
    service_screen.show_report(screen, report)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in file.getvalue()
    # Columns of a table, read from top to bottom.
    text = "".join(line[: line.find("  ")] for line in lines if not line.startswith("climate"))
    if iad != LONG:
        assert sum(line.startswith(iad) for line in lines) == 1
        assert f"negotiate  {iad}  20/s, p99.5 ≤ 800 ms" in file.getvalue()
    else:
        assert iad in text.replace(" ", "")
    assert terminal or not any(line.endswith(" ") for line in lines)


def test_many_areas_that_nobody_serves_are_counted() -> None:
    report = ServiceReport("c", True, (POOL,), (), tuple(f"b2/r{n}" for n in range(40)))
    says = "serves 4 of 44 areas; nobody serves b2/r0, b2/r1, b2/r2 and 37 more"
    assert says in shown(service_screen.show_report, report)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, 0),
        ({"uncovered": ("b2",)}, 1),
        ({"ok": False, "uncovered": ("b2",), "message": "no"}, 3),
    ],
)
def test_a_service_for_a_part_of_what_was_asked_is_status_1(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], status: int, as_json: bool
) -> None:
    report = replace(ServiceReport("create", True, (POOL,)), **change)
    monkeypatch.setattr(Operator, "ask_service", lambda *_: report)
    ask = Asker("tcp://127.0.0.1:9", 1_000.0, as_json, None)
    request = CreateService("create", "climate", "temperature", ("b1",), Slo(99.0, 800.0), 2.0)
    assert ask.run(request) == status


def test_a_pool_without_schedulers_has_no_zero() -> None:
    alone = replace(POOL, members=POOL.members[:1])
    assert shown(service_screen.show_list, (alone,))[1].split()[3] == "1"
