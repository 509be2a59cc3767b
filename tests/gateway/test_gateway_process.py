"""`sanderling-gateway` as a process: it is started, finds a real master, survives it, and ends."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent.gateway import tokens
from agent.gateway.config import GatewayAlerts, GatewayConfig
from agent.gateway.feed.alert_log import AlertLog
from agent.wire.config import load
from fleet.cli.commands import run
from fleet.common import exits
from fleet.query.running import Addresses, announced
from fleet.simulation.layout import building_fleet, part_of
from fleet.testbed import page
from fleet.testbed.testbed import Testbed
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.conftest import ask
from tests.gateway.process import COMMAND, ROOT, Process

QUERY = {
    "areas": ["b1"],
    "window": {"last_s": 60},
    "slo": {"percentile": 99, "latency_ms": 5_000},
    "form": "aggregate",
}


class RunPage:
    """The page of the run in `folder`, and an operator's token."""

    def __init__(self, folder):
        url = page.served_at(folder)
        self.port = int(url.rstrip("/").rpartition(":")[2])
        access = str(folder / page.GATEWAY / "access.json")
        self.token = tokens.create_token(access, "me", "operator", rate_per_s=1_000)


def test_it_serves_without_a_first_link_where_the_disk_takes_none(tmp_path):
    (tmp_path / "access.json.new").mkdir()
    with Process(tmp_path) as gateway:
        wait_until(gateway.said, lambda text: "no link to it" in text, processes=[gateway.process])
        assert "access.json cannot be written (" in gateway.said()
        assert ask(gateway, "/healthz").status == 200
        (tmp_path / "access.json.new").rmdir()
        link = tokens.create_link(str(tmp_path / "access.json"), "viewer")
        assert ask(gateway, f"/login?code={link}").status == 303
        assert gateway.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_starts_without_a_master_prints_one_link_and_ends(tmp_path, number):
    with Process(tmp_path) as gateway:
        assert load(gateway.config, GatewayConfig).master != GatewayConfig().master  # of a demo
        wait_until(gateway.said, lambda text: "it works once" in text)
        [code] = re.findall(r"/login\?code=(\S+)", gateway.said())
        got = ask(gateway, f"/login?code={code}")
        assert got.status == 303
        cookie = got.headers["set-cookie"].partition(";")[0]
        assert ask(gateway, "/api/v1/session", Cookie=cookie).json["role"] == "asker"
        with closing(http.client.HTTPConnection("127.0.0.1", gateway.port)) as stream:
            stream.request("GET", "/api/v1/stream", headers={"Cookie": cookie})
            assert stream.getresponse().readline() == b"retry: 2000\n"
            assert gateway.end(number) == 0
    with Process(tmp_path) as gateway:
        assert gateway.said().count("it works once") == 1, "the first start only"
        gateway.process.stdin.close()
        assert gateway.process.wait(PATIENCE_S) == 0
        gateway.process.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - closed at the end


def test_real_rooms_over_the_death_of_their_master(tmp_path):
    with Testbed(part_of(building_fleet(), 1, 2), tmp_path / "bed") as bed:
        for _ in bed.start():
            pass
        [iad] = [each.name for each in bed.plan.iads]
        text = (
            f'[master]\naddresses = ["{bed.public(iad)}"]\n'
            f'[operator]\naddress = "{bed.operator(iad)}"\n'
            "[console]\nevery_s = 0.5\nstale_s = 3600\n"
        )
        folder = tmp_path / "gateway"
        folder.mkdir()
        with Process(folder, text) as gateway:
            token = tokens.create_token(gateway.access, "me", "operator", rate_per_s=1_000)

            def get(path):
                return ask(gateway, f"/api/v1/{path}", token=token)

            def states():
                return {room["state"] for room in get("now").json["rooms"]}

            wait_until(states, lambda found: found == {"live"})
            rooms = get("now").json["rooms"]
            assert len(rooms) == 2
            assert {name: each["unit"] for name, each in rooms[0]["channels"].items()} == {
                "temperature": "°C",
                "humidity": "%",
            }
            area = rooms[0]["area"]
            picture = get(f"readings?area={area}&last=1h&points=10").json
            assert picture["slo_met"] or picture["elapsed_ms"] > 0
            assert sum(picture["channels"]["temperature"]["count"]) > 0
            misspelt = get(f"readings?area={area}&channel=temprature&last=1h")
            assert (misspelt.status, misspelt.reason) == (404, "no_channel")
            assert misspelt.json["detail"] == f"{area} gives only humidity, temperature"
            answer = ask(gateway, "/api/v1/query", "POST", token=token, body=QUERY)
            assert (answer.status, len(answer.json["results"])) == (200, 2)
            assert get("fleet").json["iad"] == iad
            assert get("placement").json["iad"] == iad
            bed.child(iad).signal(signal.SIGKILL)
            wait_until(states, lambda found: found == {"stale"})
            gone = ask(
                gateway, "/api/v1/query", "POST", token=token,
                body={**QUERY, "timeout_ms": 1_000},
            )  # fmt: skip
            assert (gone.status, gone.reason) == (504, "no_reply")
            assert get("now").status == 200
            assert get("fleet").status == 504
            assert gateway.end() == 0
            assert "Traceback" not in gateway.said()


def test_a_run_s_page_asks_the_operators_of_all_its_iads(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "READY_S", PATIENCE_S)
    with Testbed(part_of(building_fleet(emulate=False), 2, 1), tmp_path / "bed") as bed:
        for _ in bed.start():
            pass
        assert page.start(bed) == ""
        gateway = RunPage(bed.directory)

        def told():
            found = ask(gateway, "/api/v1/fleet/all", token=gateway.token).json["iads"]
            return {each["iad"]: each["status"] and len(each["status"]["nodes"]) for each in found}

        wait_until(told, lambda found: found == {"iad1": 1, "iad2": 1})
        bed.kill("iad2")
        wait_until(told, lambda found: found == {"iad1": 1, "iad2": None})
        assert ask(gateway, "/api/v1/placement", token=gateway.token).json["iad"] == "iad1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[alerts]\nfilter = "value >"', "alerts.filter"),
        ('[http]\nlisten = "0.0.0.0:80"', "leaves this host without TLS"),
        ('[http]\ncertificate = "c.pem"\nprivate_key = "k.pem"', "c.pem and k.pem"),
        ('[master]\nkey = "k"\nkeys = ["m"]', "k: No such file"),
        ('[acess]\nfile = "x"', "access"),
        ('[mqtt]\naddress = "mqtt://h"\nfilter = "value >"', "mqtt.filter"),
        ('[mqtt]\naddress = "mqtts://h"\nca = "no.pem"', "mqtt.ca: there is no file"),
        ('[mqtt]\naddress = "mqtts://h"\nca = "open"', "open has no certificate in PEM"),
        ('[gateway]\noutputs = "out.toml"', "out.toml: ntfy.filter of n: at character"),
        ('[line_protocol]\nurl = "http://h/"\nauthorization_file = "open"', "chmod 600"),
        ('[[ntfy]]\nname = "n"\nurl = "https://h/t"\ntoken_file = "no"', "no: No such file"),
        (
            '[email]\nserver="h:25"\nsender="a@b"\nto=["a@b"]\nuser="a"\npassword_file="open"',
            "chmod 600",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_one_line(tmp_path, text, words):
    config = tmp_path / "gateway.toml"
    (tmp_path / "open").write_text("a secret that all may read")
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "out.toml").write_text(
        '[[ntfy]]\nname = "n"\nurl = "https://h/t"\nfilter = "value >"'
    )
    config.write_text(text)
    for more in ((), ("--check",)):
        found = subprocess.run(
            [*COMMAND, "--config", config, *more],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert (found.returncode, found.stderr.count("\n")) == (2, 1), found.stderr
        assert words in found.stderr


def test_an_address_in_use_is_one_line(tmp_path):
    with Process(tmp_path) as gateway:
        found = subprocess.run(
            [*COMMAND, "--config", gateway.config],
            check=False,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
    assert found.returncode == 1
    says = r"Address already in use; \[http\] listen names another port"
    assert re.fullmatch(rf"error: cannot listen on \S+: {says}\n", found.stderr)


# --- fleet gateway -------------------------------------------------------------------------------


@contextmanager
def running(folder):
    """As if a gateway ran in that folder: it holds its log of alerts."""
    with closing(AlertLog(folder / GatewayAlerts().path, print)):
        yield


def test_fleet_gateway_finds_the_page_of_what_runs_here(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    assert run(["gateway", "link"]) == exits.USAGE
    assert (
        "no gateway.toml; name the gateway's configuration by --config" in capsys.readouterr().err
    )
    config = tmp_path / "var/the demo/gateway/gateway.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[http]\nlisten = "127.0.0.1:8099"\n')
    demo = (Addresses("iad1", "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"),)
    with announced(demo, directory=tmp_path / "var/the demo"):
        assert run(["gateway", "link"]) == exits.FAILED
        told = capsys.readouterr()
        assert (told.out, f"no gateway runs with {config}; start it" in told.err) == ("", True)
        assert f"sanderling-gateway --background --config '{config}'" in told.err
        assert f"that runs here: --config '{config}'" in told.err
        with running(config.parent):
            assert run(["gateway", "link"]) == exits.DONE
    told = capsys.readouterr()
    assert told.out.startswith("http://127.0.0.1:8099/login?code=")
    assert f"--config '{config}'" in told.err


def test_fleet_gateway_makes_links_and_tokens(tmp_path, capsys):
    config = str(tmp_path / "gateway.toml")
    Path(config).write_text('[http]\nlisten = "127.0.0.1:8099"\n')
    path = str(tmp_path / "access.json")
    access = tokens.Access(path)
    assert run(["gateway", "token", "create", "grafana", "--config", config]) == exits.DONE
    token = capsys.readouterr().out.strip()
    assert (access.find(token).name, access.find(token).role) == ("grafana", "viewer")
    again = ["gateway", "token", "create", "grafana", "--config", config, "--role", "asker"]
    assert run(again) == exits.USAGE
    assert "already" in capsys.readouterr().err
    with running(tmp_path):
        assert run(["gateway", "link", "--config", config]) == exits.DONE
    code = re.fullmatch(r"http://127\.0\.0\.1:8099/login\?code=(\S+)\n", capsys.readouterr().out)[1]
    assert tokens.open_session(path, code, 60.0)[1] == "asker"
    assert run(["gateway", "token", "list", "--config", config]) == exits.DONE
    shown = capsys.readouterr().out
    assert "grafana: viewer" in shown
    assert "1 token, 1 browser" in shown
    assert run(["gateway", "token", "list", "--json", "--config", config]) == exits.DONE
    assert json.loads(capsys.readouterr().out)["tokens"][0]["name"] == "grafana"
    assert run(["gateway", "token", "revoke", "grafana", "--config", config]) == exits.DONE
    assert access.find(token) is None
    assert run(["gateway", "token", "revoke", "grafana", "--config", config]) == exits.USAGE
    assert run(["gateway", "logout", "--config", config]) == exits.DONE
    assert "1 browsers" in capsys.readouterr().err
    assert run(["gateway", "link", "--config", str(tmp_path / "none.toml")]) == exits.USAGE


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_pages_curls_work(made):
    text = (ROOT / "docs/run/gateway.md").read_text()
    lines = re.findall(r"^    (curl .*)$", text, re.MULTILINE)
    assert len(lines) == 6
    area = next(iter(made.fleet.areas))
    for line in lines:
        ready = line.replace("127.0.0.1:8080", f"127.0.0.1:{made.port}")
        ready = ready.replace("$TOKEN", made.asker).replace("b1/f4/r413", area)
        ready = ready.replace("b1/f4", "b1/f1")
        command = [*shlex.split(ready), "--silent", "--fail"]
        if "-N" in command:
            command += ["--max-time", "3"]
        found = subprocess.run(command, check=False, capture_output=True)
        assert found.returncode == (28 if "-N" in command else 0), line
        assert found.stdout or "-N" in command
