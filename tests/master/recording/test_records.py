"""Which records the log gets: all, but of what a sender is refused, and asks, only so much."""

from msgspec.structs import replace

from agent.master.recording.records import (
    AREA_BYTES_AT_ONCE,
    REFUSED_AT_ONCE,
    REFUSED_PER_S,
    Records,
)
from agent.runtime.reactor import Reactor
from agent.scheduling.events import WriteRecord
from agent.wire.master_config import MasterRecords
from agent.wire.records import decode_record
from tests.master.recording.test_record_log import record

REFUSED = replace(record(0), status="refused", reason="not_authorised", client="loud")


def test_what_a_sender_is_refused_without_end_leaves_room_for_other_records(tmp_path):
    now, heard = 100.0, []
    reactor = Reactor(lambda: now)
    records = Records(reactor, MasterRecords(), tmp_path)
    records.tell(lambda each, _now: heard.append(each))

    def logged():
        records.close()
        return sum(len(p.read_bytes().splitlines()) for p in tmp_path.glob("records/*.jsonl"))

    reactor.perform([WriteRecord(REFUSED)] * (REFUSED_AT_ONCE + 500))
    assert logged() == REFUSED_AT_ONCE
    others = [replace(REFUSED, client="quiet"), record(1)]
    reactor.perform([WriteRecord(each) for each in others])
    assert logged() == REFUSED_AT_ONCE + 2
    now += 1.0
    reactor.perform([WriteRecord(REFUSED)] * 500)
    assert logged() == REFUSED_AT_ONCE + 2 + REFUSED_PER_S
    assert len(heard) == REFUSED_AT_ONCE + 1_002


def test_records_of_a_client_that_asks_very_many_areas_soon_have_none(tmp_path):
    now, heard = 100.0, []
    reactor = Reactor(lambda: now)
    records = Records(reactor, MasterRecords(), tmp_path)
    records.tell(lambda each, _now: heard.append(each))
    areas = tuple(f"b1/{'x' * 508}" for _ in range(1_024))
    large = replace(record(0), areas=areas, client="loud")
    fit = AREA_BYTES_AT_ONCE // sum(map(len, areas))
    told = [*[large] * (fit + 3), replace(large, client="quiet"), record(1)]
    reactor.perform([WriteRecord(each) for each in told])
    records.close()
    lines = (tmp_path / "records" / "current.jsonl").read_bytes().splitlines()
    found = [decode_record(line).areas for line in lines]
    assert found == [*[areas] * fit, *[()] * 3, areas, ("b1",)]
    assert heard == told
