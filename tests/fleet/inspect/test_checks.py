"""Findings: from what was seen of a host (data files) to what is wrong and what mends it."""

import re
from pathlib import Path

import pytest

from fleet.inspect import agent_checks
from fleet.inspect.agent_checks import agent_findings
from fleet.inspect.findings import Finding, in_order
from fleet.inspect.machine_checks import machine_findings
from tests.fleet.inspect.seen_data import CASES, case


@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name):
    seen, expected = case(name)
    found = [*agent_findings(seen), *machine_findings(seen)]
    assert sorted((f.severity, f.check) for f in found) == sorted((s, c) for s, c, _ in expected)
    for severity, check, part in expected:
        assert any(f.check == check and f.severity == severity and part in f.what for f in found)


@pytest.mark.parametrize("name", CASES)
def test_each_fault_names_its_host_and_a_remedy(name):
    seen, _ = case(name)
    for found in (*agent_findings(seen), *machine_findings(seen)):
        assert found.subject == "iad4/n3"
        told = {"not_live", "events_dropped", "login_failed"}
        assert found.remedy or found.check in told, found
        assert "\n" not in found.what + found.remedy


def test_every_check_is_documented_and_every_documented_one_exists():
    page = (Path(__file__).parents[3] / "docs/run/operations.md").read_text()
    table = page.partition("| check | what is wrong |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:] if line.startswith("|")]
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert {check for name in CASES for _, check, _ in case(name)[1]} <= documented
    folder = Path(agent_checks.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    kinds = {"key_changed", "key_unknown", "auth", "sudo", "disk_full", "failed"}
    for check in documented - {f"login_{kind}" for kind in kinds}:
        assert f'"{check}"' in source, check


def test_the_worst_comes_first_and_what_may_cause_others_before_them():
    rows = [
        Finding("note", "iad1", "x", ""),
        Finding("error", "iad1/n1", "z", ""),
        Finding("warning", "iad1/n1", "y", ""),
        Finding("warning", "iad2", "x", ""),
        Finding("error", "iad9", "x", ""),
        Finding("error", "keys", "x", ""),
    ]
    assert [(f.severity, f.subject) for f in in_order(rows)] == [
        ("error", "keys"),
        ("error", "iad9"),
        ("error", "iad1/n1"),
        ("warning", "iad2"),
        ("warning", "iad1/n1"),
        ("note", "iad1"),
    ]
