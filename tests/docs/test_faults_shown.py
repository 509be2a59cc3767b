"""What the page says of faults is so: its metrics and checks exist, its times are the code's."""

import re
from importlib import import_module
from typing import get_args

import pytest

from agent.metrics.directory_families import DRS
from agent.metrics.edge_families import EDGE
from agent.metrics.master_families import MASTER
from agent.wire.master_config import MasterLiveness
from lab.chaos.fault_plan import Kind
from tools.make_docs import DOCS

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (DOCS / "run/faults-shown.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| fault ")
]
CHECKS = set(
    re.findall(
        r"`(\w+)`", re.findall(r"\| `check` \|.*?\n\n|\| check \|.*?\n\n",
                               (DOCS / "run/operations.md").read_text(), re.DOTALL)[0]
    )
)  # fmt: skip
METRICS = {each.name for each in (*MASTER, *DRS, *EDGE)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_fault_shows_where_the_page_says(row):
    fault, shows, after = row
    assert fault
    assert after
    metrics = re.findall(r"`(sanderling_\w+)`", shows)
    assert set(metrics) <= METRICS
    checks = [
        check
        for part in re.findall(r"doctor: ((?:(?:at others )?`\w+`(?:, )?)+)", shows)
        for check in re.findall(r"`(\w+)`", part)
        if not check.startswith("sanderling_")
    ]
    assert set(checks) <= CHECKS
    assert metrics or checks or "journal" in shows or shows == "the same"


def test_times_are_those_of_the_code():
    text = " ".join(after for _, _, after in ROWS)
    found = re.findall(r"`(agent|fleet)\.([\w.]+)\.(\w+)` = ([\d.]+)", text)
    assert len(found) > 10
    for top, module, name, value in found:
        assert str(getattr(import_module(f"{top}.{module}"), name)) == value
    for name, value in re.findall(r"`liveness\.(\w+)` = ([\d.]+)", text):
        assert str(getattr(MasterLiveness(), name)) == value


def test_every_check_of_a_host_or_an_iad_that_faults_cause_is_on_the_page():
    shown = {check for _, shows, _ in ROWS for check in re.findall(r"`(\w+)`", shows)}
    for check in ("overlay_link", "records_lost", "notifications_given_up", "topic", "sensor"):
        assert check in shown


def test_every_fault_of_the_chaos_campaign_is_on_the_page():
    named = {name for fault, _, _ in ROWS for name in re.findall(r"`([\w ]+)`", fault)}
    assert named == {*get_args(Kind)}
