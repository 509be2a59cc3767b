"""`fleet plan` as an operator runs it: the shipped example, what is printed, what is refused."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from fleet.common import extras
from fleet.plan.result import CapacityReport, PodsReport
from fleet.plan.screen import pods_text, rate_text, show
from fleet.simulation.policies import POLICIES, policy_name
from tests.fleet.plan.test_plan_inputs import records_of_a_task, written

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "plan"
SHIPPED = (str(EXAMPLE / "master.toml"), "--classes", str(EXAMPLE / "classes.toml"))
FAST = ("--queries", "2000", "--seeds", "2")

Plan = Callable[..., tuple[int, str, str]]


def report(text: str) -> CapacityReport:
    return msgspec.json.decode(text, type=CapacityReport)


def test_the_shipped_example_with_a_target_and_a_picture(plan: Plan, tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    arguments = (*SHIPPED, *FAST, "--target", "30", "--picture", str(picture))
    status, out, err = plan(*arguments, "--policy", "edfq", "--policy", "fifo")
    assert status == 0
    assert err == "Planning …\n"
    assert "3 IADs, 12 nodes, 12 pods" in out
    assert "keeps its SLO, queries/s (mean ± 95 % interval of 2 seeds)" in out
    assert "Pods for 30 queries/s (the fewest that a heuristic search found)" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("FIFO ", "EDFQ "))]
    assert [row[0] for row in rows[:4]] == ["FIFO", "EDFQ", "FIFO", "EDFQ"]
    assert "target 30/s" in picture.read_text("utf-8")


def test_at_80_columns_nothing_is_cut(plan: Plan) -> None:
    found = report(plan(*SHIPPED, *FAST, "--target", "30", "--json")[1])
    file = io.StringIO()
    show(found, Console(file=file, width=80, force_terminal=True, color_system=None))
    assert max(map(len, file.getvalue().splitlines())) <= 80
    assert "…" not in file.getvalue()
    words = file.getvalue().split()
    for each in found.policies:
        assert policy_name(each.policy) in file.getvalue()
        rate, *_ = rate_text(each.highest).split()
        assert rate in words
        assert each.highest.busiest in words


def test_json_has_everything(plan: Plan) -> None:
    status, out, _ = plan(*SHIPPED, *FAST, "--target", "30", "--json")
    found = report(out)
    assert status == 0
    assert [each.policy for each in found.policies] == list(POLICIES)
    assert [each.policy for each in found.plans] == list(POLICIES)
    assert [each.policy for each in found.curves] == list(POLICIES)
    assert [kind.name for kind in found.classes] == ["frost alarm", "dashboard", "survey"]
    assert set(found.pods["orchard"].values()) == {1}
    assert found.seeds == (1, 2)
    for each in found.plans:
        assert each.kept
        assert each.total == sum(n for nodes in each.pods.values() for n in nodes.values())
        assert each.more == each.total - 12
        assert max(n for nodes in each.pods.values() for n in nodes.values()) <= 4


def test_the_same_seed_gives_the_same_plan(plan: Plan) -> None:
    first = plan(*SHIPPED, *FAST, "--json", "--policy", "edfq", "--seed", "7")
    assert first == plan(*SHIPPED, *FAST, "--json", "--policy", "edfq", "--seed", "7")
    assert report(first[1]).seeds == (7, 8)


def test_more_pods_sustain_more(plan: Plan) -> None:
    one, two = (
        report(plan(*SHIPPED, *FAST, "--policy", "fifo", "--json", "--pods", pods)[1])
        for pods in ("1", "2")
    )
    assert two.policies[0].highest.rate_per_s > 2 * one.policies[0].highest.rate_per_s


def test_the_building_and_table_ii_without_arguments(plan: Plan) -> None:
    status, out, _ = plan(*FAST, "--policy", "spr")
    assert status == 0
    assert out.startswith("the shipped building: 4 IADs, 32 nodes, 32 pods\n")
    assert "(profile pi3-boxed): 4 nodes." in out
    assert "Classes: those of DSSP's testbed (Table II)" in out
    assert "rests on some 2 queries of a run" in out


def test_records_name_and_measure_the_nodes(plan: Plan, tmp_path: Path) -> None:
    times_ms = [11.0 + n for n in range(100)]
    records = [
        record for n, ms in enumerate(times_ms) for record in records_of_a_task(n, [ms, ms, ms])
    ]
    config = (EXAMPLE / "master.toml").read_text("utf-8").replace("greenhouses", "iad2")
    (tmp_path / "master.toml").write_text(config)
    folder = str(written(tmp_path / "records", records))
    status, out, _ = plan(
        *(str(tmp_path / "master.toml"), "--records", folder, "--mean-ms", "40", "--sigma", "0.5"),
        *(*FAST, "--policy", "fifo", "--json"),
    )
    assert status == 0
    found = report(out)
    assert list(found.pods["iad2"]) == ["n1", "n2", "n3"]
    assert found.unloaded_mean_ms["iad2"]["n1"] == pytest.approx(50.5, rel=0.03)
    assert found.unloaded_mean_ms["barns"]["farm/barn/hay"] == pytest.approx(42.87, rel=0.01)
    assert found.overheads_ms == pytest.approx(1 + 2 + 8 + 3)
    assert "measured at 3 of 11 nodes (300 subtasks in the records)" in " ".join(found.assumptions)


def test_records_of_other_iads_are_refused(plan: Plan, tmp_path: Path) -> None:
    folder = str(written(tmp_path, records_of_a_task(1, [20.0])))
    status, _, err = plan(*SHIPPED, "--records", folder)
    assert (status, err) == (
        2,
        "fleet: the records are of iad2, no IAD of the fleet is among them\n",
    )


def test_an_slo_that_an_idle_fleet_misses_is_told(plan: Plan) -> None:
    status, out, _ = plan(*SHIPPED, *FAST, "--policy", "edfq", "--mean-ms", "200", "--target", "1")
    assert status == 1
    assert "Careful: class frost alarm cannot keep its SLO even on an idle fleet" in out
    assert "not sustained" in out
    assert "EDFQ: class frost alarm misses its SLO on an idle fleet." in out
    [row] = [line for line in out.splitlines() if line.startswith("EDFQ ") and "none" in line]
    assert "frost alarm" in row


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["nowhere.toml"], "nowhere.toml: No such file"),
        (["--classes", "nowhere.toml"], "nowhere.toml: No such file"),
        (["--pods", "12"], "--pods 12: write a number from 1 to 8"),
        (["--policy", "lifo"], "'lifo' is not a policy; write fifo, spr"),
        (["--profile", "pi9"], "'pi9' is not a profile; write pi4,"),
        (["--picture", "plan.txt"], "'plan.txt' is no picture; write a file that ends in .svg"),
        (["--picture", "nowhere/plan.svg"], "there is no folder nowhere"),
        (["--target", "0"], "Invalid value for '--target'"),
        (["--target", "nan"], "nan is no number"),
        (["--mean-ms", "nan"], "nan is no number"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--lake", "nowhere"], "--lake goes with --placement"),
        (["--placement", "--target", "4"], "--target does not go with --placement"),
        (["--placement", str(EXAMPLE / "master.toml")], "CONFIG does not go with --placement"),
        (["--seed", "18446744073709551616"], "Invalid value for '--seed'"),
    ],
)
def test_wrong_usage_is_one_line(plan: Plan, arguments: list[str], why: str) -> None:
    status, out, err = plan(*arguments)
    assert (status, out) == (2, "")
    assert why in err
    assert len(err.splitlines()) == 1


def test_names_are_printed_as_they_are(plan: Plan, tmp_path: Path) -> None:
    text = (EXAMPLE / "classes.toml").read_text("utf-8").replace("dashboard", "[/x] [red]")
    (tmp_path / "classes.toml").write_text(text, "utf-8")
    status, out, _ = plan(SHIPPED[0], "--classes", str(tmp_path / "classes.toml"), *FAST)
    assert status == 0
    assert out.count("[/x] [red]") >= 2


def test_the_building_may_be_planned_on_other_hardware(plan: Plan) -> None:
    _, out, _ = plan(*FAST, "--policy", "fifo", "--mean-ms", "20", "--sigma", "0.5")
    assert "pods assumed lognormal with mean 20 ms, σ 0.5: 32 nodes." in out
    _, out, _ = plan(*FAST, "--policy", "fifo", "--profile", "pi4")
    assert "(profile pi4): 32 nodes." in out


def test_the_slowest_target_and_hardware_are_planned(plan: Plan) -> None:
    slow = ("--mean-ms", "600000", "--sigma", "3", "--target", "0.001")
    status, out, _ = plan(*SHIPPED, *FAST, "--policy", "fifo", *slow)
    assert status == 1
    assert "misses its SLO on an idle fleet" in out


def test_records_without_an_answered_subtask_are_refused(plan: Plan, tmp_path: Path) -> None:
    folder = str(written(tmp_path, records_of_a_task(1, [20.0])[1:], b"{\n"))
    status, _, err = plan(*SHIPPED, "--records", folder)
    assert (status, err) == (
        2,
        "fleet: no subtask in the records was answered (1 unreadable line)\n",
    )


def test_fewer_queries_than_asked_for_are_told(plan: Plan) -> None:
    arguments = (*SHIPPED, "--seeds", "1", "--policy", "fifo", "--queries", "1000000")
    _, out, _ = plan(*arguments)
    assert re.search(r"Careful: a run has \d{3},\d{3} queries, not 1,000,000: no more than", out)


def test_a_class_that_is_too_rare_is_told(plan: Plan, tmp_path: Path) -> None:
    text = (EXAMPLE / "classes.toml").read_text("utf-8")
    text = text.replace("share = 0.1", "share = 0.000001").replace(
        "share = 0.4", "share = 0.499999"
    )
    (tmp_path / "classes.toml").write_text(text)
    status, _, err = plan(SHIPPED[0], "--classes", str(tmp_path / "classes.toml"), *FAST)
    assert status == 2
    assert "class survey is too rare" in err
    assert "its share must be 0.01 at least" in err


def test_a_missing_library_is_told(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    status, _, err = plan("--quick")
    assert status == 2
    assert err.startswith("fleet: numpy, scipy are missing; `make pipeline` installs ")


# --- words ----------------------------------------------------------------------------------------


def test_iads_of_equal_pods_are_told_together(plan: Plan) -> None:
    _, out, _ = plan(*SHIPPED, *FAST, "--policy", "edfq", "--target", "5", "--json")
    [planned] = report(out).plans
    alike = {f"i{n}": {"a": 1, "b": 1} for n in range(6)} | {"hot": {"a": 2, "b": 2, "c": 1}}
    changed = msgspec.structs.replace(planned, pods=alike)
    assert isinstance(changed, PodsReport)
    assert pods_text(changed) == "i0 … i5 (6 IADs): 2 × 1; hot: 2 × 2, 1 × 1"


@pytest.mark.parametrize(
    ("rate", "half", "text"),
    [
        (0.0, 0.0, "none"),
        (2.345, None, "2.35"),
        (17.04, 0.5, "17.0 ± 0.5"),
        (4_321.0, 12.0, "4,321 ± 12"),
    ],
)
def test_rates_have_the_digits_that_matter(
    plan: Plan, rate: float, half: float | None, text: str
) -> None:
    found = report(plan(*SHIPPED, *FAST, "--policy", "fifo", "--json")[1]).policies[0].highest
    assert rate_text(msgspec.structs.replace(found, rate_per_s=rate, half_width=half)) == text
