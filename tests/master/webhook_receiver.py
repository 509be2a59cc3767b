"""A receiver of webhooks in a test's hands: it says what the test wants, and keeps what came."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

from fleet.testbed.ports import free_ports
from testkit.waiting import PATIENCE_S

KEYS = (b"k" * 32, b"n" * 24)


class Post:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.body = path, headers, body
        self.id = headers.get("webhook-id", "")
        self.message = json.loads(body)

    def is_signed(self, key):
        """As docs/use/webhooks.md says."""
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        wanted = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return f"v1,{wanted}" in self.headers["webhook-signature"].split()


class Receiver:
    """`answers` are statuses, the last one for good; None never answers, and bytes are sent as they
    are; a function is called. `certificate`: a file with one and its key; `clients`: one with the
    authorities of those that clients need."""

    def __init__(self, *answers, port=None, certificate=None, clients=None):
        self.answers = list(answers)
        self.posts = Queue()
        self.hung = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answers = receiver.answers
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                answer = answer() if callable(answer) else answer
                receiver.posts.put(Post(self.path, self.headers, body))
                if answer is None:
                    receiver.hung.wait(PATIENCE_S)
                elif isinstance(answer, bytes):
                    self.wfile.write(answer)
                else:
                    self.send_response(answer)
                    self.send_header("Location", "http://127.0.0.1:1/")
                    self.send_header("Content-Length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port or free_ports(1)[0]), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a sender that does not wait for the answer
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            if clients is not None:
                context.load_verify_locations(clients)
                context.verify_mode = ssl.CERT_REQUIRED
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def next(self):
        return self.posts.get(timeout=PATIENCE_S)

    def close(self):
        self.hung.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def write_keys(path, keys=KEYS[:1]):
    path.write_text("".join(f"whsec_{base64.b64encode(key).decode()}\n" for key in keys))
    path.chmod(0o600)
    return path
