"""Node membership: joins, liveness and reported state of edge nodes at their task scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

from agent.scheduling.events import (
    HomeChanged,
    Instruction,
    NodeAlive,
    NodeHeard,
    NodeJoined,
    NodeLeft,
    NodePods,
    NodeRefused,
    Peer,
    PodsWanted,
    SendToNode,
    TellOperator,
)
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.dispatch import Dispatcher
from agent.scheduling.tasks.entry import Node, SubtaskEntry
from agent.scheduling.tasks.joining import KnownNodes
from agent.scheduling.tasks.node_claims import QUIET_S, why_not_theirs
from agent.scheduling.tasks.nodes import NodeTable
from agent.scheduling.timers import Timers
from agent.wire.messages import MissingReason
from agent.wire.node_messages import (
    Heartbeat,
    Hello,
    HelloWanted,
    HomeMoved,
    Rejected,
    SetPods,
    Welcome,
)
from agent.wire.principals import Sender

MAX_NODES = 10_000
# Nodes that left or were lost, forgotten at once when there are too many: the index of all areas is
# then made anew.
FORGOTTEN = 500
# A change of areas costs a look at those of all nodes, and what was known of queries. A node
# changes them when it starts with another configuration.
MOVE_S = 1.0
MOVED = f"the areas of this node changed less than {MOVE_S:g} s ago; try again"

# Each cut of a connection loses its subtasks. A subtask may itself cause the cut, so retries are
# bounded.
MAX_DISPATCHES = 3
LOST = f"the connection was lost {MAX_DISPATCHES} times while this was served"


class Unserved(NamedTuple):
    """A subtask that its node will not answer any more; `message` says why in words."""

    subtask: SubtaskEntry
    reason: MissingReason
    message: str = ""


class NodeMembership:
    """Handles the nodes' own messages; consequences for tasks go through `give_up`.

    A node that is silent for `silence_s` is lost until it is heard again. A name belongs to the key
    of the link, where there is one; then to the history, since a process with its predecessor's
    history is the same node; then to the node that is heard.
    """

    def __init__(
        self,
        estimator: DeadlineEstimator,
        dispatcher: Dispatcher,
        give_up: Callable[[Unserved, float, list[Instruction]], None],
        known: KnownNodes,
        *,
        heartbeat_s: float,
        lost_after: int,
        takes_events: bool,
    ) -> None:
        self._estimator = estimator
        self._dispatcher = dispatcher
        self._give_up = give_up
        self._known = known
        self._heartbeat_s = heartbeat_s
        self._silence_s = heartbeat_s * lost_after
        self._takes_events = takes_events
        self._silences: Timers[Node] = Timers()
        self._wanted_pods: dict[str, int] = {}
        # The nodes that lived here, and where each went.
        self._homes: dict[str, str] = {}
        # Those that left or are lost, the first of them first.
        self._gone: dict[str, Node] = {}
        self.nodes = NodeTable()
        self.redispatched = 0
        # Of a node's history: the sequence below which its events are settled, and the last known.
        self.events_known: Callable[[str, str], tuple[int, int]] = lambda _node, _history: (0, 0)

    @property
    def next_s(self) -> float:
        """When `tick` is due next; infinity: never."""
        return self._silences.first_s

    def tick(self, now: float) -> None:
        """Mark silent nodes as lost."""
        for node in self._silences.due(now):
            due = node.seen_s + self._silence_s
            if node.state == "live" and due > now:
                self._silences.set(due, node)
                continue
            node.watched = False
            if node.state == "live":
                node.become("lost")
                self._gone[node.name] = node

    def heard(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """The node was heard. One silence timer per node is enough: it reads `seen_s`."""
        if node.state == "lost":
            node.become("live")
            del self._gone[node.name]
            self._set_pods(node, instructions)
        if not node.watched:
            node.watched = True
            self._silences.set(now + self._silence_s, node)
        node.seen_s = now

    # --- messages of nodes -------------------------------------------------------------------

    def joined(self, event: NodeJoined, now: float) -> list[Instruction]:
        """Handle a hello: the node is new, came back, or has a new link."""
        hello, peer = event.hello, event.peer
        node = self.nodes.named(hello.node)
        objection = self._objection(event)
        if objection:
            return [SendToNode(peer, Rejected(objection))]
        if node is not None and self._is_another(node, event, now):
            return self._refuse_namesake(node, event, now)
        moves = node is not None and node.hello.areas != hello.areas
        if node is not None and moves and now < node.moved_s + MOVE_S:
            return [SendToNode(peer, Rejected(MOVED))]
        instructions: list[Instruction] = []
        if node is None:
            if len(self.nodes) >= MAX_NODES:
                self._forget_some(instructions)
                if len(self.nodes) >= MAX_NODES:
                    reason = f"this master has {MAX_NODES} nodes already"
                    return [*instructions, SendToNode(peer, Rejected(reason))]
            node = Node(hello.node, self._estimator.add_node())
        else:
            if node.hello.incarnation != hello.incarnation:
                node.displaced.append(node.hello.incarnation)
            if moves:
                node.moved_s = now
                # Waiting subtasks ask for readings that the node no longer covers.
                self._give_up_all(node, now, instructions)
        self.nodes.bind(node, hello, peer, event.address)
        node.allowed = event.sender.areas
        node.joined_s = now
        self._gone.pop(node.name, None)
        node.become("live")
        instructions += self._known.joined(node.name, hello.areas)
        self._reconcile(node, set(hello.running), math.inf, now, instructions)
        for subtask in node.busy.values():
            # Its response time would include the cut, so it is not an unloaded one.
            subtask.unbroken = False
        self.heard(node, now, instructions)
        # The events of a node that lives elsewhere are its home's.
        takes_events = self._takes_events and (hello.followed or node.name not in self._homes)
        settled, to = self.events_known(node.name, hello.history) if takes_events else (0, 0)
        welcome = Welcome(
            hello.incarnation,
            self._heartbeat_s,
            takes_events,
            events_to=max(0, to),
            events_settled=max(0, settled),
        )
        instructions.append(SendToNode(peer, welcome))
        self._tell_home(node, now, instructions)
        self._set_pods(node, instructions)
        self._dispatcher.serve(node, now, instructions)
        return instructions

    def _objection(self, event: NodeJoined) -> str:
        """Why the hello is rejected; empty if it is not."""
        hello, sender = event.hello, event.sender
        if sender.role != "anyone" and (sender.role, sender.name) != ("node", hello.node):
            return f"this key is that of {sender.role} {sender.name}, not of node {hello.node}"
        speaker = self.nodes.on(event.peer)
        if speaker is not None and speaker.name != hello.node:
            return f"this link speaks for {speaker.name}"
        return why_not_theirs(hello.node, hello.areas, sender.areas)

    def _is_another(self, node: Node, event: NodeJoined, now: float) -> bool:
        """Whether the hello is a second machine's, while the node is heard on another link. Two
        with the same history are told apart once the later one has replaced the other."""
        hello = event.hello
        if node.state != "live" or now >= node.seen_s + self._silence_s:
            return False
        if event.peer == node.peer or hello.incarnation == node.hello.incarnation:
            return False
        return hello.history != node.hello.history or hello.incarnation in node.displaced

    def _refuse_namesake(self, node: Node, event: NodeJoined, now: float) -> list[Instruction]:
        refusal = (
            f"another node named {node.name} is at work here; is its configuration a copy? "
            "Give this one another name"
        )
        instructions: list[Instruction] = [SendToNode(event.peer, Rejected(refusal))]
        if now >= node.quiet_until_s:
            node.quiet_until_s = now + QUIET_S
            newcomer = _described(event.hello, event.address)
            line = (
                f"two nodes are named {node.name}: {newcomer} was refused while "
                f"{_described(node.hello, node.address)} is at work; if one's configuration is a "
                "copy, give it another name"
            )
            instructions.append(TellOperator(line))
        return instructions

    def alive(self, event: NodeAlive, now: float) -> list[Instruction]:
        """Handle a heartbeat."""
        node = self._speaking(event)
        if node is None:
            return [SendToNode(event.peer, HelloWanted())]
        if node.allowed is not event.sender.areas and not self._still_may(node, event.sender):
            # Its next hello is answered with the reason.
            return [*self._leaves(node, now), SendToNode(event.peer, HelloWanted())]
        instructions: list[Instruction] = [SendToNode(event.peer, Heartbeat(event.incarnation))]
        self.heard(node, now, instructions)
        if event.running is not None:
            # Subtasks dispatched since the last heartbeat may not have reached the node yet.
            self._reconcile(node, set(event.running), node.beat_s, now, instructions)
            node.beat_s = now
        self._dispatcher.serve(node, now, instructions)
        return instructions

    def _still_may(self, node: Node, sender: Sender) -> bool:
        """Whether the node may speak for its areas now that the allow-list was read again."""
        node.allowed = sender.areas
        return not why_not_theirs(node.name, node.hello.areas, sender.areas)

    def left(self, event: NodeLeft, now: float) -> list[Instruction]:
        """Handle a goodbye. With keys the sender has a name; without, it is believed."""
        node = self._speaking(event)
        if node is None:
            return self._known.stopped(_name_of(event))
        return self._leaves(node, now)

    def refused(self, event: NodeRefused, now: float) -> list[Instruction]:
        """Its key was revoked: otherwise its subtasks would be given up only after missed
        heartbeats."""
        return self._leaves(self.nodes.on(event.peer), now)

    def _leaves(self, node: Node | None, now: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        if node is not None:
            node.become("left")
            self._gone.pop(node.name, None)
            self._gone[node.name] = node
            instructions += self._known.left(node.name)
            self.nodes.unbind(node)
            self._give_up_all(node, now, instructions)
            self._reconcile(node, set(), math.inf, now, instructions)
        return instructions

    def _forget_some(self, instructions: list[Instruction]) -> None:
        """Forget the nodes that have been gone longest, but for those that may still answer."""
        idle = (each for each in self._gone.values() if not each.queue and not each.may_answer)
        for node in [*islice(idle, FORGOTTEN)]:
            del self._gone[node.name]
            self.nodes.remove(node)
            self._estimator.remove_node(node.column)
            instructions += self._known.left(node.name)

    def pods(self, event: NodePods, now: float) -> list[Instruction]:
        """The node's number of pods changed; with fewer than are busy, nothing is dispatched until
        enough have finished."""
        node = self._speaking(event)
        if node is None:
            return [SendToNode(event.peer, HelloWanted())]
        instructions: list[Instruction] = []
        self.heard(node, now, instructions)
        node.pods = event.count
        node.told_pods = None
        self._dispatcher.serve(node, now, instructions)
        return instructions

    def spoke(self, event: NodeHeard, now: float) -> list[Instruction]:
        """Handle a message that shows only that the node is alive."""
        node = self._speaking(event)
        if node is None:
            return [SendToNode(event.peer, HelloWanted())]
        instructions: list[Instruction] = []
        self.heard(node, now, instructions)
        self._dispatcher.serve(node, now, instructions)
        return instructions

    def speaker(self, peer: Peer, incarnation: str) -> Node | None:
        """The node whose process of this incarnation speaks on the link."""
        node = self.nodes.on(peer)
        if node is None or node.hello.incarnation != incarnation:
            return None
        return node

    def _speaking(self, event: NodeAlive | NodeHeard | NodeLeft | NodePods) -> Node | None:
        return self.speaker(event.peer, event.incarnation)

    # --- messages to nodes -------------------------------------------------------------------

    def pods_wanted(self, event: PodsWanted, now: float) -> list[Instruction]:
        """The node shall have this many pods, now or when it joins."""
        self._wanted_pods[event.node] = event.count
        instructions: list[Instruction] = []
        if (node := self.nodes.named(event.node)) is not None:
            self._set_pods(node, instructions)
            # Reducing a number that it was told may be undone.
            self._dispatcher.serve(node, now, instructions)
        return instructions

    def home_changed(self, event: HomeChanged, now: float) -> list[Instruction]:
        """The node shall go to its home, now or when it joins."""
        self._homes.pop(event.node, None)
        if event.home is not None:
            self._homes[event.node] = event.home
        instructions: list[Instruction] = []
        node = self.nodes.named(event.node)
        if node is not None and node.state == "live":
            node.home_told_s = -math.inf
            self._tell_home(node, now, instructions)
        return instructions

    def _tell_home(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        home, hello = self._homes.get(node.name), node.hello
        if home is None or hello.followed:
            return
        if home in hello.masters:
            moved = HomeMoved(hello.incarnation, home)
            instructions.append(SendToNode(node.peer, moved))
        elif now >= node.home_told_s + QUIET_S:  # it may say hello all the time
            node.home_told_s = now
            line = (
                f"the home of node {node.name} is {home}, which its configuration does not name; "
                "it stays here, and its events wait"
            )
            instructions.append(TellOperator(line))

    def _set_pods(self, node: Node, instructions: list[Instruction]) -> None:
        wanted = self._wanted_pods.get(node.name)
        if wanted is None or node.state != "live":
            return
        if wanted != (node.pods if node.told_pods is None else node.told_pods):
            node.told_pods = wanted
            instructions.append(SendToNode(node.peer, SetPods(wanted)))

    # --- running subtasks --------------------------------------------------------------------

    def _reconcile(
        self,
        node: Node,
        running: set[int],
        before_s: float,
        now: float,
        instructions: list[Instruction],
    ) -> None:
        """Compare with the subtasks that the node reports as running. One that was sent before
        `before_s` and is not running was lost on the way: it returns to its place in the queue,
        unless it was lost too often."""
        for subtask_id, subtask in list(node.busy.items()):
            assert subtask.dispatched_s is not None
            if subtask_id in running or subtask.dispatched_s >= before_s:
                continue
            del node.busy[subtask_id]
            if subtask.state == "abandoned":
                subtask.become("forgotten")
                continue
            if subtask.dispatches >= MAX_DISPATCHES:
                self._give_up(Unserved(subtask, "node_error", LOST), now, instructions)
                subtask.become("forgotten")
                continue
            self.redispatched += 1
            self._dispatcher.put_back(subtask)
        node.strangers = running.difference(node.busy)

    def _give_up_all(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """Settle every subtask that is queued for the node or runs there."""
        while node.queue:
            self._give_up(Unserved(node.queue.pop(), "node_down"), now, instructions)
        for subtask in node.busy.values():
            if subtask.state == "dispatched":
                self._give_up(Unserved(subtask, "node_down"), now, instructions)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        gone = {node.name: node for node in self.nodes if node.state in ("left", "lost")}
        assert gone == self._gone


def _name_of(event: NodeLeft) -> str:
    return event.node if event.sender.role == "anyone" else event.sender.name


def _described(hello: Hello, address: str) -> str:
    """Describe the machine, for the operator; its history is self-reported."""
    where = f" at {address}" if address else ""
    return f"the one{where} with history {hello.history!r}"
