"""What is told of processor time at the end of a run of tests."""

from types import SimpleNamespace

import pytest

from tests.processor_time import PROPERTY, ProcessorTime


def report(nodeid, when="teardown", **more):
    return SimpleNamespace(nodeid=nodeid, when=when, user_properties=list(more.items()))


def summary(measured, durations):
    said = []
    measured.pytest_terminal_summary(
        SimpleNamespace(
            config=SimpleNamespace(option=SimpleNamespace(durations=durations)),
            section=said.append,
            write_line=said.append,
        )
    )
    return said


def test_files_are_told_with_their_sum_the_costliest_first():
    measured = ProcessorTime()
    for each in (
        report("a.py::one", **{PROPERTY: 1.0}),
        report("b.py::one", **{PROPERTY: 3.5}),
        report("b.py::one", when="call", **{PROPERTY: 9.0}),  # it is told again at the end
        report("a.py::two[x::y]", **{PROPERTY: 2.0}),
        report("c.py::its worker died"),
    ):
        measured.pytest_runtest_logreport(each)
    head, *lines = summary(measured, durations=2)
    assert head.startswith("processor time: 6 s")
    assert lines == ["    3.50s b.py", "    3.00s a.py"]
    assert summary(measured, durations=None) == []


def test_what_a_test_uses_is_in_its_report():
    item = SimpleNamespace(user_properties=[])
    measured = ProcessorTime()
    hook = measured.pytest_runtest_teardown(item)
    next(hook)
    sum(range(100_000))
    with pytest.raises(StopIteration, match="result"):
        hook.send("result")
    [(name, seconds)] = item.user_properties
    assert name == PROPERTY
    assert seconds >= 0.0
