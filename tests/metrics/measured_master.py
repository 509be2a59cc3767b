"""`sanderling-master` with its metrics, also while the command itself serves none."""

import agent.master.main
import agent.master.master
from agent.master.recording.metrics_plane import MetricsPlane
from agent.metrics.master_families import WATCHES_OPEN


class MeasuredMaster(agent.master.master.Master):
    """Adds what `Master` does not have."""

    def __init__(self, config, *arguments, **options):
        super().__init__(config, *arguments, **options)
        self._metrics = MetricsPlane(
            self._reactor, config.metrics, self._records, self._status, lambda: self._peers.iads
        )
        self._metrics.shows(WATCHES_OPEN, lambda: self._watch_plane.open_watches)

    def close(self):
        self._metrics.close()
        super().close()


if __name__ == "__main__":
    if not hasattr(agent.master.master, "MetricsPlane"):
        agent.master.master.Master = MeasuredMaster
    agent.master.main.main()
