"""Power cuts of a script: played once under the recorder, cut at many points.

An image is a function of the script's seed and the image's number: the moment of the cut, the rules
of the disk, what survives of unsynced changes, and all that the player draws at random.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from testkit.damage import HISTORY
from tests.torture import recording
from tests.torture.disk import Disk, Rules, Survival, drawn
from tests.torture.judge import Truth, judge
from tests.torture.recording import CLOSE, MARK, OPEN, SYNC, Control, Operation
from tests.torture.script import Script, script

ROOT: Final = Path(__file__).parents[2]
RULES: Final[tuple[Rules, ...]] = ("strict", "ordered")
PLAY_S: Final = 120.0


class Cut(NamedTuple):
    """How an image is made; `at` is the number of operations before the cut."""

    number: int
    rules: Rules
    at: int
    survival: Survival
    draw: Random


class Image(NamedTuple):
    """What a power cut left, and what had happened before."""

    cut: Cut
    files: dict[str, bytes]
    unsure: int  # changes that were not synced
    truth: Truth


class Recording(NamedTuple):
    """A script that was played to its end."""

    script: Script
    log: list[Operation]
    given_up: int  # readings, as the history told


def scratch() -> TemporaryDirectory[str]:
    """A folder where syncing costs nothing, if there is one: images need no real disk."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(prefix="torture-", dir=memory if memory.is_dir() else None)


def played(
    recorder: str, seed: int, length: int, *, faults: bool = False, lie: str = ""
) -> Recording:
    """Play a script under the recorder; CalledProcessError if the player does not end well."""
    with scratch() as folder:
        disk = Path(folder, "disk")
        disk.mkdir()
        randomness = Path(folder, "random")
        randomness.write_bytes(Random(seed).randbytes(1 << 16))
        Control(f"{folder}/control")
        subprocess.run(
            [sys.executable, "-m", "tests.torture.player", str(seed), str(length), str(disk)]
            + ["faults"] * faults
            + [lie] * bool(lie),
            cwd=ROOT,
            env=recording.environment(
                recorder,
                str(disk),
                f"{folder}/log",
                control=f"{folder}/control",
                random=str(randomness),
            ),
            stderr=subprocess.PIPE,
            text=True,
            timeout=PLAY_S,
            check=True,
        )
        log = list(recording.operations(Path(folder, "log").read_bytes(), str(disk)))
    truth = Truth(script(seed, length, faults=faults))
    for operation in log:
        if operation.kind == MARK:
            truth.learn(operation.data.decode())
    return Recording(script(seed, length, faults=faults), log, truth.given_up)


def cuts(seed: int, numbers: Iterable[int], log: list[Operation]) -> list[Cut]:
    """The cuts of those numbers in a log: most of them right after a change of the disk."""
    changes = [at for at, done in enumerate(log, 1) if done.kind not in (MARK, OPEN, CLOSE, SYNC)]
    made = []
    for number in numbers:
        draw = Random(f"cut {seed} {number}")
        rules = draw.choice(RULES)
        at = draw.choice(changes) if draw.random() < 0.8 else draw.randrange(1, len(log) + 1)
        made.append(Cut(number, rules, at, drawn(draw), draw))
    return made


def images(recorded: Recording, wanted: list[Cut]) -> Iterator[Image]:
    """The images of those cuts; what `truth` says holds until the next one is asked for."""
    for rules in RULES:
        disk, truth, at = Disk(rules), Truth(recorded.script), 0
        for cut in sorted([c for c in wanted if c.rules == rules], key=lambda c: c.at):
            for operation in recorded.log[at : cut.at]:
                disk.apply(operation)
                if operation.kind == MARK:
                    truth.learn(operation.data.decode())
            at = cut.at
            files = disk.image(cut.draw, cut.survival)
            if cut.draw.random() < 0.3:
                # SQLite's index of its log is mapped, and says nothing after a power cut.
                files[f"{HISTORY}-shm"] = cut.draw.randbytes(32_768)
            yield Image(cut, files, disk.unsure(), truth)


def laid_out(files: dict[str, bytes], folder: Path) -> None:
    """Put the files of an image into an empty `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def judged(image: Image, recorded: Recording, folder: Path) -> list[str]:
    """What is wrong with an image, one line each."""
    laid_out(image.files, folder)
    return judge(image.truth, recorded.script, folder)
