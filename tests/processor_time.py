"""Which files cost most processor time: told at the end of a run with --durations.

What a test started counts where it had ended; a process that several files share, such as the JVM,
counts for whichever file saw its end.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

PROPERTY: Final = "processor_s"


class ProcessorTime:
    """Measures in each worker; adds up where the reports come together."""

    def __init__(self) -> None:
        self._until_s = _used_s()
        self._of: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            before_s, self._until_s = self._until_s, _used_s()
            item.user_properties.append((PROPERTY, self._until_s - before_s))

    def pytest_collection_finish(self) -> None:
        self._until_s = _used_s()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            file, _, _ = report.nodeid.partition("::")
            self._of[file] += dict(report.user_properties).get(PROPERTY, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if count := terminalreporter.config.option.durations:
            whole_s = sum(self._of.values())
            terminalreporter.section(f"processor time: {whole_s:.0f} s, by file")
            for file, seconds in self._of.most_common(count):
                terminalreporter.write_line(f"{seconds:8.2f}s {file}")


def _used_s() -> float:
    """By this process and by those that it started and that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
