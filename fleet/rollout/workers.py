"""Worker threads that execute a rollout's instructions, and the loop that returns the results."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Final

from fleet.common import crash_reports
from fleet.rollout.events import AnyEvent, Do, Failed, Instruction, Interrupted
from fleet.rollout.rollout import Rollout
from fleet.ssh.ctrl_c import noted
from fleet.ssh.errors import HostError

# Hosts that may be out of service take precedence over those that serve.
URGENCY: Final[dict[Do, int]] = {
    "roll_back": 0,
    "confirm": 1,
    "check": 2,
    "switch": 3,
    "stage": 4,
    "gather": 5,
}
HOME: Final = -1  # precedes everything else: one thread ends
# A single long wait would block Ctrl-C on some systems.
LOOK_S: Final = 0.5

# Executes an instruction: returns the outcome, or raises HostError. Called from several threads.
Attempt = Callable[[Instruction], AnyEvent]
# Passes an event to the rollout: returns the next instructions.
Take = Callable[[AnyEvent], Iterable[Instruction]]


def carry_out(
    rollout: Rollout, attempt: Attempt, take: Take, parallel: int, stopping: threading.Event
) -> None:
    """Run until every host of the rollout is finished. The first Ctrl-C sets `stopping` and starts
    no more steps, the second one is raised."""
    work: queue.PriorityQueue[tuple[int, int, Instruction | None]] = queue.PriorityQueue()
    # Each with what is set once its instructions are ordered.
    events: queue.SimpleQueue[tuple[AnyEvent, threading.Event]] = queue.SimpleQueue()
    numbers = itertools.count()
    over = threading.Event()

    def order(instructions: Iterable[Instruction]) -> None:
        for each in instructions:
            work.put((URGENCY[each.do], next(numbers), each))

    def serve() -> None:
        while (instruction := work.get()[2]) is not None:
            ordered = threading.Event()
            events.put((_event_of(attempt, instruction), ordered))
            # A thread that took an upload at once would leave a host that it has just switched
            # without a thread for its check, until the host undoes the switch by itself.
            while not ordered.wait(LOOK_S) and not over.is_set():
                pass

    threads = [
        threading.Thread(target=serve, name=f"rollout-{number}", daemon=True)
        for number in range(max(1, parallel))
    ]
    # Ctrl-C is deferred here: raised in between, it could lose an event or an instruction, and a
    # host whose event is lost would never finish.
    with noted(lambda: events.put((Interrupted(), threading.Event()))):
        for thread in threads:
            thread.start()
        try:
            order(rollout.begin())
            while not rollout.ended:
                try:
                    event, ordered = events.get(timeout=LOOK_S)
                except queue.Empty:
                    continue
                if isinstance(event, Interrupted):
                    stopping.set()
                order(take(event))
                ordered.set()
        finally:
            over.set()
            for _ in threads:
                work.put((HOME, next(numbers), None))


def _event_of(attempt: Attempt, instruction: Instruction) -> AnyEvent:
    try:
        return attempt(instruction)
    except HostError as error:
        undone, refused = ("rolled_back" in error.details, "refused" in error.details)
        return Failed(instruction.host, error.kind, str(error), undone=undone, refused=refused)
    except BaseException as error:  # noqa: BLE001 - as a thread that ends is waited for forever
        return Failed(instruction.host, "failed", crash_reports.told(error))
