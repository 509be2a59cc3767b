"""An output's thread: how it ends."""

import threading

from agent.gateway.outputs.worker import STOPPING_S, Worker
from tests.gateway.outputs.rig import Rig


def test_outputs_whose_receivers_hang_end_within_one_time_for_all(tmp_path, monkeypatch):
    rig, now, hangs = Rig(tmp_path), [100.0], threading.Event()
    waited = []

    def body():
        hangs.wait()

    workers = [
        Worker(f"output {n}", rig.sources, body, lambda: now[0], rooms=False, alerts=True)
        for n in range(4)
    ]
    for worker in workers:
        worker.start()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "join", lambda _self, seconds: waited.append(seconds))
        for worker in workers:
            worker.end_soon()
        for worker in workers:
            worker.stop()
            now[0] += waited[-1]  # it hangs for as long as it is waited for
    assert sum(waited) <= STOPPING_S + 1e-9
    hangs.set()
    for worker in workers:
        worker.stop()  # returned by now, or soon: what is left open is closed
        worker._thread.join()
        worker.stop()
    rig.close()
