"""Parses a lock file for one target: exact versions and their permitted hashes."""

from __future__ import annotations

import re
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from fleet.release.target import Target

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Pinned(NamedTuple):
    """A distribution at one version."""

    name: NormalizedName
    version: str
    sha256: frozenset[str]  # of its wheels and its sdist

    def __str__(self) -> str:
        """As pip reads it."""
        hashes = [f" --hash=sha256:{digest}" for digest in sorted(self.sha256)]
        return f"{self.name}=={self.version}{''.join(hashes)}"


def pinned(text: str, target: Target) -> tuple[Pinned, ...]:
    """The packages that the lock `text` pins for `target`. Markers are evaluated for the target;
    pip would evaluate them for the machine that it runs on. O(length of the text)."""
    markers = {
        "platform_machine": target.machine,
        "python_version": target.python,
        "python_full_version": f"{target.python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    found = []
    for entry in re.findall(r"^[A-Za-z0-9].*(?:\n[ \t].*)*", text, re.MULTILINE):
        requirement = Requirement(entry.partition("\n")[0].rstrip("\\").strip())
        if requirement.marker is None or requirement.marker.evaluate(markers):
            version = str(requirement.specifier).removeprefix("==")
            name = canonicalize_name(requirement.name)
            found.append(Pinned(name, version, frozenset(_HASH.findall(entry))))
    return tuple(found)
