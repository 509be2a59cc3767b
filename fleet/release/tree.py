"""The file tree of a release, in memory: a virtual environment for another machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from installer import install
from installer.destinations import WheelDestination
from installer.records import RecordEntry
from installer.sources import WheelFile

from fleet.release.target import RELEASES, Target

if TYPE_CHECKING:
    import os

    from installer.scripts import ScriptSection
    from installer.utils import Scheme

# Files that only compilers, type checkers, package managers and tests read.
_UNUSED: Final = re.compile(
    r"""
    \.(pyi|pxd|pyx|pxi|c|h|typed)$
    | (^|/)(tests|test|__pycache__)/
    | \.dist-info/(RECORD|WHEEL|top_level\.txt|zip-safe)$
    """,
    re.VERBOSE,
)
_SCRIPT: Final = """\
#!{interpreter}
import sys

from {module} import {function}

sys.exit({function}())
"""


class Entry(NamedTuple):
    """A file, or a symbolic link to `link`."""

    content: bytes = b""
    mode: int = 0o644
    link: str = ""


class Tree:
    """The files of `release` for `target`, by path relative to its folder."""

    def __init__(self, release: str, target: Target) -> None:
        self.release = release
        self.target = target
        self.entries: dict[str, Entry] = {
            "RELEASE": Entry(f"{release}\n".encode()),
            "bin/python": Entry(link="python3"),
            "bin/python3": Entry(link="/usr/bin/python3"),
            "pyvenv.cfg": Entry(
                b"home = /usr/bin\ninclude-system-site-packages = false\n"
                + f"version = {target.python}\n".encode()
            ),
        }

    @property
    def folder(self) -> str:
        """Path on a host."""
        return f"{RELEASES}/{self.release}"

    def share(self, files: dict[str, bytes]) -> None:
        """Add the files for the host's system."""
        for name, content in files.items():
            self.entries[f"share/sanderling/{name}"] = Entry(content)

    def add_wheel(self, wheel: Path, *, scripts: bool = False) -> None:
        """Add the modules of a wheel, and with `scripts` its commands."""
        destination = _Destination(self)
        with WheelFile.open(wheel) as source:
            install(source, destination, additional_metadata={})
        for name, module, function in destination.scripts if scripts else ():
            # The wheel lacks `fleet`, though the project file declares its command.
            if f"{self.target.site_packages}/{module.replace('.', '/')}.py" in self.entries:
                text = _SCRIPT.format(
                    interpreter=f"{self.folder}/bin/python3", module=module, function=function
                )
                self.entries[f"bin/{name}"] = Entry(text.encode(), 0o755)

    def add_module(self, path: str, content: bytes) -> None:
        """Add a file of a wheel, if a host needs it."""
        if not _UNUSED.search(path):
            self.entries[f"{self.target.site_packages}/{path}"] = Entry(content)

    def add_byte_code(self, found: Iterable[tuple[str, bytes]]) -> None:
        """Add the result of `byte_code.compiled`."""
        for path, content in found:
            self.entries[path] = Entry(content)


class _Destination(WheelDestination):
    """Lets `installer` install a wheel into a tree. There is no RECORD, because nothing is
    installed there later."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.scripts: list[tuple[str, str, str]] = []

    def write_script(
        self,
        name: str,
        module: str,
        attr: str,
        section: ScriptSection,  # noqa: ARG002 - installer's
    ) -> RecordEntry:
        self.scripts.append((name, module, attr))
        return RecordEntry(name, None, None)

    def write_file(
        self,
        scheme: Scheme,
        path: str | os.PathLike[str],
        stream: BinaryIO,
        is_executable: bool,  # noqa: ARG002 - installer's
    ) -> RecordEntry:
        if scheme in {"purelib", "platlib"}:
            self._tree.add_module(str(path), stream.read())
        return RecordEntry(str(path), None, None)

    def finalize_installation(
        self,
        scheme: Scheme,
        record_file_path: str,
        records: Iterable[tuple[Scheme, RecordEntry]],
    ) -> None:
        pass
