"""A process that is killed: whatever it said that it had, the file has."""

import subprocess
import sys
from pathlib import Path

from agent.alerts.spool import Spool
from agent.master.storage.notification_store import NotificationStore

ROOT = Path(__file__).parents[3]
# Takes events as fast as it can, a few a turn, and says which it has.
CHILD = """
import sys
from pathlib import Path
from agent.master.storage.group_commit import GroupCommit
from agent.master.storage.notification_store import NotificationStore
from agent.alerts.spool import Spool
from agent.alerts.spool_events import Accepted, Brought, EventAlerts
from tests.alerts.samples import notification

def perform(instructions):
    for each in instructions:
        if isinstance(each, Accepted):
            print(each.token, flush=True)

store = NotificationStore(Path(sys.argv[1]))
spool = Spool(most=1_000_000)
spool.restore(store.load()[0], 0.0)
commit = GroupCommit(store, perform, lambda: 0.0)
for n in range(int(sys.argv[2]), 1_000_000):
    commit.take(spool.handle(Brought(n, "n", "h", 0, (EventAlerts(n, (notification(n),)),)), 0.0))
    if n % 3 == 0:
        commit.tick(0.0)
"""


def test_what_was_accepted_survives_kills(tmp_path):
    path = tmp_path / "n.sqlite"
    accepted = []
    for _ in range(3):
        first = max(accepted, default=0) + 1
        command = [sys.executable, "-c", CHILD, str(path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            lines = [child.stdout.readline() for _ in range(20)]
            child.kill()
            lines += child.stdout.readlines()
        # The last line may be half of one.
        accepted += [int(line) for line in lines if line.endswith("\n")]
    store = NotificationStore(path)
    saved, _ = store.load()
    store.close()
    spool = Spool()
    spool.restore(saved, 0.0)
    kept = {origin.sequence for origin in spool._spooled}
    assert len(accepted) >= 60
    assert set(accepted) <= kept
    assert all(spool._node_windows.knows(("n", "h"), n) for n in accepted[-900:])
