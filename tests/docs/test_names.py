"""Modules and files that are named in text exist: in strings for `python -m`, importlib, patches
and processes of their own, in commands, and in pages. A move leaves none of them behind."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = "agent|fleet|_core|lab|testkit|bench|tests|tools|processors|sensors"
FOLDERS = f"{ROOMS}|docs|images|locks"
CODE = (".py", ".pyx", ".pyi", ".pxd")
READ = {*CODE, ".toml", ".sh", ".md", ".service", ".h"}
# What was true when it was decided, or written about a release.
PAST = ("docs/decisions/", "CHANGELOG.md", "tests/upgrades/rig.py")
# Their tests make source trees of their own.
MADE_UP = (
    "tests/docs/test_names.py",
    "tests/fleet/release/test_bundle.py",
    "tests/fleet/release/test_origin.py",
    "tests/fleet/rollout/test_dirty.py",
)
IMPORT = re.compile(
    rf"\b(?:from|import|cimport|python3? -m)\s+((?:{ROOMS})(?:\.\w+)*)"
    r"(?:\s+c?import\s+(\([^()]*\)|[\w, ]+))?"
)
QUOTED = re.compile(rf"""["'`]((?:{ROOMS})(?:\.\w+)+)(?::(\w+))?(?=["'`(\s])""")
PATH = re.compile(rf"\b(?<![./-])((?:{FOLDERS})/[\w./-]*\.(?:py[xi]?|pxd|sh|md|toml|h))\b")
# Configurations that an operator writes, and placeholders.
FILES_OF_USERS = re.compile(r"(agent|fleet)[./]toml|(agent|fleet)/fleet\.toml|.*/[A-Z]+\.toml")


def named(text: str) -> Iterator[tuple[int, str]]:
    """Positions and names of modules, dotted, perhaps with something inside, and of files."""
    for found in IMPORT.finditer(text):
        module, inside = found.groups()
        names = re.sub(r"#.*", "", inside or "").strip("()").split(",")
        for name in names if inside else [""]:
            yield found.start(), ".".join([module, *name.split()[:1]])
    for found in QUOTED.finditer(text):
        yield found.start(), ".".join(filter(None, found.groups()))
    for found in PATH.finditer(text):
        yield found.start(), found[1]


@cache
def words(module: str) -> frozenset[str] | None:
    """All words of a module, its declarations included; None if there is no such module."""
    stem = ROOT / module.replace(".", "/")
    files = [stem.with_name(stem.name + suffix) for suffix in CODE]
    files += [stem / f"__init__{suffix}" for suffix in CODE]
    texts = [file.read_text("utf-8") for file in files if file.exists()]
    # One that Cython writes has no source here.
    is_there = texts or stem.is_dir() or any(stem.parent.glob(f"{stem.name}.*.so"))
    return frozenset(re.findall(r"\w+", "\n".join(texts))) if is_there else None


@cache
def exists(name: str) -> bool:
    if FILES_OF_USERS.fullmatch(name):
        return True
    if "/" in name:
        return (ROOT / name).exists()
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        if (there := words(".".join(parts[:count]))) is not None:
            return there.issuperset(parts[count : count + 1])
    return False


def problems(text: str) -> list[str]:
    return [
        f"line {text.count(chr(10), 0, at) + 1}: {name}"
        for at, name in named(text)
        if not exists(name)
    ]


def files() -> Iterator[Path]:
    for folder in FOLDERS.split("|"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in READ and "__pycache__" not in path.parts and path.is_file():
                yield path
    for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", "setup.py"):
        yield ROOT / name


def test_modules_and_files_named_in_text_exist():
    wrong = []
    for path in files():
        name = str(path.relative_to(ROOT))
        if not name.startswith((*PAST, *MADE_UP)):
            wrong += [f"{name}, {problem}" for problem in problems(path.read_text("utf-8"))]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        'run([sys.executable, "-m", "agent.edge.gone"])',
        "importlib.import_module('fleet.gone')",
        'patch("agent.net.dealer.GONE_S", 1)',
        'script = "import agent.gone; from agent.wire import codec"',
        'script = "from agent.wire.codec import (encode,\n absent)"',
        "python -m bench.gone",
        '"agent.entry_points:gone"',
        "see [dealers](agent/net/gone.py)",
        "`agent.net.gone.dealer`",
    ],
)
def test_what_is_gone_is_found(text):
    assert len(problems(text)) == 1
    there = re.sub(r"[.: ]gone", "", text).replace("/gone.", "/dealer.")
    assert not problems(there.replace("GONE_S", "REDIAL_S").replace("absent", "Frame"))
