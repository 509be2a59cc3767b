"""The local apt configuration, rewritten for another suite and architecture. Pure but for
`of_host`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fleet.common.exits import FAILED, CommandError

COMPONENTS: Final = "main non-free-firmware"
KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
CONFIGURATION: Final = Path("/etc/apt")
# Suites of Debian itself, which tell its mirrors from other archives.
DEBIAN: Final = re.compile(
    r"(bullseye|bookworm|trixie|forky|sid|stable|testing|unstable)(-updates|-security|/updates)?"
)
OPTIONS: Final = re.compile(r"\[[^\]]*\]")


class NoMirrorError(CommandError):
    """No Debian mirror is known; the text is one line that says what to do."""

    status = FAILED


class Source(NamedTuple):
    """A mirror, and one of the suites configured for it."""

    address: str
    suite: str


def of_host(folder: Path = CONFIGURATION) -> list[Source]:
    """The mirrors in this host's apt configuration; [] if it has none."""
    parts = folder / "sources.list.d"
    lists = [folder / "sources.list", *sorted(parts.glob("*.list"))]
    found = [each for path in lists if path.is_file() for each in parse_lines(path.read_text())]
    for path in sorted(parts.glob("*.sources")):
        found += parse_deb822(path.read_text())
    return found


def parse_lines(text: str) -> Iterator[Source]:
    """The sources of a file in one-line style."""
    for line in text.splitlines():
        words = OPTIONS.sub("", line.partition("#")[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            yield Source(words[1], words[2])


def parse_deb822(text: str) -> Iterator[Source]:
    """The sources of a file in deb822 style."""
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", kept):
        joined = re.sub(r"\n[ \t]+", " ", stanza)
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", joined, re.MULTILINE))
        if fields.get("Enabled", "yes") == "no" or "deb" not in fields.get("Types", "").split():
            continue
        for address in fields.get("URIs", "").split():
            for suite in fields.get("Suites", "").split():
                yield Source(address, suite)


def lines_for(suite: str, sources: Iterable[Source], mirror: str | None) -> str:
    """A sources.list for `suite`, in one-line style: from `mirror`, or from the host's Debian
    mirrors. NoMirrorError if the host has none."""
    debian = [each for each in sources if DEBIAN.fullmatch(each.suite)]
    security = [each.address for each in debian if "security" in each.suite or "/" in each.suite]
    plain = [each.address for each in debian if each.address not in security]
    if mirror:
        plain, security = [mirror], []
    if not plain:
        raise NoMirrorError(
            "apt on this host has no Debian mirror; name one with --mirror URL (such as "
            "file:/… or http://…)"
        )
    first = plain[0]
    rows = [(first, suite)]
    if not mirror:
        if any(each == Source(first, f"{each.suite.split('-')[0]}-updates") for each in debian):
            rows.append((first, f"{suite}-updates"))
        rows += [(address, f"{suite}-security") for address in dict.fromkeys(security)]
    return "".join(
        f"deb [signed-by={KEYRING}] {address} {name} {COMPONENTS}\n" for address, name in rows
    )
