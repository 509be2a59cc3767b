"""Tokens, links and sessions: hashes only, links work once and not for long, revoked is revoked."""

import json
import os
import stat
import threading
from pathlib import Path

import msgspec
import pytest

from agent.gateway import tokens
from agent.gateway.tokens import Access, AccessError
from agent.runtime.sqlite import hold
from agent.wire.config import ConfigError


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "access.json")


def text(path):
    return Path(path).read_text()


def test_a_token_is_found_until_it_is_revoked_and_stands_nowhere(path):
    access = Access(path)
    assert access.is_new
    token = tokens.create_token(path, "grafana", "viewer", rate_per_s=3.0)
    caller = access.find(token)
    assert (caller.name, caller.role, caller.rate_per_s) == ("grafana", "viewer", 3.0)
    assert not access.is_new
    assert access.find(token[:-1]) is None
    assert access.find("") is None
    assert access.find(caller.key) is None, "a hash is no token"
    assert token not in text(path)
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert access.still(caller)
    tokens.revoke_token(path, "grafana")
    assert access.find(token) is None
    assert not access.still(caller)


def test_roles_include_one_another():
    found = [
        [tokens.Caller("n", mine, "k").may(wanted) for wanted in tokens.ROLES]
        for mine in tokens.ROLES
    ]
    assert found == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_token_expires(path):
    now_ms = [0]
    token = tokens.create_token(path, "guest", "viewer", days=1)
    access = Access(path, now_ms=lambda: now_ms[0])
    caller = access.find(token)
    now_ms[0] = caller.expires_ms - 1
    assert access.find(token)
    now_ms[0] += 1
    assert access.find(token) is None
    assert not access.still(caller)


def test_names_are_given_once_and_must_be_names(path):
    tokens.create_token(path, "a", "viewer")
    with pytest.raises(AccessError, match="already"):
        tokens.create_token(path, "a", "asker")
    for name, role in (("a b", "viewer"), ("b", "owner")):
        with pytest.raises(AccessError, match="no token"):
            tokens.create_token(path, name, role)
    with pytest.raises(AccessError, match="no token b"):
        tokens.revoke_token(path, "b")


def test_root_leaves_the_file_and_its_lock_to_who_had_them(path, monkeypatch):
    """`sudo fleet gateway link`: the gateway, which is not root, is not shut out."""
    given = []
    monkeypatch.setattr(tokens.os, "geteuid", lambda: 0)
    monkeypatch.setattr(tokens.os, "fchown", lambda _file, *owner: given.append(owner))
    tokens.create_link(path, "viewer")
    folder = Path(path).parent.stat()
    assert given == [(folder.st_uid, folder.st_gid)] * 2, "of a new file, who has its folder"
    tokens.create_link(path, "viewer")
    now = Path(path).stat()
    assert given[2:] == [(now.st_uid, now.st_gid)]
    given.clear()
    monkeypatch.setattr(tokens.os, "geteuid", lambda: 1_000)
    tokens.create_link(path, "viewer")
    assert given == []


def test_a_link_opens_one_session(path):
    access = Access(path)
    code = tokens.create_link(path, "asker")
    assert access.find(code) is None, "a link's code is no token"
    secret, role = tokens.open_session(path, code, 3_600.0)
    assert role == "asker"
    assert access.find(secret).role == "asker"
    assert tokens.open_session(path, code, 3_600.0) is None
    assert code not in text(path)
    assert secret not in text(path)
    assert tokens.end_sessions(path) == 1
    assert access.find(secret) is None


def test_a_link_fits_a_line_of_a_terminal(path):
    code = tokens.create_link(path, "viewer")
    assert len(f"  http://127.0.0.1:8080/login?code={code}") <= 80
    assert len(code) > 25, "nobody guesses 160 bits"


def test_a_link_is_good_for_ten_minutes(path, monkeypatch):
    code = tokens.create_link(path, "viewer")
    later_ms = tokens.wall_ms() + 600_001
    monkeypatch.setattr(tokens, "wall_ms", lambda: later_ms)
    assert tokens.open_session(path, code, 60.0) is None


def test_what_grows_is_bounded(path, monkeypatch):
    monkeypatch.setattr(tokens, "MAX_LINKS", 3)
    monkeypatch.setattr(tokens, "MAX_SESSIONS", 2)
    monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
    codes = [tokens.create_link(path, "viewer") for _ in range(5)]
    assert [tokens.open_session(path, code, 60.0) is None for code in codes] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert len(tokens.read(path).sessions) == 2
    tokens.create_token(path, "a", "viewer")
    with pytest.raises(AccessError, match="the most"):
        tokens.create_token(path, "b", "viewer")


def test_a_broken_file_leaves_the_tokens_before_in_force(path):
    token = tokens.create_token(path, "a", "viewer")
    access = Access(path)
    good = text(path)
    Path(path).write_text("{")
    assert access.find(token)
    assert path in access.problem
    Path(path).write_text(good + " ")
    tokens.create_token(path, "b", "viewer")
    assert access.find(token)
    assert access.problem == ""


def test_a_file_that_others_may_use_or_that_is_none_is_refused(path, tmp_path):
    tokens.create_token(path, "a", "viewer")
    Path(path).chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Access(path)
    with pytest.raises(ConfigError, match="not a regular file"):
        tokens.read(str(tmp_path))


def test_a_change_is_on_disk_with_its_folder(path, monkeypatch):
    synced = []

    def sync(file):
        status = os.fstat(file)
        there = json.loads(Path(path).read_text())["tokens"] if Path(path).exists() else []
        synced.append((stat.S_ISDIR(status.st_mode), len(there)))

    monkeypatch.setattr(tokens.os, "fsync", sync)
    tokens.create_token(path, "one", "viewer")
    tokens.revoke_token(path, "one")
    file, folder = False, True
    assert synced == [(file, 0), (folder, 1), (file, 1), (folder, 0)], "the folder after the name"


def test_a_full_disk_uses_no_link_up(path, monkeypatch):
    code = tokens.create_link(path, "viewer")

    def full(_file):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(tokens.os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            tokens.open_session(path, code, 60.0)
    assert tokens.open_session(path, code, 60.0)


def test_two_that_change_it_at_once_lose_nothing(path):
    def create(letter):
        for number in range(10):
            tokens.create_token(path, f"{letter}{number}", "viewer")

    threads = [threading.Thread(target=create, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(msgspec.json.decode(text(path))["tokens"]) == 30


@pytest.mark.parametrize("text", ["", "{", "[]", "\0"])
def test_a_damaged_file_is_told_with_what_to_do(path, text):
    Path(path).write_text(text)
    Path(path).chmod(0o600)
    with pytest.raises(ConfigError, match=r"json is damaged .* restore it, or remove it and"):
        tokens.read(path)


def test_who_looks_whether_a_gateway_runs_leaves_nothing(tmp_path):
    path = str(tmp_path / "alerts.sqlite")
    assert not tokens.is_gateway_running(path)
    assert list(tmp_path.iterdir()) == []
    holder = hold(path)
    assert tokens.is_gateway_running(path)
    os.close(holder)
    assert not tokens.is_gateway_running(path)
