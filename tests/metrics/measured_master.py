"""`sanderling-master` with its metrics, also while the command itself serves none."""

import agent.master.main
import agent.master.master
from agent.master.metrics_plane import MetricsPlane


class MeasuredMaster(agent.master.master.Master):
    """Adds what `Master` does not have."""

    def _connect(self, config):
        super()._connect(config)
        self._metrics = MetricsPlane(
            self._board, config.metrics, self._records, self._status, lambda: self._peers.iads
        )

    def close(self):
        self._metrics.close()
        super().close()


if __name__ == "__main__":
    if not hasattr(agent.master.master, "MetricsPlane"):
        agent.master.main.Master = MeasuredMaster
    agent.master.main.main()
