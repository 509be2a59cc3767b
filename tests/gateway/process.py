"""`sanderling-gateway` as a process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from fleet.testbed.ports import free_ports
from testkit.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "agent.gateway.main")
READY = "listening on"
# The default address is that of a demo, in which a gateway leaves a durable subscription.
NOWHERE = '[master]\naddresses = ["tcp://127.0.0.1:1"]\n'


class Process:
    """The gateway with the configuration `text`, and what it wrote. It may be started again, with
    its folder as it is."""

    command = COMMAND

    def __init__(self, folder, text=NOWHERE):
        self.port = free_ports(1)[0]
        self.config = folder / "gateway.toml"
        self.config.write_text(f'{text}\n[http]\nlisten = "127.0.0.1:{self.port}"\n')
        self.access = str(folder / "access.json")
        self.log = folder / "gateway.log"

    def __enter__(self):
        before = self.said().count(READY)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, "--config", self.config, "--exit-on-stdin-eof"],
                stdin=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )
        wait_until(self.said, lambda text: text.count(READY) > before, processes=[self.process])
        return self

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def end(self, number=signal.SIGTERM):
        os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE_S)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
