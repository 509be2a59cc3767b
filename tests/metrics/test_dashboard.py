"""The Grafana dashboard asks for what the agents export, and for all of it that matters."""

import json
import re
from pathlib import Path

import pytest

BOARD = json.loads(
    (Path(__file__).parents[2] / "docs/grafana/sanderling.json").read_text(encoding="utf-8")
)
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in PANELS
    for target in panel["targets"]
]
# What Prometheus itself adds.
TARGET_LABELS = {"instance", "job"}
# What the master of these tests has no samples of: it has no market, no Kubernetes, no neighbours,
# no webhooks, no topics.
WITHOUT_SAMPLES = {
    "sanderling_registered": set(),
    "sanderling_key_expiry_timestamp_seconds": set(),
    "sanderling_watch_rounds_total": set(),
    "sanderling_watch_rounds_put_off_total": set(),
    "sanderling_pod_requests_failed_total": {"reason"},
    "sanderling_overlay_link_up": {"iad"},
    "sanderling_webhook_posts_total": {"outcome"},
    "sanderling_webhook_up": {"webhook"},
    "sanderling_topic_in_total": {"topic"},
    "sanderling_topic_out_total": {"topic"},
    "sanderling_topic_waiting": {"topic"},
    "sanderling_topic_late_total": {"topic"},
    "sanderling_topic_failures_total": {"topic"},
    "sanderling_topic_cpu_seconds_total": {"topic"},
    "sanderling_topic_latency_seconds": {"topic"},
}
SELECTOR = re.compile(r"\b((?:sanderling|process|python)_\w+|up\b)(?:\{([^}]*)\})?")


def exported(name, pages):
    """The labels that a series of that name has; None if there is none."""
    if name == "up":
        return TARGET_LABELS
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    family = pages.get(name) or pages.get(base)
    if family is None or (name != base) != (family.type == "histogram"):
        return None
    labels = {label for s in family.samples if s.name == name for label in s.labels}
    if not family.samples:
        labels = WITHOUT_SAMPLES[name]
    return labels | TARGET_LABELS


@pytest.mark.parametrize(
    ("title", "expression", "legend"), QUERIES, ids=[title for title, _, _ in QUERIES]
)
def test_a_panel_asks_for_what_there_is(title, expression, legend, pages):
    selected = SELECTOR.findall(expression)
    assert selected, expression
    there = set()
    for name, matchers in selected:
        labels = exported(name, pages)
        assert labels is not None, f"{title}: nobody exports {name}"
        asked = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", matchers))
        assert asked <= labels, f"{title}: {name} has no {asked - labels}"
        there |= labels
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        grouped = set(re.findall(r"\w+", group))
        assert grouped <= there, f"{title}: no {grouped - there}"
        there = grouped - {"le"}
    assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= there, f"{title}: {legend}"


def test_every_metric_of_ours_is_on_it(pages):
    text = " ".join(expression for _, expression, _ in QUERIES) + json.dumps(BOARD["templating"])
    ours = {name for name in pages if name.startswith("sanderling_")}
    missing = {name for name in ours if not re.search(rf"\b{name}(_bucket|_sum)?\b", text)}
    # Its histogram of durations tells as much.
    assert missing == {"sanderling_tasks_total"}


def test_variables_come_from_what_there_is(pages):
    variables = {v["name"]: v for v in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for name in ("instance", "label"):
        query = variables[name]["query"]["query"]
        [metric, label] = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()
        assert label in exported(metric, pages)
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD)))
    assert used - {"__rate_interval", "__range", "__all"} == set(variables)


def test_panels_stand_side_by_side_and_have_ids_of_their_own():
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells = set()
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in cells, panel["title"]
                cells.add((x, y))


def test_it_has_a_row_for_each_question():
    rows = [panel["title"] for panel in BOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "SLO attainment per class", "Latency per class", "Where the time goes",
        "Queueing deadlines", "Queues and pods per node", "Refusals", "Liveness",
        "Alerts", "Topics", "Registration service", "Edge nodes", "Processes",
    ]  # fmt: skip
