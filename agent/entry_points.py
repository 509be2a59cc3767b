"""The console commands. Ctrl-C ends each without a traceback from its first import on; what it
means later is the agent's own business (`agent.runtime.signals.StopSignal`). An exception that ends
one of the agent's threads ends the agent.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import TracebackType


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
    with any of the agent's threads that fails."""
    # A shell has those that it starts in the background ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    tell = threading.excepthook

    def end(failed: threading.ExceptHookArgs) -> None:
        """Without that thread the agent would serve in part, or nobody, and seem well: a service
        manager starts only what has ended. Those of drivers and libraries are none of its own."""
        tell(failed)
        if _is_own(failed.exc_traceback) and not sys.is_finalizing():
            os._exit(1)

    threading.excepthook = end


def _is_own(trace: TracebackType | None) -> bool:
    """Whether what a thread was started with is the agent's."""
    while trace is not None and trace.tb_frame.f_globals["__name__"] == "threading":
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith("agent.")
