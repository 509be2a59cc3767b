"""What a clone computed stands in its device's history, and is not read back to it."""

from agent.clones.anchor import means_of, only, reading_of
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, TaskResult


def result(**values: float) -> TaskResult:
    channels = {name: ChannelAggregate(1, value, value, value) for name, value in values.items()}
    area = AreaResult("b1/f4/r1", aggregate=Aggregate(1, 2, channels))
    return TaskResult("t1", "complete", 1.0, (area,))


def test_only_the_sensors_channels_are_left():
    found = only(result(temperature=20.0, comfort=0.5), ("temperature", "humidity"))
    assert means_of(found) == {"b1/f4/r1": {"temperature": 20.0}}
    assert reading_of(found) == {"temperature": 20.0}


def test_without_any_there_is_no_reading():
    assert reading_of(only(result(comfort=0.5), ("temperature",))) == {}
