"""A master of a model of homes: its sockets are a list of messages, and a write may kill it."""

from __future__ import annotations

from agent.wire.codec import encode
from tests.master.event_ends import Killed


class HomeMaster:
    """Stands for its public plane, operator plane and peers. `world.between` has what masters send
    each other; `kill` starts it anew with what is on its disk."""

    unreachable = ()

    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def takes_refusals(self, _prefix, _handler):
        pass

    def send(self, iad, message):
        self.world.between.append((self.iad, iad, encode(message)))
        return True

    def do(self, job):
        try:
            job()
        except Killed:
            self.kill()
