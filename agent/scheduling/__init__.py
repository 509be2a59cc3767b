"""Query and task scheduling as pure state machines: ``handle(event, now) -> [Instruction]``.

No socket, clock, thread or log in here: the same code runs under the master's sockets, in virtual
time and under property tests. Times are float seconds on one monotonic clock.
"""
