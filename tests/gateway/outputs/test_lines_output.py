"""Lines to a real HTTP server: with the header that the file has, each reading once."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest

from agent.gateway.output_config import GatewayLines
from agent.gateway.outputs.lines import LinesOutput
from testkit.waiting import PATIENCE_S, wait_until
from tests.gateway.outputs.rig import Rig, room


@pytest.fixture
def server():
    came = Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            came.put((self.path, self.headers["Authorization"], body.decode()))

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.came, made.daemon_threads = came, True
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def test_readings_come_as_lines(tmp_path, server):
    rig = Rig(tmp_path)
    rig.secret("influx", "Token abc")
    url = f"http://127.0.0.1:{server.server_port}/api/v2/write?bucket=rooms"
    config = GatewayLines(url=url, authorization_file="influx")
    # A hundred times as fast: lines wait for one another for some seconds.
    output = LinesOutput(config, rig.sources, clock=lambda: time.monotonic() * 100)
    output.start()
    try:
        rig.rooms.show(room("b1/r1", temperature=21), room("b1/r2", temperature=None))
        path, header, body = server.came.get(timeout=PATIENCE_S)
        assert path == "/api/v2/write?bucket=rooms"
        assert header == "Token abc"
        assert body == "reading,area=b1/r1,gateway=home temperature=21.0 1000000000\n"
        wait_until(output.state, lambda state: (state.state, state.delivered) == ("up", 1))
    finally:
        output.stop()
        rig.close()
