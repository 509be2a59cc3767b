"""An archive of the classes that Spark loads: with it Java starts in half the processor time.

Java writes it as the first session ends, and Java itself checks later that the archive is of the
same Java and the same jars; one that is not is passed over, and the session starts as without it.
It adds to an archive of Java's own classes. The wheel's Java comes without one, so that one is made
in the cache, which takes two seconds, once.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fleet.spark.java import cache_folder

# What Java's own archive is called; without it Java cannot add to one.
BASES: Final = ("lib/server/classes.jsa", "lib/classes.jsa")
# Of about 190 MB each, those of former versions go.
UNUSED_S: Final = 30 * 86_400.0
# A part that is older has been given up: its session was killed.
WRITTEN_S: Final = 3_600.0
# Java would say on the terminal that an archive does not fit.
QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
DUMP_TIMEOUT_S: Final = 60.0


def options(java_home: Path, jars: Path) -> tuple[str, ...]:
    """Java's options for a session: to use the archive of this Java and these jars, or to write it
    at its end; none where that cannot be. O(jars)."""
    try:
        cache = cache_folder()
        cache.mkdir(parents=True, exist_ok=True)
        # Spark splits the options as a shell does.
        if shlex.quote(str(cache)) != str(cache):
            return ()
        own = any((java_home / base).is_file() for base in BASES)
        base = None if own else _made_base(java_home, cache)
        archive = cache / f"spark-{_mark(java_home, jars)}.jsa"
        being_written = _adopt(archive)
        if archive.is_file():
            os.utime(archive)
            both = f"{base}:{archive}" if base else archive
            return (f"-XX:SharedArchiveFile={both}", *QUIET)
        if being_written:
            return ()
        part = archive.with_name(f"{archive.name}.part-{os.getpid()}")
        part.touch()
    except (OSError, subprocess.SubprocessError):
        return ()
    below = (f"-XX:SharedArchiveFile={base}",) if base else ()
    return (f"-XX:ArchiveClassesAtExit={part}", *below, *QUIET)


def _made_base(java_home: Path, cache: Path) -> Path:
    """The archive of Java's own classes in the cache; made if missing. OSError and
    SubprocessError."""
    said = f"{java_home.resolve()}\n{(java_home / 'release').read_text(errors='replace')}"
    base = cache / f"spark-base-{_hash(said)}.jsa"
    if base.is_file():
        os.utime(base)
        return base
    part = base.with_name(f"{base.name}.part-{os.getpid()}")
    try:
        subprocess.run(
            [java_home / "bin" / "java", "-Xshare:dump", f"-XX:SharedArchiveFile={part}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=DUMP_TIMEOUT_S,
            check=True,
        )
        part.replace(base)
    finally:
        part.unlink(missing_ok=True)
    return base


def _mark(java_home: Path, jars: Path) -> str:
    said = [str(java_home.resolve()), (java_home / "release").read_text(errors="replace")]
    for jar in sorted(jars.glob("*.jar")):
        stat = jar.stat()
        said.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    return _hash("\n".join(said))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
