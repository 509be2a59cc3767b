"""A fleet.toml from anywhere: it is an inventory or one line says why not. Reading and checking it
writes nothing and starts nothing."""

from __future__ import annotations

import random
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from agent.wire.config import ConfigError
from fleet.inventory import folder as folders
from fleet.inventory.check import check
from fleet.inventory.loader import load
from fleet.inventory.problems import warnings
from testkit.complete_inventory import TEXT
from tests.examples import examples
from tests.fleet.inventory.inventories import PLAIN

VALUES: list[Any] = [
    "", ".", "..", "../../etc/passwd", "/etc/cron.d/x", "$(touch /tmp/x)", "`id`", "; reboot",
    "-oX", "a\x1b[2J", "\u202e", "x" * 70, "n1", "iad1", "tcp://10.0.0.1:1", 0, -1, 2**63, 1e308,
    float("nan"), True, [], {}, ["a"] * 100, [{}],
]  # fmt: skip
WRITES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.link", "os.chmod",
          "os.truncate", "shutil.rmtree", "shutil.move", "os.chown"}  # fmt: skip
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "pty.spawn",
          "socket.connect", "socket.bind"}  # fmt: skip


class Watch:
    """What the interpreter was asked for while it watches."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event in WRITES | STARTS:
            self.seen.append(f"{event} {arguments}")
        elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            self.seen.append(f"open {arguments}")


WATCH = Watch()  # an audit hook stays as long as the interpreter


def changed(text: str, draw: random.Random) -> str:
    """An inventory with other values, keys and tables; or with other bytes."""
    if draw.random() < 0.3:
        characters = list(text)
        for _ in range(draw.randint(1, 5)):
            at = draw.randrange(len(characters))
            characters[at : at + draw.randint(0, 4)] = draw.choice(
                ["", '"', "[[", "=", "\x00", "é"]
            )
        return "".join(characters)
    whole: Any = tomllib.loads(text)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = whole
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            key = draw.choice(keys)
            if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.2:
                break
            at = at[key]
        if draw.random() < 0.2 and isinstance(at, dict):
            at[draw.choice(["", "..", "command", "x y"])] = at.pop(key)
        else:
            at[key] = draw.choice(VALUES)
        if not whole:
            break
    return tomli_w.dumps(whole)


@pytest.mark.parametrize("text", [PLAIN, TEXT], ids=["plain", "complete"])
def test_any_inventory_is_read_or_refused_in_one_line(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    draw = random.Random("inventory")
    folder = folders.Folder(tmp_path)
    refused = 0
    count = examples(400)
    for _ in range(count):
        hostile = changed(text, draw)
        folder.inventory.write_text(hostile, encoding="utf-8")
        WATCH.on = True
        try:
            found = check(folder)
            assert all(line.isprintable() for line in found.problems + found.warnings)
            warnings(load(folder))
        except ConfigError as error:
            refused += 1
            told = str(error).removeprefix(f"{folder.inventory}: ")
        except BaseException as error:
            error.add_note(hostile)
            raise
        else:
            told = ""
        finally:
            WATCH.on = False
        assert told.isprintable(), (told, hostile)
    assert not WATCH.seen
    assert {path.name for path in tmp_path.iterdir()} == {"fleet.toml"}
    assert refused > count // 4
