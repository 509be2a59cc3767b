"""A master that writes, closes, drops and takes back, and pulls that are cut anywhere: what is not
in the landing had gone, and was counted."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from fleet.lake.schema.folder import Lake
from tests.examples import examples
from tests.fleet.lake.pull.masters import Master, landed, pull


class Pulls(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pulls-"))
        self.lake = Lake(self.folder / "lake")
        self.master = Master(self.folder / "iad1", keep_files=2)
        self.ever: set[bytes] = set()
        self.gone = 0  # files that went before all of their lines were taken
        self.counted = 0

    @rule(count=st.sampled_from([1, 10, 30, 70]), length=st.sampled_from([1, 30, 300]))
    def write(self, count: int, length: int) -> None:
        self.master.write(count, length)
        taken = set(landed(self.lake))
        self.gone += sum(not lines <= taken for lines in self.master.gone)
        self.ever |= self.master.lines.union(*self.master.gone)
        self.master.gone.clear()

    @rule()
    def restart(self) -> None:
        self.master.restart()

    @rule(
        count=st.integers(1, 8),
        half=st.booleans(),
        after=st.sampled_from([None, 3]),
        then=st.integers(0, 5),
    )
    def take_back(self, count: int, half: bool, after: int | None, then: int) -> None:
        """A disk that fills amid a batch; a pull comes before the batch is cut off."""
        self.write(1, 1)
        if not self.master.current.exists():
            return  # it was just closed
        size = self.master.current.stat().st_size
        refused = [b'{"refused":%d}' % number for number in range(count)]
        self.ever.update(refused)
        with self.master.current.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in refused) + b'{"half' * half)
        self.pull(after)
        os.truncate(self.master.current, size)
        self.write(then, 30)

    @rule(after=st.none() | st.integers(0, 30), segment_bytes=st.sampled_from([500, 2_000]))
    def pull_some(self, after: int | None, segment_bytes: int) -> None:
        self.pull(after, segment_bytes)

    @rule(max_bytes=st.integers(1, 9_000))
    def pull_bounded(self, max_bytes: int) -> None:
        counts, _ = pull(self.lake, self.master.config, max_bytes=max_bytes)
        self.counted += counts.expired_files

    def pull(self, after: int | None, segment_bytes: int = 1_000) -> None:
        counts, _ = pull(self.lake, self.master.config, after=after, segment_bytes=segment_bytes)
        self.counted += counts.expired_files

    @invariant()
    def nothing_is_torn(self) -> None:
        assert set(landed(self.lake)) <= self.ever

    def teardown(self) -> None:
        self.pull(None)
        assert self.master.lines <= set(landed(self.lake))
        assert self.counted == self.gone
        shutil.rmtree(self.folder)


TestPulls = Pulls.TestCase
TestPulls.settings = settings(max_examples=examples(50), stateful_step_count=15, deadline=None)
