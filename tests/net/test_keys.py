"""Key files: what is read, what is refused, and how a pair is made."""

import os
import stat
import subprocess
import sys

import pytest
import zmq

from agent.net.file_watcher import Watched
from agent.net.keys import (
    Pair,
    dates_in,
    expiry,
    handshakes,
    main,
    new,
    read_publics,
    read_secrets,
)
from agent.wire.config import ConfigError


def pairs(count):
    return [Pair(*(half.decode() for half in zmq.curve_keypair())) for _ in range(count)]


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_new_pair_is_for_its_owner_alone_and_replaces_nothing(tmp_path):
    name = str(tmp_path / "iad1")
    pair = new(name)
    assert stat.S_IMODE((tmp_path / "iad1.secret").stat().st_mode) == 0o600
    assert read_secrets(f"{name}.secret") == (pair,)
    assert read_publics(f"{name}.public") == (pair.public,)
    with pytest.raises(FileExistsError):
        new(name)
    assert read_secrets(f"{name}.secret") == (pair,)
    assert pair.secret not in repr(pair)


def test_the_command(tmp_path, capsys):
    run = subprocess.run(
        [sys.executable, "-m", "agent.net.keys", "new", tmp_path / "a"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert read_publics(str(tmp_path / "a.public"))[0] in run.stdout
    assert main(["new", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path / 'a'}.secret: File exists\n"
    assert main(["make"]) == 2


def test_comments_and_two_keys_the_current_one_first(tmp_path):
    one, two = pairs(2)
    text = f"# the new one\n{one.secret}  # since May\n\n  {two.secret}\n#{two.secret} once\n"
    assert read_secrets(write(tmp_path / "k", text)) == (one, two)


def test_dates_beside_a_key_are_a_comment(tmp_path):
    one, two = pairs(2)
    lines = f"{one.secret} # made 2026-05-21 # expires 2027-05-21\n{two.secret} # soon\n"
    path = write(tmp_path / "k", lines)
    assert read_secrets(path) == (one, two)
    assert dates_in(lines) == ({"made": 1_779_321_600.0, "expires": 1_810_857_600.0}, {})
    assert expiry(path) == 1_810_857_600.0
    timed = f"{one.secret} # made 2026-05-21T00:00:10Z, expires 2027-05-21T00:00:20Z; spare"
    assert dates_in(timed) == ({"made": 1_779_321_610.0, "expires": 1_810_857_620.0},)


@pytest.mark.parametrize(
    "said", ["", "# expires 2027-02-30", "# expires soon", "# expired 2027-05-21"]
)
def test_what_is_no_date_is_no_expiry(tmp_path, said):
    (one,) = pairs(1)
    assert expiry(write(tmp_path / "k", f"{one.secret} {said}\n")) is None


def test_a_file_that_cannot_be_used_now_has_no_expiry(tmp_path):
    assert expiry(str(tmp_path / "none")) is None
    assert expiry(write(tmp_path / "k", "# expires 2027-05-21\n")) is None
    assert expiry(write(tmp_path / "k", "x # expires 2027-05-21\n", 0o644)) is None


def test_a_key_with_number_signs_is_a_key(tmp_path):
    key = "a####" * 8
    assert read_publics(write(tmp_path / "k", f"{key}\n")) == (key,)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no key in it"),
        ("# nothing\n", "no key in it"),
        ("short\n", "line 1 is no key"),
        ("%" * 40 + "\n", "line 1 is no key"),
        ("\n" + "a" * 39 + "~\n", "line 2 is no key"),
        ("a" * 40 + "\n" + "b" * 40 + "\n" + "c" * 40 + "\n", "3 keys; at most 2"),
        ("a" * 40 + "\n" + "a" * 40 + "\n", "stands there twice"),
        ("schlüssel\n", "no key file, which is plain text"),
    ],
)
def test_what_is_no_key_file(tmp_path, text, line):
    path = write(tmp_path / "k", text)
    with pytest.raises(ConfigError) as refused:
        read_publics(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_secret_key_that_others_reach_is_refused_with_the_cure(tmp_path, mode):
    (pair,) = pairs(1)
    path = write(tmp_path / "k", pair.secret, mode)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}") as refused:
        read_secrets(path)
    assert pair.secret not in str(refused.value)
    (tmp_path / "k").chmod(0o400)
    assert read_secrets(path) == (pair,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_secret_key_of_another_user_is_refused(tmp_path):
    path = write(tmp_path / "k", pairs(1)[0].secret)
    os.chown(path, 12345, 0)
    with pytest.raises(ConfigError, match="user 12345"):
        read_secrets(path)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o600)
    for name, line in (
        ("fifo", "not a regular file"),
        (".", "not a regular file"),
        ("none", "No such file"),
    ):
        with pytest.raises(ConfigError, match=line):
            read_secrets(str(tmp_path / name))


def test_a_watched_file_keeps_what_can_be_used(tmp_path):
    one, two = pairs(2)
    path = tmp_path / "k"
    watched = Watched(write(path, one.secret), read_secrets)
    assert not watched.refresh()
    write(tmp_path / "next", two.secret).encode()
    (tmp_path / "next").replace(path)
    assert watched.refresh()
    assert watched.value == (two,)
    write(path, "rubbish")
    with pytest.raises(ConfigError):
        watched.refresh()
    assert not watched.refresh()  # said once
    assert watched.value == (two,)
    path.unlink()
    with pytest.raises(ConfigError):
        watched.refresh()
    write(path, two.secret, 0o644)
    with pytest.raises(ConfigError):
        watched.refresh()
    path.chmod(0o600)
    assert not watched.refresh()  # readable again, and no other key
    write(path, one.secret)
    assert watched.refresh()


def test_every_pairing_that_may_fit_is_tried_the_likeliest_first():
    own = pairs(2)
    found = handshakes(own, ["s1", "s2"])
    assert len(set(found)) == 4
    assert (found[0].own, found[0].server) == (own[0], "s1")
