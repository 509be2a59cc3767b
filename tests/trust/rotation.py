"""Changing keys under load: the steps of docs/understand/trust.md, and queries that go on all the
while."""

import threading

from agent.client import NoReplyError
from agent.net.keys import new, read_secrets
from tests.trust.rig import IADS


class Stream:
    """Queries without end, from a thread, whose answers are kept."""

    def __init__(self, client, ask):
        self.client = client
        self.ask = ask
        self.came = []
        self.ended = threading.Event()
        self.asked = threading.Condition()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with self.client:
            while not self.ended.is_set():
                try:
                    came = self.ask(self.client).status
                except NoReplyError as error:
                    came = str(error)
                with self.asked:
                    self.came.append(came)
                    self.asked.notify_all()

    def more(self, count=5):
        """Wait for further answers."""
        with self.asked:
            goal = len(self.came) + count
            assert self.asked.wait_for(lambda: len(self.came) >= goal, 60)

    def stop(self):
        self.ended.set()
        self.thread.join()


class Rotation:
    """New keys for these parties of a fleet."""

    def __init__(self, fleet, names):
        self.fleet = fleet
        self.old = {n: read_secrets(str(fleet.folder / f"{n}.secret"))[0] for n in names}
        self.new = {n: new(str(fleet.folder / f"{n}-next")) for n in names}

    def write(self, suffix, *generations):
        for name in self.old:
            keys = [getattr(generation[name], suffix) for generation in generations]
            self.fleet.replace(f"{name}.{suffix}", "".join(f"{key}\n" for key in keys))

    def announce(self):
        self.write("public", self.old, self.new)
        for iad in IADS:
            self.fleet.allow(iad)

    def switch(self):
        self.write("public", self.new, self.old)
        self.write("secret", self.new, self.old)

    def forget(self):
        self.write("secret", self.new)
        self.write("public", self.new)
        for iad in IADS:
            self.fleet.allow(iad)
