"""Shared connections to jump hosts: one per jump host, because an sshd drops logins that arrive by
the dozen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress

from fabric import Connection

from fleet.ssh.errors import HostError


class JumpHost:
    """One jump host. Its first user opens the connection, its last user closes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counting = threading.Lock()
        self._connection: Connection | None = None
        self._users = 0
        self._attempts = 0
        self.waiting = 0  # number of users that want the connection and do not have it yet
        self._error: HostError | None = None

    def take(self, connect: Callable[[], Connection]) -> Connection:
        """The open connection; give it back exactly once. HostError if the attempt failed: users
        that waited for it do not start another."""
        with self._counting:
            attempts = self._attempts
            self.waiting += 1
        try:
            with self._lock:
                return self._taken(connect, attempts)
        finally:
            with self._counting:
                self.waiting -= 1

    def _taken(self, connect: Callable[[], Connection], attempts: int) -> Connection:
        if self._connection is None or not self._connection.is_connected:
            if self._error is not None and self._attempts > attempts:
                raise self._error
            try:
                self._connection, self._error = connect(), None
            except HostError as error:
                self._error = error
                raise
            finally:
                self._attempts += 1
        self._users += 1
        return self._connection

    def give_back(self) -> None:
        """One user less."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # closing a connection that may be broken already
                connection.close()


class JumpHosts:
    """All jump hosts, keyed by their login."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Hashable, JumpHost] = {}

    def at(self, login: Hashable) -> JumpHost:
        """The jump host of a login."""
        with self._lock:
            return self._found.setdefault(login, JumpHost())
