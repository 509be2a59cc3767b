"""A real broker in a test's hands, and a client that listens to all of it."""

import json
import shutil
import socket
import subprocess
import threading

import pytest

from fleet.testbed.ports import free_ports
from testkit.waiting import wait_until

PROGRAM = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")
PASSWORDS = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin")


def require_mosquitto():
    """Skips in words where there is none."""
    if PROGRAM is None:
        pytest.skip("no mosquitto here: tools/missing_packages.sh long says what to install")


class Mosquitto:
    """Started, ended and emptied by the test; it listens on loopback only."""

    def __init__(self, folder, *, more="allow_anonymous true\n", tls=False):
        require_mosquitto()
        self.folder, self.more = folder, more
        (self.port,) = free_ports(1)
        self.process = None
        self.database = folder / "mosquitto.db"

    def start(self, *, empty=False):
        if empty:
            self.database.unlink(missing_ok=True)
        config = self.folder / "mosquitto.conf"
        config.write_text(
            f"listener {self.port} 127.0.0.1\npersistence true\npersistence_location "
            f"{self.folder}/\nlog_type error\nset_tcp_nodelay true\nuser root\n{self.more}"
        )
        self.process = subprocess.Popen([PROGRAM, "-c", str(config)], stderr=subprocess.DEVNULL)
        wait_until(self._answers)

    def _answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self, *, kill=False):
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait()
            self.process = None


class Listener:
    """Keeps the newest payload of each topic, all that came, and in `again` what the broker says
    that it sent before."""

    def __init__(self, port, pattern="#", **options):
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion

        self.newest, self.came, self.again = {}, [], []
        self.lock = threading.Lock()
        self.subscribed = threading.Event()
        session = options.get("session", "")
        self.client = Client(CallbackAPIVersion.VERSION2, session, clean_session=not session)
        self.client.reconnect_delay_set(1, 1)
        if options.get("user"):
            self.client.username_pw_set(options["user"], options["password"])
        self.client.on_connect = lambda client, *_: client.subscribe(pattern, 1)
        self.client.on_subscribe = lambda *_: self.subscribed.set()
        self.client.on_message = self._on_message
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self.subscribed.wait(60)

    def _on_message(self, _, __, message):
        with self.lock:
            self.came.append((message.topic, bytes(message.payload)))
            self.newest[message.topic] = bytes(message.payload)
            if message.dup:
                self.again.append(bytes(message.payload))

    def retained(self):
        """What there is, without what was emptied."""
        with self.lock:
            return {topic: each for topic, each in self.newest.items() if each}

    def json(self, topic):
        return json.loads(self.newest[topic])

    def publish(self, topic, payload, **more):
        self.client.publish(topic, payload, 1, **more).wait_for_publish(60)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()
