"""What the pages of the gateway and its outputs say to paste, pasted: a page served in the
background, and rooms at a real broker, of `fleet up` and of a demo."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from fleet.demo import alerts as demo_alerts
from fleet.simulation.layout import FleetLayout, building_fleet
from fleet.testbed.ports import free_ports
from fleet.testbed.testbed import Testbed
from testkit.waiting import PATIENCE_S, wait_until
from tests.docs import pages
from tests.gateway.outputs.mosquitto import Listener, Mosquitto
from tests.gateway.outputs.reader import entities

GATEWAY, OUTPUTS = "docs/run/gateway.md", "docs/use/outputs.md"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".venv").symlink_to(pages.ROOT / ".venv")
    return tmp_path


@pytest.fixture
def environment(folder):
    """Nobody's demo or `fleet up` is found but the test's own."""
    return {"XDG_RUNTIME_DIR": str(folder / "runtime"), "CI": "1"}


@pytest.fixture
def listener(folder):
    broker = Mosquitto(folder)
    broker.start()
    with closing(Listener(broker.port)) as made:
        made.port = broker.port
        yield made
    broker.stop()


def seen(listener):
    with listener.lock:
        return dict(listener.newest)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_a_page_is_started_and_given_a_token(folder, environment):
    text = pages.script(GATEWAY, "Start it", "Tokens")
    (port,) = free_ports(1)
    # Somebody may have a page at the usual port.
    before = f"printf '[http]\\nlisten = \"127.0.0.1:{port}\"\\n' > gateway.toml\n"
    after = f"\ncurl --silent --fail http://127.0.0.1:{port}/healthz\n"
    lines = pages.pasted(before + text + after, folder, environment=environment)
    pages.require_sound(lines, folder)
    shown = "\n".join(lines)
    assert f"http://127.0.0.1:{port}/login?code=" in shown
    assert "grafana: viewer" in shown


@pytest.mark.long
def test_the_rooms_of_fleet_up_reach_a_broker(folder, environment, listener):
    text = pages.script(OUTPUTS, "Try it with `fleet up`")
    assert text.count(":1883") == 1
    text = text.replace(":1883", f":{listener.port}")
    try:
        pages.require_sound(pages.pasted(text, folder, environment=environment), folder)
        found = wait_until(
            lambda: [e for e in entities(seen(listener)).values() if e.platform == "sensor"],
            lambda found: len(found) == 2 and all(e.available and e.state for e in found),
        )
        assert {(each.device_class, each.unit) for each in found} == {
            ("temperature", "°C"),
            ("humidity", "%"),
        }
    finally:
        pages.pasted(".venv/bin/fleet down", folder, environment=environment)


@pytest.mark.long
def test_the_rooms_and_alerts_of_a_demo_reach_a_broker(folder, environment, listener):
    """The demo's fleet, with the nodes whose alerts the page shows."""
    text = pages.script(OUTPUTS, "Try it with the demo")
    (page,) = free_ports(1)
    # It goes on until Ctrl-C: meanwhile the reader looks at the broker.
    text = f"{text.rstrip()} &\ncat done\nkill -INT $!; wait $!\n"
    os.mkfifo(folder / "done")
    plan = FleetLayout(tuple(i for i in building_fleet(emulate=False).iads if i.name == "iad4"))
    with (
        Testbed(plan, folder / "demo", triggers=demo_alerts.TRIGGERS) as bed,
        ThreadPoolExecutor(1) as terminal,
    ):
        for _ in bed.start():
            pass
        public = bed.public("iad4").removeprefix("tcp://127.0.0.1")
        for usual, own in {
            ":1883": f":{listener.port}",
            ":5700": public,
            ":8081": f":{page}",
        }.items():
            assert text.count(usual) == 1
            text = text.replace(usual, own)
        shown = terminal.submit(pages.pasted, text, folder, environment=environment)
        try:
            wait_until(
                lambda: shown.done() or shows_what_the_page_does(seen(listener)), what="a room"
            )
        finally:
            (folder / "done").write_text("\n")
        lines = shown.result(PATIENCE_S)
    pages.require_sound(lines, folder)
    assert f"http://127.0.0.1:{page}/login?code=" in "\n".join(lines)
    assert shows_what_the_page_does(seen(listener))


def shows_what_the_page_does(newest):
    """Whether each of the lines that stand there as an example has come, of some room."""
    [example] = re.findall(
        r"```\n(sanderling/gateway/.*?)```", (pages.ROOT / OUTPUTS).read_text(), re.DOTALL
    )
    lines = example.splitlines()
    assert len(lines) == 3

    def came(line):
        topic, payload = line.split(" ", 1)
        kind = re.escape(topic.rpartition("/b1/")[0])
        start = re.match(r"[^0-9]*(?=iad4|[0-9]|$)", payload)[0].encode()
        return any(
            re.match(f"{kind}/b1/f[46]/", t) and p.startswith(start) for t, p in newest.items()
        )

    return all(map(came, lines))
