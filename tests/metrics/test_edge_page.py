"""What a node's page says; that it is there as declared is tested with the other agents' pages."""

from __future__ import annotations

from agent.edge.metrics import written_bytes
from tests.metrics.rig import values

PREFIX = "sanderling_edge_"


def test_each_sensor_shows_how_it_fares(edge_page):
    page = {name.removeprefix(PREFIX): family for name, family in edge_page[1].items()}
    shown = values(page["sensor_values_total"])
    assert {key: count for key, count in shown.items() if count} == {
        ("temperature", "good", "replay"): 8,
        ("temperature", "spike", "replay"): 2,
        ("humidity", "good", "replay"): 10,
        ("duct_temperature", "no_response", "dht"): 10,
    }
    assert len(shown) == 3 * 7  # also what did not happen yet: rates begin at 0
    # The broken one has been silent since its start, and has no age.
    assert values(page["sensor_silence_seconds"]) == {("replay",): 2.0, ("dht",): 12.0}
    assert values(page["sensor_value_age_seconds"]) == {("replay",): 0.04}
    assert values(page["sensor_faults"]) == {("replay",): 0, ("dht",): 1}
    assert values(page["sensor_readings_missed_total"]) == {("replay",): 3, ("dht",): 0}
    assert values(page["sensor_helper_restarts_total"]) == {("replay",): 0, ("dht",): 2}


def test_the_rest_is_in_base_units(edge_page):
    page = {name.removeprefix(PREFIX): family for name, family in edge_page[1].items()}
    names = {
        "history_readings_stored_total": 10,
        "history_readings_given_up_total": 1,
        "events_waiting": 4,
        "events_dropped_total": 5,
        "link_joined": 1,
        "clock_synchronised": 0,
        "written_bytes_total": 4_096,
        "sanderling_malformed_frames_total": 6,
        "sanderling_messages_dropped_total": 7,
        "sanderling_key_expiry_timestamp_seconds": 1_800_000_000.0,
    }
    assert {name: values(page[name])[()] for name in names} == names
    sums = {
        (sample.labels["stage"], sample.labels["outcome"]): sample.value
        for sample in page["subtask_duration_seconds"].samples
        if sample.name.endswith("_sum")
    }
    assert sums == {
        ("node_wait", "ok"): 0.04e-3,
        ("node_wait", "error"): 0.04e-3,
        ("execution", "ok"): 3e-3,
        ("execution", "error"): 3e-3,
    }


def test_bytes_written_are_the_kernels(tmp_path):
    assert written_bytes(str(tmp_path / "none")) is None
    (tmp_path / "io").write_text("rchar: 1\nread_bytes: 2\nwrite_bytes: 3\ncancelled: 4\n")
    assert written_bytes(str(tmp_path / "io")) == 3
    # A kernel without the accounting of tasks has no such file.
    assert written_bytes() is None or written_bytes() >= 0
