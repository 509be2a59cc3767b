"""A fleet host within this process: an SSH server whose commands run here."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import IO

import paramiko

# Stands in for sudo; a user who "may not" gets the message of the real one.
SUDO = """#!/bin/sh
[ -e "$HOST/no_sudo" ] && { echo 'sudo: a password is required' >&2; exit 1; }
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


class Host(paramiko.ServerInterface):
    """Listens on `address`; its commands work in `folder`."""

    def __init__(self, address: str, host_key: bytes, public: str, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir(parents=True)
        self.program("sudo", SUDO)
        self._key = paramiko.Ed25519Key.from_private_key(io.StringIO(host_key.decode()))
        self._public = public.split()[1]
        self._listener = socket.create_server((address, 0))
        self.port: int = self._listener.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        self._commands: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def program(self, name: str, text: str) -> None:
        """Put a program of this name into the PATH of commands."""
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def cut(self) -> None:
        """Close all connections."""
        for transport in self._transports:
            transport.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for command in self._commands:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(command.pid, signal.SIGKILL)
            command.wait()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self._key)
            self._transports.append(transport)
            with contextlib.suppress(paramiko.SSHException, EOFError):
                transport.start_server(event=threading.Event(), server=self)

    # --- paramiko's callbacks ---------------------------------------------------------------------

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = key.get_base64() == self._public
        return paramiko.AUTH_SUCCESSFUL if known else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command.decode()), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        with subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": path, "HOST": str(self.folder), "SHELL": "/bin/sh"},
            start_new_session=True,
        ) as process:
            self._commands.append(process)
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            threads = [
                threading.Thread(target=_pump, args=(process.stdout, channel.sendall), daemon=True),
                threading.Thread(
                    target=_pump, args=(process.stderr, channel.sendall_stderr), daemon=True
                ),
            ]
            for thread in threads:
                thread.start()
            with contextlib.suppress(OSError):
                while data := channel.recv(65_536):
                    process.stdin.write(data)
                    process.stdin.flush()
            with contextlib.suppress(OSError):
                process.stdin.close()
            for thread in threads:
                thread.join()
            status = process.wait()
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(status if status >= 0 else 128 - status)
            channel.close()


def _pump(pipe: IO[bytes], send: object) -> None:
    with contextlib.suppress(OSError, EOFError):  # paramiko's error when the transport is closed
        while data := os.read(pipe.fileno(), 65_536):
            send(data)  # type: ignore[operator]
