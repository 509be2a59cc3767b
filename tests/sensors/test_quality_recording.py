"""The checks on the real building: every labelled fault is found, healthy rooms stay quiet."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from lab.quality import campaign
from lab.quality.recordings import LABELS, STEP_S, labels, read, shipped
from tools import label_building_faults

RECORDING = os.environ.get("SANDERLING_BUILDING_CLIMATE", "")
whole_recording = pytest.mark.skipif(
    not RECORDING,
    reason="SANDERLING_BUILDING_CLIMATE does not name the building's recording",
)


@pytest.fixture(scope="module")
def recording():
    return shipped()


@pytest.fixture(scope="module")
def known():
    return labels(LABELS)


@pytest.fixture(scope="module")
def real(recording, known):
    return campaign.real(recording, known)


def test_the_repository_has_every_room_with_a_fault_of_temperature_or_humidity(recording, known):
    assert len(recording.rooms) == 37
    wanted = {label.room for label in known if label.channel in {"temperature", "humidity"}}
    hole = Counter(label.start_s for label in known if label.kind == "gap").most_common(1)[0][0]
    wanted |= {
        label.room
        for label in known
        if label.kind == "gap" and abs(label.start_s - hole) > 10 * STEP_S
    }
    assert wanted <= set(recording.rooms)


def test_every_labelled_fault_is_found(real):
    assert real.missed == []
    counts = Counter((trial.channel, trial.kind) for trial in real.trials)
    assert counts == {
        ("all", "gap"): 48,
        ("temperature", "broken"): 1,
        ("temperature", "spike"): 10,
        ("humidity", "spike"): 1,
    }
    assert all(trial.delay_s is not None for trial in real.trials)


def test_spikes_are_told_at_once_and_gaps_within_minutes(real):
    for trial in real.trials:
        assert trial.delay_s <= {"spike": 0.0, "broken": 60.0, "gap": 180.0}[trial.kind], trial


def test_healthy_rooms_have_less_than_one_false_alarm_a_room_and_week(real):
    assert real.healthy.weeks > 20
    assert len(real.healthy.told) < real.healthy.weeks
    assert len(real.alarms.told) < real.alarms.weeks


def test_injected_faults_are_found_by_their_size(recording, known):
    """One room of each floor; the bounds hold for any seed, the sizes being far from the limits."""
    sound = campaign.healthy(recording, known)
    rooms = {room[0]: room for room in sound}.values()
    result = campaign.Result.of(
        campaign.inject(piece)
        for piece in campaign.pieces(recording, list(rooms), 1, seed=7)
        if piece.mode == "short"
    )
    found, n = Counter(), Counter()
    for trial in result.trials:
        key = trial.channel, trial.kind, trial.size
        n[key] += 1
        found[key] += trial.delay_s is not None
    surely = [
        *[("temperature", "spike", size) for size in ("3", "5", "10", "20")],
        *[("humidity", "spike", size) for size in ("15", "20", "30")],
        *[(channel, "gap", size) for channel in recording.series for size in ("5 min", "120 min")],
        *[key for key in n if key[1] == "sentinel"],
    ]
    for key in surely:
        assert n[key] > 0, key
        assert found[key] == n[key], key
    for key in (("temperature", "spike", "1"), ("humidity", "spike", "5")):
        assert found[key] == 0 < n[key]
    assert len(result.alarms.told) < result.alarms.weeks


@whole_recording
def test_the_list_of_faults_is_what_its_rules_make_of_the_recording():
    whole = label_building_faults.read(Path(RECORDING))
    faults, _ = label_building_faults.label(whole)
    assert label_building_faults.table(whole, faults) == LABELS.read_text("ascii")
    others = LABELS.with_name("other_rooms.csv.gz").read_bytes()
    assert label_building_faults.other_rooms(whole, faults) == others


@whole_recording
def test_every_labelled_fault_of_all_rooms_and_channels_is_found(known):
    found = campaign.real(read([Path(RECORDING)]), known)
    assert found.missed == []
    assert len(found.trials) == len(known) == 75
    assert len(found.healthy.told) < found.healthy.weeks
    assert len(found.alarms.told) < found.alarms.weeks
