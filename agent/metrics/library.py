"""Check for the Prometheus client library, an extra that is loaded only to serve metrics."""

from __future__ import annotations

from importlib.util import find_spec

from agent.wire.config import Metrics


def problem(config: Metrics) -> str | None:
    """Why this configuration cannot be used here, in one line; None if it can."""
    if config.address and find_spec("prometheus_client") is None:
        return (
            "metrics.address needs the Prometheus client: in a checkout, run "
            "pip install '.[metrics]', or leave metrics.address empty"
        )
    return None
