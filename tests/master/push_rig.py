"""Real masters of an overlay, nodes that tell of triggers, and subscribers, in a test's hands."""

from __future__ import annotations

import os

import zmq

from agent.alerts.notifications import history_of
from agent.client import Operator
from agent.wire.base import TRIGGER_RAISED
from agent.wire.codec import Decoder, encode
from agent.wire.node_messages import EventsTaken, NodeEvent, NodeEvents
from agent.wire.overlay import Origin
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed, Unsubscribe
from agent.wire.unions import PublicReply
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess, installed
from tests.master.rig import LOST_AFTER, PATIENCE_MS, FakeNode

# vertex, cluster
PLACES = {"iad1": ("a", 0), "iad2": ("b", 0), "iad3": ("a", 1), "iad4": ("b", 1)}


def overlay_text(iad, addresses, places):
    """The section of the configuration: a path of two times a complete graph of two."""
    vertex, cluster = places[iad]
    text = f'[overlay]\nvertex = "{vertex}"\ncluster = {cluster}\n'
    text += 'links = [["a", "b"]]\nclusters = 2\n'
    for other, (v, c) in places.items():
        if (v == vertex) != (c == cluster):
            text += f'[[overlay.neighbour]]\niad = "{other}"\nvertex = "{v}"\ncluster = {c}\n'
            text += f'address = "{addresses[other]}"\n'
    return text


class PushMaster(AgentProcess):
    command = (installed("sanderling-master"),)

    def __init__(self, folder, iad, public=None, overlay=""):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.iad = iad
        self.public = public or free_address()
        self.nodes, self.operator = free_address(), free_address()
        self.config = folder / "master.toml"
        self.config.write_text(
            f'[iad]\nname = "{iad}"\n[sockets]\npublic = "{self.public}"\n'
            f'nodes = "{self.nodes}"\noperator = "{self.operator}"\n{overlay}'
            f"[liveness]\nlost_after = {LOST_AFTER}\n"
        )
        self.start()

    def start(self):
        super().start()
        self.status()

    def status(self):
        with Operator(self.operator) as operator:
            return operator.status(PATIENCE_MS)

    def wait_until(self, condition):
        """Until the counters are so."""
        return self.wait_for(lambda: self.status().counters, condition)

    def wait_for_links(self, count=2):
        return self.wait_until(lambda counters: counters["overlay_links_up"] == count)


class Node(FakeNode):
    """Its history is a new one."""

    def __init__(self, context, master):
        super().__init__(context, master.nodes, "n1", ("b1/f4/r1",))
        self.history = os.urandom(4).hex()
        self.told_history = history_of("n1", self.history)
        self.iad = master.iad

    def tell(self, *sequences, value=31.5, kind=TRIGGER_RAISED, areas=("b1/f4/r1",)):
        made = [
            NodeEvent(
                each, kind, 1_000 + each, True, "dht", "temperature",
                trigger="hot", value=value, areas=areas,
            )
            for each in sequences
        ]  # fmt: skip
        self.send(NodeEvents("boot-n1", self.history, tuple(made), oldest=min(sequences)))

    def origin(self, sequence):
        """Of the notification that an event in one area becomes."""
        return Origin(self.iad, self.told_history, 16 * sequence)

    def await_taken(self, *sequences):
        while not isinstance(taken := self.receive(), EventsTaken):
            pass
        assert taken.sequences == sequences


class Subscriber:
    def __init__(self, context, master, wanted, *, durable=False, after=None, name="s"):
        self.name = name
        self.decoder = Decoder(PublicReply)
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(master.public)
        self.send(Subscribe(name, wanted, durable, after))
        self.opened = self.receive()
        assert isinstance(self.opened, Subscribed)

    def send(self, message):
        self.socket.send(encode(message))

    def receive(self):
        assert self.socket.poll(PATIENCE_MS), f"nothing for {self.name}"
        return self.decoder.decode(self.socket.recv())[0]

    def notified(self):
        """The next notification, which is acknowledged."""
        found = self.receive()
        assert isinstance(found, Notified), found
        self.send(AcknowledgeNotifications(self.name, found.position))
        return found

    def last(self, node, sequence):
        """An alert that a test tells when all before it are settled is the next that comes: what
        came twice would come first."""
        assert self.notified().notification.origin == node.origin(sequence)

    def end(self):
        self.send(Unsubscribe(self.name))
        while not isinstance(reply := self.receive(), Subscribed):
            pass
        assert reply.state == "cancelled"
        self.socket.close()
