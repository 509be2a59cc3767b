"""What tells a moment of the handover's world from others: all that it has (`exact`), or all that
can make a difference (`canonical`).

What nothing reads any more before it is written anew makes no difference: so moments of one
canonical key have the same future. `test_handover_moment.py` checks that event by event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.placement.handover.events import Checkpoint, Write
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target

if TYPE_CHECKING:
    from tests.placement.exactly_once import Processed
    from tests.placement.handover_node import Node, Save
    from tests.placement.handover_world import World


# -- all that it has -----------------------------------------------------------------------------


def exact(world: World) -> Any:
    """The moment as it is, with times from now on."""
    subscribed = world.subscribed
    return (
        tuple(_exact_node(node, world.now) for node in world.nodes.values()),
        tuple(tuple(map(message, messages)) for messages in world.links.values()),
        world.cut,
        world.crashes,
        world.partitions,
        world.moves,
        world.saves,
        world.mark,
        world.given,
        world.published,
        world.route,
        world.inbox,
        subscribed.epoch,
        subscribed.position,
        *subscribed.seen.items(),
    )


def _exact_node(node: Node, now: float) -> Any:
    holder = node.holder
    return (
        node.up,
        _record(node.disk),
        checkpoint(node.kept),
        tuple(map(_exact_write, node.writes)),
        node.state,
        node.held,
        node.paused,
        node.saved,
        processed(node.processed),
        _record(holder.record),
        holder.epoch,
        holder.starting,
        checkpoint(holder.checkpoint),
        _machine(holder.machine, now),
    )


def _exact_write(one: Write | Save) -> Any:
    if isinstance(one, Write):
        return (_record(one.record), one.checkpoint and checkpoint(one.checkpoint))
    return (one.epoch, checkpoint(one.checkpoint))


def _record(one: Any) -> Any:
    return one and (one.epoch, one.standing)


def checkpoint(one: Checkpoint) -> Any:
    """A checkpoint, as a part of a key."""
    return (one.state, one.outputs, *one.taken.items())


def processed(one: Processed | None) -> Any:
    """What a unit keeps of its messages, as a part of a key."""
    return one and (one.epoch, one.position, one.outputs, *one.seen.items())


def message(one: Any) -> Any:
    """A message on its way, as a part of a key."""
    copied = getattr(one, "checkpoint", None)
    if copied is None:
        return one
    return (type(one), one.attempt, getattr(one, "epoch", 0), checkpoint(copied))


def _machine(one: Source | Target | None, now: float) -> Any:
    if isinstance(one, Source):
        return (
            "source",
            one.state,
            one.epoch,
            one.attempt,
            max(0.0, round(one.deadline - now, 3)),
            one.offering,
            one.paused,
            bool(one.reason),
        )
    return one and (
        "target",
        one.state,
        one.epoch,
        one.attempt,
        max(0.0, one.deadline - now),
        max(0.0, one.again - now),
        one.void,
        one.checkpoint and checkpoint(one.checkpoint),
    )


# -- all that can make a difference --------------------------------------------------------------


def canonical(world: World) -> Any:
    """The moment without what makes no difference any more. Bodies and the inbox follow from their
    lengths, since `check` holds."""
    subscribed = world.subscribed
    # What else of the world a node's key depends on.
    view = (world.crashes > 0, world.saves > 0, world.now)
    return (
        *(_node_key(node, view) for node in world.nodes.values()),
        *(tuple(map(message, messages)) for messages in world.links.values()),
        world.cut,
        world.crashes,
        world.partitions,
        world.moves,
        world.saves,
        world.mark,
        world.given,
        world.route,
        len(world.inbox),
        subscribed.epoch,
        subscribed.position,
    )


def _node_key(node: Node, view: tuple[bool, bool, float]) -> Any:
    """Nodes are shared by moments, and so are their keys."""
    if node.key is None or node.key[0] != view:
        node.key = (view, _canonical_node(node, *view))
    return node.key[1]


def _canonical_node(node: Node, crashes: bool, saves: bool, now: float) -> Any:
    holder, machine = node.holder, node.holder.machine
    # Whether what is on disk can be read again: by a restart.
    read = crashes or not node.up
    return (
        node.up,
        _disk(node, read),
        tuple((_record(getattr(each, "record", 0)), _written(each, read)) for each in node.writes),
        node.held,
        _working(node, saves),
        _record(holder.record),
        holder.epoch,
        holder.starting,
        _machine(machine, now),
    )


def _disk(node: Node, read: bool) -> Any:
    if node.disk is None or node.disk.standing == "released":
        return _record(node.disk)  # A master that has no part in the unit reads no checkpoint.
    if read:
        return (*_record(node.disk), _work_of(node.kept))
    holder = node.holder
    if holder.starting is not None or node.processed is None:
        return (node.disk.standing, _work_of(node.kept))  # The unit will begin with it here.
    return (node.disk.standing, len(node.kept.state))


def _written(one: Write | Save, read: bool) -> Any:
    if one.checkpoint is None:
        return None
    return _work_of(one.checkpoint) if read else len(one.checkpoint.state)


def _work_of(one: Checkpoint) -> Any:
    """A checkpoint's outputs get a new epoch and positions before they are sent."""
    return (len(one.state), tuple(each.sequence for each in one.outputs), *one.taken.items())


def _working(node: Node, saves: bool) -> Any:
    """What the unit has in memory, if it works on with that: else it begins with a checkpoint."""
    machine = node.holder.machine
    resumes = isinstance(machine, Source) and machine.state != "handed"
    if node.holder.epoch is None and not resumes:
        return node.processed is None
    return (len(node.state), node.paused, saves and node.saved, processed(node.processed))
