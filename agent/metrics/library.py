"""Whether the Prometheus client is here: it is an extra, and loaded only to serve a page."""

from __future__ import annotations

from importlib.util import find_spec

from agent.wire.config import Metrics


def problem(config: Metrics) -> str | None:
    """Why this configuration cannot be used here, if so, in one line."""
    if config.address and find_spec("prometheus_client") is None:
        return (
            "metrics.address needs the Prometheus client: in a checkout, run "
            "pip install '.[metrics]', or leave metrics.address empty"
        )
    return None
