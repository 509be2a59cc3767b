"""An archive of the classes that Spark loads: with it Java starts in half the processor time.

Java writes it as the first session ends, and Java itself checks later that the archive is of the
same Java and the same jars; one that is not is passed over, and the session starts as without it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fleet.spark.java import cache_folder

# What Java's own archive is called; without it Java cannot add to one. The wheel's Java has none.
BASES: Final = ("lib/server/classes.jsa", "lib/classes.jsa")
# Of about 190 MB each, those of former versions go.
UNUSED_S: Final = 30 * 86_400.0
# A part that is older has been given up: its session was killed.
WRITTEN_S: Final = 3_600.0
# Java would say on the terminal that an archive does not fit.
QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")


def options(java_home: Path, jars: Path) -> tuple[str, ...]:
    """Java's options for a session: to use the archive of this Java and these jars, or to write it
    at its end; none where that cannot be. O(jars)."""
    if not any((java_home / base).is_file() for base in BASES):
        return ()
    try:
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        archive = cache / f"spark-{_mark(java_home, jars)}.jsa"
        being_written = _adopt(archive)
        if archive.is_file():
            os.utime(archive)
            return (f"-XX:SharedArchiveFile={archive}", *QUIET)
        # Spark splits the options as a shell does.
        if being_written or shlex.quote(str(archive)) != str(archive):
            return ()
        part = archive.with_name(f"{archive.name}.part-{os.getpid()}")
        part.touch()
    except OSError:
        return ()
    return (f"-XX:ArchiveClassesAtExit={part}", *QUIET)


def _mark(java_home: Path, jars: Path) -> str:
    said = [str(java_home.resolve()), (java_home / "release").read_text(errors="replace")]
    for jar in sorted(jars.glob("*.jar")):
        stat = jar.stat()
        said.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


def _adopt(archive: Path) -> bool:
    """Give a part its name once it is complete; returns whether a session is about to write one."""
    being_written = False
    for part in archive.parent.glob(f"{archive.name}.part-*"):
        if _complete(part):
            part.replace(archive)
            _forget(archive)
        else:
            being_written |= time.time() - part.stat().st_mtime < WRITTEN_S
    return being_written


def _complete(part: Path) -> bool:
    """Java writes the head of an archive, which is not zero, after all the rest."""
    with part.open("rb") as file:
        return any(file.read(4))


def _forget(kept: Path) -> None:
    for other in kept.parent.glob("spark-*.jsa*"):
        with suppress(OSError):  # somebody else deleted it
            if other != kept and time.time() - other.stat().st_mtime > UNUSED_S:
                other.unlink()
