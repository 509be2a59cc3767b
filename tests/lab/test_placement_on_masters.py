"""The experiment on real masters: its campaign in virtual time, and what it writes."""

import csv

import pytest

from fleet.placement.campaign.cases import Load
from fleet.placement.campaign.scores import Score
from fleet.placement.campaign.stays import runs_of
from fleet.placement.training import train
from lab import provenance
from lab.placement.real.results import Campaign, write
from lab.placement.real.virtual import campaign


def test_messages_of_a_topic_go_one_at_a_time_also_where_a_core_is_free():
    """Of one topic at 0.8 of a core, the second core takes nothing; two halves have one each."""
    [[one, again]], [[half, _]] = (
        runs_of(campaign([case], 2, 60.0, seed=3), 0.9)
        for case in ((Load(20.0, 40.0),), (Load(20.0, 20.0), Load(20.0, 20.0)))
    )
    assert one.topics == again.topics
    assert one.topics[0].service_s == pytest.approx(0.02, rel=0.01)
    assert one.topics[0].rate == pytest.approx(40.0, rel=0.1)
    # M/D/1 at 0.8: nine tenths wait less than some 0.09 s; at 0.4, on two cores, about one message.
    assert 0.06 < one.latency_s[0] < 0.25
    assert max(half.latency_s) < 0.06


def test_the_page_has_a_table_for_each_campaign_and_the_simulated_broker_beside(tmp_path):
    stays = runs_of(campaign([(Load(10.0, 10.0 + n),) for n in range(12)], 2, 5.0, 1), 0.9)
    model = train([run for stay in stays for run in stay], "shared-queue", trees=False, serial=True)
    score = Score("ours", 1, 12, 0.9, 0.8, float("nan"))
    simulated = tmp_path / "accuracy.csv"
    simulated.write_text('model,k = 1\nours,"0.963 [0.946, 0.982]"\n')
    made = Campaign("one queue", model, stays, [score])
    data, page = write([made, made], provenance.now("x"), tmp_path / "out", simulated)
    text = page.read_text()
    assert "| ours | 0.90 [0.80, nan] |" in text
    assert "| simulated: ours | 0.963 [0.946, 0.982] |" in text
    with data.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 12
    assert {row["topics"] for row in rows} == {"1"}
