"""The SSH key for logins: from a file or from the SSH agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import paramiko
from paramiko.pkey import PublicBlob

from fleet.common.files import require_regular
from fleet.ssh.errors import HostError

MAX_KEY = 1 << 20


@contextmanager
def identity(path: Path) -> Iterator[paramiko.PKey]:
    """The key whose private half is at `path`. The SSH agent signs for one that has a passphrase,
    or of which only the public half is here, as PATH.pub. HostError."""
    if (key := _of_file(path)) is not None:
        yield key
        return
    try:
        agent = paramiko.Agent()  # for this login alone: two threads cannot share its socket
    except (paramiko.SSHException, OSError) as error:
        raise HostError("failed", f"the SSH agent cannot be used: {error}") from None
    try:
        yield _of_agent(agent, path)
    finally:
        agent.close()


def public_half(path: Path) -> Path:
    """Path of the public half of a private key."""
    return path.with_name(f"{path.name}.pub")


@lru_cache(maxsize=8)
def _loaded(path: Path, changed_ns: int) -> paramiko.PKey:
    del changed_ns  # a key that was replaced is read anew
    return paramiko.PKey.from_path(path)


def _of_file(path: Path) -> paramiko.PKey | None:
    """None if the agent has to be asked for it. HostError."""
    try:
        status = path.stat()
        require_regular(path, status, MAX_KEY)
        return _loaded(path, status.st_mtime_ns)
    except FileNotFoundError:
        if public_half(path).exists():
            return None
        raise HostError("auth", f"{path} is not there; `fleet keys init` makes it") from None
    except (TypeError, paramiko.PasswordRequiredException):  # it has a passphrase
        return None
    except OSError as error:
        raise HostError("auth", f"{path} cannot be used: {error.strerror}") from None
    except (paramiko.SSHException, ValueError) as error:
        raise HostError("auth", f"{path} cannot be used: {error}") from None


def _of_agent(agent: paramiko.Agent, path: Path) -> paramiko.PKey:
    """The agent's key with the same public half. HostError."""
    public = public_half(path)
    try:
        blob = PublicBlob.from_file(str(public)).key_blob
    except FileNotFoundError:
        raise HostError(
            "failed",
            f"{path} has a passphrase, and the SSH agent is asked by {public.name}, which is not "
            f"there: ssh-keygen -y -f {path} > {public}",
        ) from None
    except (ValueError, OSError) as error:
        raise HostError("failed", f"{public} is no public SSH key: {error}") from None
    for key in agent.get_keys():
        if key.blob == blob:
            return key
    what = (
        f"{path} has a passphrase" if path.exists() else f"of {path} only the public half is here"
    )
    raise HostError("failed", f"{what}, and no SSH agent holds it: ssh-add {path}")
