"""The real process: kill -9 of the primary, its mirror, and how both come back."""

import signal
import subprocess
from pathlib import Path

import zmq

from agent.wire import directory as d
from testkit.waiting import PATIENCE_S
from tests.directory.rig import COMMAND, PATIENCE_MS

BY_HAND = b'10J{"type":"discover","id":"mine","capability":"temperature","areas":["b1"]}'
DISCOVER = d.Discover("d", "temperature", ("b1/f4",))
ACCOUNTS = d.ListAccounts("a")


def register(name, *areas, lease_s=60.0):
    offerings = (d.Offering("temperature", areas),) if areas else ()
    return d.Register(f"r-{name}", name, "tcp://127.0.0.1:5700", offerings, lease_s)


def names(found):
    return [candidate.iad for candidate in found.candidates]


def test_a_discovery_written_by_hand_in_json_over_req(drs, context, asker):
    asker(drs).ask(register("iad1", "b1/f4"))
    socket = context.socket(zmq.REQ)
    socket.connect(drs.public)
    socket.send(BY_HAND)
    assert socket.poll(PATIENCE_MS)
    assert socket.recv() == (
        b'10J{"type":"found","id":"mine","candidates":[{"iad":"iad1",'
        b'"address":"tcp://127.0.0.1:5700","keys":[],"areas":["b1/f4"]}],'
        b'"uncovered":[],"age_s":0.0}'
    )


def test_what_was_answered_is_there_after_kill_9(drs, asker):
    ask = asker(drs).ask
    assert ask(register("iad1", "b1/f4")) == d.Registered("r-iad1", 60.0)
    ask(register("iad2", "b1"))
    ask(register("portal"))
    ask(d.OpenAccount("o", "acme"))
    ask(d.Withdraw("w", "iad2"))
    before = (ask(DISCOVER), ask(ACCOUNTS), ask(d.LookUp("l", ("portal",))))
    assert names(before[0]) == ["iad1"]
    drs.stop(signal.SIGKILL)
    drs.start()
    ask = asker(drs).ask
    assert (ask(DISCOVER), ask(ACCOUNTS), ask(d.LookUp("l", ("portal",)))) == before
    assert ask(d.Renew("n", "iad1")).reason == "unknown", "its file may be an older one"
    assert ask(register("iad1", "b1/f4")) == d.Registered("r-iad1", 60.0)
    assert ask(d.Renew("n", "iad1")) == d.Registered("n", 60.0)


def test_a_lease_ends_unless_renewed(start_drs, asker):
    drs = start_drs(longest_lease_s=4.0)
    asks = asker(drs)
    assert asks.ask(register("iad1", "b1")) == d.Registered("r-iad1", 4.0)
    assert names(asks.ask(DISCOVER)) == ["iad1"]
    asks.ask_until(DISCOVER, lambda found: not found.candidates)
    assert asks.ask(d.Renew("n", "iad1")).reason == "unknown"
    assert asks.ask(register("iad1", "b1")) == d.Registered("r-iad1", 4.0)
    assert names(asks.ask(DISCOVER)) == ["iad1"]


def test_a_mirror_answers_while_the_primary_is_gone_and_follows_it_again(start_drs, asker):
    primary = start_drs("primary")
    mirror = start_drs("mirror", primary=primary.public)
    asker(primary).ask(register("iad1", "b1/f4"))
    asks = asker(mirror)
    found = asks.ask_until(DISCOVER, lambda reply: isinstance(reply, d.Found) and names(reply))
    assert names(found) == ["iad1"]
    assert asks.ask(register("iad9", "b9")).reason == "read_only"

    primary.stop(signal.SIGKILL)
    assert names(asks.ask(DISCOVER)) == ["iad1"]
    mirror.stop(signal.SIGKILL)
    mirror.start()
    asks = asker(mirror)
    first = asks.ask(DISCOVER)
    assert names(first) == ["iad1"], "its copy is in a file of its own"
    later = asks.ask_until(DISCOVER, lambda found: found.age_s > first.age_s)
    assert names(later) == ["iad1"]
    denied = asks.ask(d.Renew("n", "iad1"))
    assert (denied.reason, primary.public in denied.message) == ("read_only", True)

    primary.start()
    asker(primary).ask(register("iad2", "b1"))
    asker(primary).ask(d.Withdraw("w", "iad1"))
    asks.ask_until(DISCOVER, lambda found: names(found) == ["iad2"])


def test_a_mirror_that_never_had_a_copy_says_so(start_drs, asker):
    mirror = start_drs("mirror", primary="tcp://127.0.0.1:9")
    reply = asker(mirror).ask(DISCOVER)
    assert (reply.reason, reply.message) == (
        "not_ready",
        "this mirror has no copy yet: tcp://127.0.0.1:9 has not answered",
    )


def test_a_primary_that_lost_its_file_begins_anew_and_its_mirror_with_it(start_drs, asker):
    primary = start_drs("primary")
    mirror = start_drs("mirror", primary=primary.public)
    asker(primary).ask(register("iad1", "b1/f4"))
    asks = asker(mirror)
    asks.ask_until(DISCOVER, lambda reply: isinstance(reply, d.Found) and names(reply))
    primary.stop(signal.SIGKILL)
    for part in primary.folder.glob("directory.sqlite*"):
        part.write_bytes(b"broken")
    primary.start()
    assert asker(primary).ask(d.Renew("n", "iad1")).reason == "unknown"
    asks.ask_until(DISCOVER, lambda found: not found.candidates)
    asker(primary).ask(register("iad1", "b1/f4"))
    asks.ask_until(DISCOVER, lambda found: names(found) == ["iad1"])
    code, said = primary.stop()
    assert code == 0
    assert said.count("\n") == 1
    assert "was broken" in said


def test_a_mirror_becomes_the_primary(start_drs, asker):
    primary = start_drs("primary")
    mirror = start_drs("mirror", primary=primary.public)
    other = start_drs("other", primary=primary.public)
    asker(primary).ask(register("iad1", "b1/f4"))
    asker(mirror).ask_until(DISCOVER, lambda reply: isinstance(reply, d.Found) and names(reply))
    for drs in (primary, mirror, other):
        drs.stop(signal.SIGKILL)
    mirror.config.write_text(mirror.config.read_text().partition("[mirror]")[0])
    mirror.start()
    assert asker(mirror).ask(register("iad1", "b1/f4")) == d.Registered("r-iad1", 60.0)
    asker(mirror).ask(register("iad2", "b1"))
    text = other.config.read_text().replace(primary.public, mirror.public)
    other.config.write_text(text)
    other.start()
    asker(other).ask_until(DISCOVER, lambda r: isinstance(r, d.Found) and len(names(r)) == 2)


def run(*arguments):
    return subprocess.run(
        [COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_check_and_what_cannot_be_used(drs, asker, tmp_path):
    asker(drs).ask(ACCOUNTS)  # whoever answers has its file and its socket
    done = run("--check", "--config", drs.config)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{drs.config}: ok\n", "")
    bad = tmp_path / "bad.toml"
    bad.write_text('[sockets]\npublic = "tcp://0.0.0.0:5710"\n')
    done = run("--config", bad)
    assert done.returncode == 2
    assert "leaves this host without keys" in done.stderr
    done = run("--config", drs.config)
    assert done.returncode == 1
    assert done.stderr.endswith("another registration service is using it\n")
    taken = tmp_path / "taken.toml"
    taken.write_text(f'[sockets]\npublic = "{drs.public}"\n')
    done = run("--config", taken)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"cannot listen on {drs.public}" in done.stderr


def test_it_stops_when_told(drs, asker):
    asker(drs).ask(ACCOUNTS)
    assert drs.stop() == (0, "")
    drs.start()
    asker(drs).ask(ACCOUNTS)
    drs.process.stdin.close()
    assert drs.process.wait(PATIENCE_S) == 0


def test_the_sample_configuration_is_good():
    file = Path(__file__).parents[2] / "docs" / "examples" / "drs.toml"
    done = run("--check", "--config", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: ok\n", "")


def test_it_says_where_it_listens(drs, asker):
    asker(drs).ask(ACCOUNTS)
    line = f"sanderling-drs: listening on {drs.public} (public)\n"
    assert drs.process.stderr.readline() == line


def test_ctrl_c_ends_it_with_a_line(drs):
    assert "listening" in drs.process.stderr.readline()
    drs.process.send_signal(signal.SIGINT)
    assert drs.process.wait(PATIENCE_S) == 0
    assert drs.process.stderr.readlines()[-1] == "sanderling-drs: stopped\n"


def test_a_primary_that_goes_on_from_an_older_copy_takes_its_mirror_along(start_drs, asker):
    primary = start_drs("primary")
    mirror = start_drs("mirror", primary=primary.public)
    asker(primary).ask(register("iad1", "b1"))
    primary.stop()
    older = {part: part.read_bytes() for part in primary.folder.glob("directory.sqlite")}
    primary.start()
    for name in ("iad2", "iad3"):
        asker(primary).ask(register(name, "b1"))
    asker(mirror).ask_until(
        DISCOVER, lambda found: isinstance(found, d.Found) and len(names(found)) == 3
    )
    mirror.stop()
    primary.stop()
    for part, content in older.items():
        part.write_bytes(content)
    primary.start()
    # As many changes as were made before, and one more.
    for name in ("iad4", "iad5", "iad6"):
        asker(primary).ask(register(name, "b1"))
    mirror.start()
    asks = asker(mirror)
    asks.ask_until(DISCOVER, lambda found: names(found) == ["iad1", "iad4", "iad5", "iad6"])
    assert asks.ask(ACCOUNTS).accounts == asker(primary).ask(ACCOUNTS).accounts
