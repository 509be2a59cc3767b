"""What real processes export, and what they say when they cannot."""

import shutil
import socket
import subprocess
import sys

import pytest

from agent.metrics.directory_families import DRS
from agent.metrics.edge_families import EDGE
from agent.metrics.master_families import MASTER
from agent.wire.directory import ListAccounts
from fleet.testbed.ports import free_address
from tests.directory.rig import COMMAND, Asker
from tests.metrics.rig import MeasuredDrs, scrape, values

WITHOUT_LIBRARY = """
import sys
sys.modules["prometheus_client"] = None
from agent.{room}.main import main
sys.argv = ["sanderling-{agent}", "--config", sys.argv[1], "--check"]
main()
"""
MASTER_CONFIG = """
[iad]
name = "iad1"
[sockets]
public = "tcp://127.0.0.1:5700"
operator = "tcp://127.0.0.1:5702"
[metrics]
address = "127.0.0.1:9701"
"""
DRS_CONFIG = """
[sockets]
public = "tcp://127.0.0.1:5700"
[metrics]
address = "127.0.0.1:9701"
"""


@pytest.mark.parametrize(
    ("page", "declared"), [("master_page", MASTER), ("drs_page", DRS), ("edge_page", EDGE)]
)
def test_every_metric_is_there_as_declared(page, declared, request):
    text, families = request.getfixturevalue(page)
    ours = {name: family for name, family in families.items() if name.startswith("sanderling_")}
    assert set(ours) == {family.name for family in declared}
    for family in declared:
        shown = ours[family.name]
        assert (shown.type, shown.documentation) == (family.kind, family.meaning)
        assert f"# HELP {family.name} " in text
        assert f"# TYPE {family.name} {family.kind}" in text
        for sample in shown.samples:
            assert set(sample.labels) - {"le"} == set(family.labels)


@pytest.mark.parametrize("page", ["master_page", "drs_page", "edge_page"])
def test_promtool_has_nothing_to_say(page, request):
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    text, _ = request.getfixturevalue(page)
    run = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_what_a_master_counted(master_page):
    _, page = master_page
    assert values(page["sanderling_queries_total"]) == {
        ("1.1", "default", "complete"): 4,
        ("2", "default", "partial"): 1,
        ("none", "other", "refused"): 2,
    }
    assert values(page["sanderling_slo_misses_total"]) == {
        ("1.1", "default", "complete"): 0,
        ("2", "default", "partial"): 1,
    }
    assert values(page["sanderling_subtasks_total"]) == {("1.1", "ok"): 8, ("2", "ok"): 1}
    assert values(page["sanderling_refusals_total"])["query", "unknown_service"] == 2
    assert values(page["sanderling_malformed_frames_total"]) == {(): 1}
    stages = {
        (s.labels["label"], s.labels["stage"]): s.value
        for s in page["sanderling_stage_duration_seconds"].samples
        if s.name.endswith("_count")
    }
    assert stages["1.1", "execution"] == stages["1.1", "queueing"] == 8
    assert stages["1.1", "aggregation"] == stages["1.1", "query_evaluation"] == 4
    assert {stage for _, stage in stages} == {
        "query_evaluation", "task_evaluation", "queueing", "communication", "node_wait",
        "execution", "aggregation",
    }  # fmt: skip


def test_how_a_master_stands(master_page):
    _, page = master_page
    assert values(page["sanderling_node_up"]) == {("n1",): 1, ("n2",): 0}
    assert values(page["sanderling_nodes"]) == {("live",): 1, ("lost",): 0, ("left",): 1}
    assert values(page["sanderling_node_pods"]) == {("n1",): 1, ("n2",): 1}
    assert values(page["sanderling_node_pods_idle"]) == {("n1",): 1, ("n2",): 0}
    assert values(page["sanderling_queue_length"]) == {("n1",): 0, ("n2",): 0}
    assert values(page["sanderling_peer_up"]) == {("iad2",): 0}
    assert values(page["sanderling_iad_info"]) == {("iad1", "edfq"): 1}
    assert values(page["sanderling_open_queries"]) == {(): 0}


def test_what_a_registration_service_counted(drs_page):
    _, page = drs_page
    requests = {
        (s.labels["request"], s.labels["outcome"]): s.value
        for s in page["sanderling_directory_requests_total"].samples
    }
    assert requests == {
        ("register", "ok"): 1,
        ("open_account", "ok"): 1,
        ("discover", "ok"): 1,
        ("renew", "unknown"): 1,
    }
    assert values(page["sanderling_directory_accounts"]) == {("iad",): 1, ("csp",): 1}
    assert values(page["sanderling_directory_registrations"]) == {(): 1}
    assert values(page["sanderling_directory_primary_up"]) == {(): 1}
    assert values(page["sanderling_directory_copy_age_seconds"]) == {(): 0}


def test_a_mirror_tells_how_old_its_copy_is(tmp_path, context):
    mirror = MeasuredDrs(tmp_path, primary=free_address())
    try:
        denied = Asker(context, mirror.public).ask(ListAccounts("l"))
        assert denied.reason == "not_ready"
        _, page = scrape(mirror.metrics)
        [age] = values(page["sanderling_directory_copy_age_seconds"]).values()
        assert age > 0
    finally:
        assert mirror.stop() == (0, "")


def test_a_taken_address_ends_the_start_in_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = tmp_path / "drs.toml"
        text = DRS_CONFIG.replace("tcp://127.0.0.1:5700", free_address())
        config.write_text(text.replace("127.0.0.1:9701", address))
        run = subprocess.run(
            [COMMAND, "--config", config], capture_output=True, text=True, check=False
        )
    assert run.returncode == 1
    assert run.stderr == f"error: cannot serve metrics on {address}: Address already in use\n"


@pytest.mark.parametrize(
    ("agent", "text"), [("master", MASTER_CONFIG), ("drs", DRS_CONFIG)], ids=["master", "drs"]
)
def test_without_the_library_it_says_what_to_install(agent, text, tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text(text)
    command = [
        sys.executable,
        "-c",
        WITHOUT_LIBRARY.format(agent=agent, room={"drs": "directory"}.get(agent, agent)),
        config,
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == (
        f"error: {config}: metrics.address needs the Prometheus client: "
        "in a checkout, run pip install '.[metrics]', or leave metrics.address empty\n"
    )
    config.write_text(text.partition("[metrics]")[0])
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{config}: ok\n")
