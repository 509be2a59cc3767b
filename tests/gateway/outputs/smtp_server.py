"""A mail server in a test's hands: it takes mail, or answers what the test says."""

import base64
import contextlib
import shutil
import socketserver
import ssl
import subprocess
import threading
from queue import Queue

import pytest


def make_certificate(folder):
    """A certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-days", "2", "-subj", "/CN=h", "-addext", "subjectAltName=DNS:localhost",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o644)
    return key, certificate


class Handler(socketserver.StreamRequestHandler):
    """One connection; `server` is a `SmtpServer`."""

    def handle(self):
        with contextlib.suppress(OSError):  # who sends has gone
            if self.server.tls:
                self.encrypt(self.server.tls)
            self.say("220 ready")
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                self.server.commands.append(word)
                self.answer(word, line)
        self.request.close()

    def say(self, *lines):
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

    def answer(self, word, line):
        if reply := self.server.replies.get(line.lower()) or self.server.replies.get(word):
            self.say(reply)
        elif word == "EHLO":
            offers = self.server.starttls and not isinstance(self.request, ssl.SSLSocket)
            self.say("250-here", "250-AUTH PLAIN", "250 STARTTLS" if offers else "250 HELP")
        elif word == "STARTTLS":
            self.say("220 go")
            self.encrypt(self.server.starttls)
        elif word == "AUTH":
            given = base64.b64decode(line.split()[2]).decode().split("\0")[2]
            self.say("235 ok" if given == self.server.password else "535 wrong")
        elif word == "DATA":
            self.say("354 go")
            self.server.mail.put(b"".join(iter(self.rfile.readline, b".\r\n")))
            self.say("250 ok")
        else:
            self.say("250 ok")

    def encrypt(self, context):
        self.request = context.wrap_socket(self.request, server_side=True)
        self.setup()


class SmtpServer(socketserver.ThreadingTCPServer):
    """`replies` are those to commands, by the whole line, in lower case, or its
    first word."""

    daemon_threads, block_on_close = True, False

    def __init__(self, *, tls=None, starttls=None, password=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tls, self.starttls, self.password = tls, starttls, password
        self.mail, self.replies, self.commands = Queue(), {"QUIT": "221 bye"}, []
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def handle_error(self, request, client_address):
        """Senders may go at any time."""

    def close(self):
        self.shutdown()
        self.server_close()
        self.thread.join()


def server_context(key, certificate):
    """For a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
