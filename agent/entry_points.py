"""The console commands. Ctrl-C ends each without a traceback from its first import on; what it
means later is the agent's own business (`agent.runtime.signals.StopSignal`). An exception that ends
one of its threads ends the agent.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def edge() -> None:
    """`sanderling-edge`."""
    _prepare()
    from agent.edge.main import main

    main()


def probe() -> None:
    """`sanderling-probe`."""
    _prepare()
    from agent.edge.probe import main

    main()


def pod() -> None:
    """`sanderling-pod`."""
    _prepare()
    from agent.edge.pods.pod_container import main

    main()


def master() -> None:
    """`sanderling-master`."""
    _prepare()
    from agent.master.main import main

    main()


def drs() -> None:
    """`sanderling-drs`."""
    _prepare()
    from agent.directory.main import main

    main()


def gateway() -> None:
    """`sanderling-gateway`."""
    _prepare()
    from agent.gateway.main import main

    main()


def _prepare() -> None:
    """Die of SIGINT, which a shell shows as status 130, rather than raise KeyboardInterrupt; and
    with any thread that fails."""
    # A shell has those that it starts in the background ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    tell = threading.excepthook

    def end(failed: threading.ExceptHookArgs) -> None:
        """Without that thread the agent would serve in part, or nobody, and seem well: a service
        manager starts only what has ended."""
        tell(failed)
        if not sys.is_finalizing():
            os._exit(1)

    threading.excepthook = end
