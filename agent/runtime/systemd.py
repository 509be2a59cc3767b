"""Notifications to systemd (sd_notify), if systemd started this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdnotify import SystemdNotifier


def problem() -> str | None:
    """Why systemd cannot be notified here although it expects it, in one line; else None."""
    if "NOTIFY_SOCKET" not in os.environ:
        return None
    from importlib.util import find_spec

    if find_spec("sdnotify") is None:
        return (
            "the unit has Type=notify, which needs sdnotify: install it with "
            "pip install '.[systemd]', or set Type=exec and no WatchdogSec"
        )
    return None


def notifier() -> SystemdNotifier | None:
    """systemd's notification socket; None if systemd did not start this process."""
    if "NOTIFY_SOCKET" not in os.environ or problem() is not None:
        return None
    from sdnotify import SystemdNotifier  # with `socket`, 0.4 MiB

    return SystemdNotifier()


def tell(state: str) -> None:
    """Send one state such as ``READY=1`` to systemd, if it started this process."""
    if (systemd := notifier()) is not None:
        systemd.notify(state)
        if systemd.socket is not None:
            systemd.socket.close()
