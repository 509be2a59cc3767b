"""The anchors of all clones of a master's devices: requests of operators, readings to clones, and
what clones put out to their devices.

An output is given to its device once: the position of the subscription is written in one
transaction with what the device's part of the master keeps of it, and only then acknowledged. After
a kill the subscription sends what came since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from _core.queue.edf import EdfQueue
from agent.clones.anchor import Anchor
from agent.clones.events import (
    AnchorsDue,
    AnchorsEvent,
    AskInbox,
    AskPeers,
    CloneAsked,
    EndTopic,
    ForgetClone,
    ForgetDevice,
    InboxSaid,
    Kept,
    MakeTopic,
    OutputKept,
    Peer,
    PeersResolved,
    ReadingsCame,
    SaveClone,
    SendReport,
    Taken,
    TellOperator,
    TopicEnded,
    TopicMade,
)
from agent.clones.flow import Flow, Instructions
from agent.clones.names import digest_of, topic_of
from agent.wire.clones import (
    MAX_CLONES,
    CloneOf,
    CloneReport,
    CloneRequest,
    CloneStatus,
    CreateClone,
    ListClones,
)
from agent.wire.predicate_language import read_recent
from agent.wire.push import (
    Unsubscribe,
)
from agent.wire.topics import Clone, Topic

# An inbox detaches a client that is silent for a minute.
RENEW_S: Final = 20.0
# How long the masters of peers are waited for.
PATIENCE_S: Final = 2.0


class Anchors:
    """`secret` is this master's, and never changes; `new_id` gives 128 random bits as text; `areas`
    tells those of a node, if it is known; `where` at which IAD a topic lives, if it is; `waiting`
    how many sets of values wait for a device; `stays` why a clone that may leave will not by
    itself; `unmet` which channels a clone uses that its device does not have, both in words. `now`
    is monotonic seconds. An event is O(log clones) and what it sends; a list is O(clones)."""

    def __init__(
        self,
        iad: str,
        secret: bytes,
        new_id: Callable[[], str],
        *,
        areas: Callable[[str], tuple[str, ...]] = lambda _: (),
        where: Callable[[str], str] = lambda _: "",
        waiting: Callable[[str], int] = lambda _: 0,
        stays: Callable[[], str] = lambda: "",
        unmet: Callable[[CloneOf, Topic], str] = lambda *_: "",
        most: int = MAX_CLONES,
    ) -> None:
        self._iad = iad
        self._secret = secret
        self._new_id = new_id
        self._areas = areas
        self._where = where
        self._waiting = waiting
        self._stays = stays
        self._unmet = unmet
        self._flow = Flow(iad, new_id, areas)
        self._most = most
        self._anchors: dict[str, Anchor] = {}
        self._timers: EdfQueue[Anchor] = EdfQueue()

    def __len__(self) -> int:
        return len(self._anchors)

    @property
    def next_tick(self) -> float | None:
        """When `AnchorsDue` is due; None if no timer is set."""
        return self._timers.peek_key() if self._timers else None

    @property
    def devices(self) -> dict[str, str]:
        """The devices that have clones, and the id of each one's subscription."""
        return {device: anchor.kept.id for device, anchor in self._anchors.items()}

    def resolve(self, digests: Iterable[str]) -> tuple[str, ...]:
        """The topics of the clones of these devices, as other masters' clones may hear them: empty
        if a clone does not leave. O(clones)."""
        here = {digest_of(device): anchor for device, anchor in self._anchors.items()}
        return tuple([self._resolved(each, here.get(each)) for each in digests])

    def _resolved(self, digest: str, anchor: Anchor | None) -> str:
        if anchor is not None and not anchor.kept.clone.leaves:
            return ""
        return topic_of(self._secret, digest, leaves=True)

    def restore(self, kept: Iterable[tuple[Kept, Taken | None]], now: float) -> Instructions:
        """Restore from disk, before any event."""
        instructions: Instructions = []
        for each, taken in kept:
            anchor = self._enter(Anchor(each, taken))
            if each.ending:
                anchor.become("ending")
                instructions.append(EndTopic(anchor.device, each.topic.name))
                anchor.retry_s = now + anchor.pauses.next()
            elif not each.made:
                anchor.become("making")
                instructions.append(MakeTopic(anchor.device, each.topic))
            else:
                instructions += self._flow.begin(anchor)
            self._set_timer(anchor)
        return instructions

    def handle(self, event: AnchorsEvent, now: float) -> Instructions:
        """Handle one event; returns the instructions, in order."""
        match event:
            case CloneAsked(peer, request):
                return self._asked(peer, request, now)
            case AnchorsDue():
                return self._due(now)
        anchor = self._anchors.get(event.device)
        if anchor is None:
            return []
        instructions = self._handle(anchor, event, now)
        self._set_timer(anchor)
        return instructions

    def _handle(self, anchor: Anchor, event: AnchorsEvent, now: float) -> Instructions:
        match event:
            case PeersResolved():
                return self._peers_resolved(anchor, event)
            case TopicMade():
                return self._topic_made(anchor, event, now)
            case TopicEnded():
                return self._topic_ended(anchor, event)
            case InboxSaid():
                here = anchor.state in ("opening", "open") and event.id == anchor.kept.id
                return self._flow.inbox_said(anchor, event, now) if here else []
            case ReadingsCame():
                return self._flow.readings_came(anchor, event)
            case OutputKept(_, id_, position):
                if id_ != anchor.kept.id:
                    return []
                anchor.had = position
                return [anchor.acknowledge()] if anchor.state == "open" else []
        raise TypeError(event)

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, peer: Peer, request: CloneRequest, now: float) -> Instructions:
        match request:
            case ListClones(id_):
                known = [self._status(each) for _, each in sorted(self._anchors.items())]
                told = CloneReport(id_, ok=True, clones=tuple(known))
                return [SendReport(peer, told, at_once=True)]
            case CreateClone(id_, clone):
                return self._create(peer, id_, clone, now)
        return self._remove(peer, request.id, request.device, now)

    def _create(self, peer: Peer, id_: str, clone: CloneOf, now: float) -> Instructions:
        before = self._anchors.get(clone.device)
        if before is not None and before.state in ("opening", "open"):
            # The areas may have been filled in here.
            had = before.kept.clone
            if clone in (had, replace(had, areas=())):
                told = CloneReport(
                    id_, ok=True, clones=(self._status(before),), message=self._remark(before.kept)
                )
                return [SendReport(peer, told)]
        node = clone.device.partition("/")[2]
        clone = clone if clone.areas else replace(clone, areas=self._areas(node))
        if problem := self._why_not(clone, before):
            return [_refusal(peer, id_, problem)]
        own = topic_of(self._secret, digest_of(clone.device), leaves=clone.leaves)
        topic = Topic(own, processor=clone.processor, clone=Clone(self._iad, clone.leaves))
        anchor = self._enter(Anchor(Kept(clone, topic, self._new_id())))
        anchor.asker = peer, id_
        anchor.become("resolving")
        anchor.retry_s = now + PATIENCE_S
        for device in dict.fromkeys(clone.peers):
            iad = device.partition("/")[0]
            if iad == self._iad:
                anchor.peers[device] = self._own_peer(device, leaves=clone.leaves)
            else:
                anchor.unresolved[iad] = (*anchor.unresolved.get(iad, ()), device)
        asked = [AskPeers(clone.device, *each) for each in anchor.unresolved.items()]
        instructions = [*asked, *self._make(anchor)]
        self._set_timer(anchor)
        return instructions

    def _own_peer(self, device: str, *, leaves: bool) -> str:
        """The topic of a peer of this IAD. One that has no clone yet is taken to be of the same
        kind."""
        anchor = self._anchors.get(device)
        leaves = leaves if anchor is None else anchor.kept.clone.leaves
        return topic_of(self._secret, digest_of(device), leaves=leaves)

    def _why_not(self, clone: CloneOf, before: Anchor | None) -> str:
        iad, _, node = clone.device.partition("/")
        if iad != self._iad:
            here = f"this is the master of {self._iad}"
            return f"{clone.device} is a device of {iad}; {here}: ask --iad {iad}"
        if before is not None and before.state in ("opening", "open"):
            return f"{clone.device} has another clone; remove that first"
        if before is not None and before.state == "ending":
            why = f": {before.trouble}" if before.trouble else "; try again later"
            return f"the clone of {clone.device} is being ended{why}"
        if before is not None:
            return f"the clone of {clone.device} is being made; try again in a moment"
        if len(self._anchors) >= self._most:
            return f"{self._most} clones have their home here; remove one"
        if not clone.areas:
            return f"no node {node} is known here; start it first"
        if clone.device in clone.peers:
            return f"{clone.device} cannot be its own peer"
        for device in clone.peers if clone.leaves else ():
            peer = self._anchors.get(device)
            if peer is not None and not peer.kept.clone.leaves:
                return f"the clone of {device} does not leave {iad}: this one could not hear it"
        try:
            where = read_recent(clone.peers_where) if clone.peers_where else None
            Clone(self._iad, peers_where=where)
        except ValueError as error:
            return f"peers_where: {error}"
        return ""

    def _peers_resolved(self, anchor: Anchor, event: PeersResolved) -> Instructions:
        devices = anchor.unresolved.pop(event.iad, None)
        if anchor.state != "resolving" or devices is None:
            return []
        if event.why or len(event.topics) != len(devices):
            return self._refuse(anchor, event.why or f"{event.iad} does not know its devices")
        for device, topic in zip(devices, event.topics, strict=True):
            if not topic:
                return self._refuse(anchor, f"the clone of {device} does not leave {event.iad}")
            anchor.peers[device] = topic
        return self._make(anchor)

    def _make(self, anchor: Anchor) -> Instructions:
        """Have its topic made once all peers are known."""
        if anchor.unresolved:
            return []
        clone, kept = anchor.kept.clone, anchor.kept
        where = read_recent(clone.peers_where) if clone.peers_where else None
        topic = Topic(
            kept.topic.name,
            processor=clone.processor,
            parameters=clone.parameters,
            slo=clone.slo,
            limits=clone.limits,
            clone=Clone(self._iad, clone.leaves, tuple(sorted(anchor.peers.values())), where),
            standby=clone.standby,
        )
        anchor.kept = replace(kept, topic=topic)
        anchor.become("making")
        anchor.retry_s = math.inf
        return [SaveClone(anchor.device, anchor.kept), MakeTopic(anchor.device, topic)]

    def _topic_made(self, anchor: Anchor, event: TopicMade, now: float) -> Instructions:
        if anchor.state != "making":
            return []
        if event.ok:
            anchor.kept = replace(anchor.kept, made=True)
            saved = SaveClone(anchor.device, anchor.kept)
            message = event.message or self._remark(anchor.kept)
            return [saved, *self._flow.begin(anchor), *self._answer(anchor, message=message)]
        if event.passes and anchor.asker is None:
            anchor.retry_s = now + anchor.pauses.next()
            return []
        return self._refuse(anchor, event.message)

    def _remark(self, kept: Kept) -> str:
        stays = self._stays() if kept.clone.leaves else ""
        line = f"it may leave, but {stays}" if stays else ""
        return "; ".join(filter(None, (self._unmet(kept.clone, kept.topic), line)))[:512]

    def _refuse(self, anchor: Anchor, why: str) -> Instructions:
        told: Instructions
        if anchor.asker is None:
            told = [TellOperator(f"clone of {anchor.device}: {why}; it is given up")]
        else:
            told = [_refusal(*anchor.asker, why)]
        return [*self._drop(anchor), *told]

    def _remove(self, peer: Peer, id_: str, device: str, now: float) -> Instructions:
        anchor = self._anchors.get(device)
        if anchor is None:
            known = ", ".join(sorted(self._anchors)[:8]) or "none"
            return [_refusal(peer, id_, f"{device} has no clone here; those that do: {known}")]
        if anchor.state in ("resolving", "making"):
            return [_refusal(peer, id_, f"the clone of {device} is being made; try again")]
        anchor.asker = peer, id_
        topic = anchor.kept.topic.name
        instructions: Instructions = []
        if anchor.state != "ending":
            anchor.become("ending")
            anchor.stop_clocks()
            anchor.pauses.reset()
            anchor.trouble = ""
            anchor.kept = replace(anchor.kept, ending=True)
            instructions = [
                SaveClone(device, anchor.kept),
                AskInbox(device, Unsubscribe(anchor.kept.id)),
                ForgetDevice(device),
            ]
        anchor.retry_s = now + anchor.pauses.next()
        self._set_timer(anchor)
        return [*instructions, EndTopic(device, topic)]

    def _topic_ended(self, anchor: Anchor, event: TopicEnded) -> Instructions:
        if anchor.state != "ending":
            return []
        if event.ok:
            return [*self._drop(anchor), *self._answer(anchor)]
        anchor.trouble = event.message
        return self._answer(anchor, f"it ends as soon as that is possible: {event.message}")

    def _answer(self, anchor: Anchor, message: str = "") -> Instructions:
        if anchor.asker is None:
            return []
        (peer, id_), anchor.asker = anchor.asker, None
        clones = () if anchor.state in ("ending", "removed") else (self._status(anchor),)
        return [SendReport(peer, CloneReport(id_, ok=True, clones=clones, message=message[:512]))]

    def _status(self, anchor: Anchor) -> CloneStatus:
        kept, taken = anchor.kept, anchor.taken
        return CloneStatus(
            kept.clone,
            kept.topic.name,
            anchor.state,
            self._where(kept.topic.name),
            rounds=anchor.rounds,
            rounds_failed=anchor.rounds_failed,
            outputs=taken.outputs,
            output=taken.output,
            output_ms=taken.time_ms,
            trouble=anchor.trouble[:512],
            waiting=self._waiting(anchor.device),
        )

    # --- time ----------------------------------------------------------------------------------

    def _due(self, now: float) -> Instructions:
        instructions: Instructions = []
        due = []
        while self._timers and self._timers.peek_key() <= now:
            anchor = self._timers.pop()
            anchor.due_s = math.inf
            due.append(anchor)
        for anchor in due:
            if anchor.retry_s <= now:
                instructions += self._again(anchor, now)
            if anchor.renew_s <= now:
                anchor.renew_s = now + RENEW_S
                instructions.append(anchor.acknowledge())
            if anchor.next_round_s <= now:
                instructions += self._flow.round(anchor, now)
            self._set_timer(anchor)
        return instructions

    def _again(self, anchor: Anchor, now: float) -> Instructions:
        anchor.retry_s = math.inf
        match anchor.state:
            case "resolving":
                silent = ", ".join(sorted(anchor.unresolved))
                return self._refuse(anchor, f"no answer of the master of {silent}, which has peers")
            case "making":
                return [MakeTopic(anchor.device, anchor.kept.topic)]
            case "ending":
                anchor.retry_s = now + anchor.pauses.next()
                return [EndTopic(anchor.device, anchor.kept.topic.name)]
        return [self._flow.subscribe(anchor)]

    def _enter(self, anchor: Anchor) -> Anchor:
        self._anchors[anchor.device] = anchor
        return anchor

    def _drop(self, anchor: Anchor) -> Instructions:
        del self._anchors[anchor.device]
        anchor.become("removed")
        anchor.stop_clocks()
        self._set_timer(anchor)
        return [ForgetClone(anchor.device)]

    def _set_timer(self, anchor: Anchor) -> None:
        """Put it where it belongs among the timers. O(log clones)."""
        if anchor.next_s == anchor.due_s:
            return
        if anchor.due_s < math.inf:
            self._timers.remove(anchor.handle)
        anchor.due_s = anchor.next_s
        if anchor.due_s < math.inf:
            anchor.handle = self._timers.push(anchor.due_s, anchor)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        dues = [each.due_s for each in self._anchors.values() if each.due_s < math.inf]
        assert len(self._timers) == len(dues)
        assert self.next_tick == min(dues, default=None)
        for anchor in self._anchors.values():
            assert anchor.due_s == anchor.next_s
            assert anchor.taken.id == anchor.kept.id
            assert (anchor.state == "resolving") == bool(anchor.unresolved)


def _refusal(peer: Peer, id_: str, why: str) -> SendReport:
    return SendReport(peer, CloneReport(id_, ok=False, message=why[:512]))
