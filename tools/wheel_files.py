"""Checks a wheel of this checkout: its packages whole, compiled for its machine, and nothing else.

Usage: python3 tools/wheel_files.py WHEEL; needs Python alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
# e_machine of ELF.
MACHINES: Final = {"x86_64": 62, "aarch64": 183}
# For readers of the source, and for tests of drivers and processors.
NOT_SHIPPED: Final = re.compile(
    r"\.(pyx|h)$|README\.md$|/fixtures/|_template|(golden|sample)\.(jsonl|csv)$|\.pxd$"
)


def packages() -> set[str]:
    """Folders at the top that ship."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = project["tool"]["setuptools"]["packages"]["find"]["include"]
    return {name for name in named if not name.endswith(".*")}


def expected() -> set[str]:
    """What git lists of them and has to be in a wheel, and modules that are compiled, as .pyx."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *sorted(packages())],  # noqa: S607  # wherever it is installed
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    files = [name for name in listed.split("\0") if name]
    return {n for n in files if n.endswith(".pyx") or not NOT_SHIPPED.search(n)}


def wrong(files: Mapping[str, bytes], wanted: set[str], tag: str) -> Iterator[str]:
    """What is not as it has to be with these files, by name with their first bytes, of a wheel with
    this tag; in a line each."""
    machine = next((each for each in MACHINES if tag.endswith(each)), "")
    if not machine or not tag.startswith("cp"):
        yield f"the tag {tag} names no Python, or no machine"
    compiled = {re.sub(r"\.cpython-\w+-linux-gnu\.so$", ".pyx", n): n for n in files}
    for name in sorted(wanted):
        if name not in (compiled if name.endswith(".pyx") else files):
            yield f"missing: {name}"
    for name, content in sorted(files.items()):
        top = name.partition("/")[0]
        if top not in packages() and not top.endswith(".dist-info"):
            yield f"does not ship: {name}"
        if name.endswith(".so") and machine and content[18:20] != elf(machine):
            yield f"not for {machine}: {name}"


def elf(machine: str) -> bytes:
    """How a shared object names its machine."""
    return MACHINES[machine].to_bytes(2, "little")


def of_wheel(path: Path) -> list[str]:
    """What is wrong with this wheel."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.open(name).read(20) for name in archive.namelist()}
    return [*wrong(files, expected(), path.stem.split("-", 2)[2])]


def main(arguments: list[str]) -> int:
    """Check the wheel that is named."""
    lines = of_wheel(Path(arguments[0]))
    for line in lines:
        print(line, file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
