"""Query and task scheduling as pure state machines: ``handle(event, now) -> [Instruction]``.

No sockets, clocks, threads or logs: the same code runs behind the master's sockets, in virtual time
and under property tests. Times are float seconds on one monotonic clock.
"""
