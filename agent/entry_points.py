"""The console commands. Ctrl-C ends each without a traceback from its first import on; what it
means later is the agent's own business (`agent.runtime.signals.StopSignal`).
"""

from __future__ import annotations

import signal


def edge() -> None:
    """`sanderling-edge`."""
    _end_on_interrupt()
    from agent.edge.main import main

    main()


def probe() -> None:
    """`sanderling-probe`."""
    _end_on_interrupt()
    from agent.edge.probe import main

    main()


def pod() -> None:
    """`sanderling-pod`."""
    _end_on_interrupt()
    from agent.edge.pods.pod_container import main

    main()


def master() -> None:
    """`sanderling-master`."""
    _end_on_interrupt()
    from agent.master.main import main

    main()


def drs() -> None:
    """`sanderling-drs`."""
    _end_on_interrupt()
    from agent.directory.main import main

    main()


def gateway() -> None:
    """`sanderling-gateway`."""
    _end_on_interrupt()
    from agent.gateway.main import main

    main()


def _end_on_interrupt() -> None:
    """Die of SIGINT, which a shell shows as status 130, rather than raise KeyboardInterrupt."""
    # A shell has those that it starts in the background ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
