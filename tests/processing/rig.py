"""Processing with pretended workers: a test says what each does with its request."""

from __future__ import annotations

import msgspec

from agent.processing.definition import Definition, Limits
from agent.processing.events import (
    Arrived,
    Checkpoint,
    Create,
    Emit,
    Failed,
    Finished,
    HandedOver,
    Hold,
    KillWorker,
    Load,
    Loaded,
    Report,
    Resume,
    Run,
    Save,
    Snapshotted,
    StartWorker,
    TakeSnapshot,
    Unload,
    WorkerEnded,
    WorkerReady,
)
from agent.processing.processing import Processing

EMPTY = msgspec.msgpack.encode([])


def body(number: int, size: int = 0) -> bytes:
    return msgspec.msgpack.encode({"n": number, "pad": "x" * size})


def step(state: bytes, message: bytes) -> tuple[bytes, bytes]:
    """The pretended program: its state is what it has seen, its output says so, too."""
    seen = msgspec.msgpack.decode(state) if state else []
    seen.append(msgspec.msgpack.decode(message)["n"])
    return msgspec.msgpack.encode(seen), msgspec.msgpack.encode([{"seen": repr(seen)[-500:]}])


def definition(name: str, slo_s: float = 1.0, **limits: object) -> Definition:
    return Definition(name=name, processor="echo", slo_s=slo_s, limits=Limits(**limits))


class Rig:
    """One master's processing. `requests` has what each live worker is to do. States of up to
    `small` bytes come along with the outputs of each message."""

    def __init__(self, workers: int = 1, *, ready: bool = True, small: int = -1) -> None:
        self.small = small
        self.now = 100.0
        self.processing = Processing(workers)
        self.starting: list[int] = []
        self.dying: list[int] = []
        self.requests: dict[int, Load | Run | TakeSnapshot | None] = {}
        self.states: dict[int, dict[int, bytes]] = {}
        self.emitted: list[Emit] = []
        self.saved: list[Save] = []
        self.reports: list[Report] = []
        self.held: list[Hold] = []
        self.resumed: list[Resume] = []
        self.handed: list[HandedOver] = []
        self.order: list[str] = []
        self.unloaded: list[int] = []
        self._names: dict[int, str] = {}
        self._seen: dict[type, list] = {
            Emit: self.emitted,
            Save: self.saved,
            Report: self.reports,
            Hold: self.held,
            Resume: self.resumed,
            HandedOver: self.handed,
        }
        self._do(self.processing.start(self.now))
        if ready:
            while self.starting:
                self.handle(WorkerReady(self.starting.pop(0)))

    # --- what happens ---

    def handle(self, event: object) -> None:
        self._do(self.processing.handle(event, self.now))

    def create(self, name: str, *, checkpoint=None, epoch=0, slo_s=1.0, load=True, **limits):
        made = definition(name, slo_s, **limits)
        self.handle(Create(made, epoch, checkpoint or Checkpoint()))
        if load:
            self.work()

    def arrive(self, name: str, position: int, size: int = 0) -> None:
        self.handle(Arrived(name, position, body(position, size)))

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._do(self.processing.tick(self.now))

    def sleep_until_due(self) -> None:
        due = self.processing.next_due
        assert due is not None
        self.sleep(max(0.0, due - self.now))

    # --- what a worker does ---

    def busy(self) -> list[int]:
        return [number for number, request in self.requests.items() if request is not None]

    def answer(self, worker: int, *, cpu_s: float = 0.001, grown: int = 0) -> None:
        request = self.requests[worker]
        self.requests[worker] = None
        states = self.states[worker]
        match request:
            case Load(incarnation=incarnation, state=state):
                states[incarnation] = state
                self.handle(Loaded(worker, incarnation))
            case Run(incarnation=incarnation, body=message):
                states[incarnation], outputs = step(states[incarnation], message)
                state = states[incarnation]
                told = state if len(state) <= self.small else None
                self.handle(Finished(worker, incarnation, outputs, cpu_s, grown, told))
            case TakeSnapshot(incarnation=incarnation):
                self.handle(Snapshotted(worker, incarnation, states[incarnation]))

    def fail(self, worker: int, text: str = "ValueError: no", *, memory: bool = False) -> None:
        request = self.requests[worker]
        self.requests[worker] = None
        self.handle(Failed(worker, request.incarnation, text, 0, memory))

    def say(self, worker: int, outputs: object) -> None:
        """Answer with other outputs."""
        request = self.requests[worker]
        self.requests[worker] = None
        data = outputs if isinstance(outputs, bytes) else msgspec.msgpack.encode(outputs)
        self.handle(Finished(worker, request.incarnation, data, 0.001, 0))

    def die(self, worker: int, how: str = "was ended by signal 9") -> None:
        self.requests.pop(worker, None)
        if worker in self.dying:
            self.dying.remove(worker)
        self.handle(WorkerEnded(worker, how))

    def replace_the_dead(self) -> None:
        for worker in list(self.dying):
            self.die(worker)
        while self.starting:
            self.handle(WorkerReady(self.starting.pop(0)))

    def work(self, most: int = 10_000) -> None:
        """All workers answer until nothing is left to do."""
        for _ in range(most):
            self.replace_the_dead()
            if not (busy := self.busy()):
                return
            self.answer(busy[0])
        raise AssertionError("the work does not end")

    # --- what is seen ---

    def state(self, name: str) -> str:
        return self.status(name).state

    def status(self, name: str):
        return next(s for s in self.processing.status(self.now) if s.processor == name)

    def outputs(self, name: str) -> list[tuple[int, list[int]]]:
        return [
            (emit.position, eval(emit.outputs[0]["seen"]))
            for emit in self.emitted
            if emit.processor == name
        ]

    def _do(self, instructions: list[object]) -> None:
        for one in instructions:
            match one:
                case StartWorker(number):
                    self.starting.append(number)
                    self.requests[number] = None
                    self.states[number] = {}
                case KillWorker(number):
                    self.dying.append(number)
                    self.requests[number] = None
                case Load() | Run() | TakeSnapshot():
                    assert one.worker not in self.dying
                    assert self.requests[one.worker] is None, "one request at a time"
                    self.requests[one.worker] = one
                    if isinstance(one, Load):
                        self._names[one.incarnation] = one.definition.name
                    self.order.append(f"{type(one).__name__} {self._names[one.incarnation]}")
                case Unload():
                    assert one.worker not in self.dying
                    self.unloaded.append(one.incarnation)
                case _:
                    self._seen[type(one)].append(one)


def rig_of(*names: str, workers: int = 1, **limits: object) -> Rig:
    rig = Rig(workers)
    for name in names:
        rig.create(name, **limits)
    return rig
