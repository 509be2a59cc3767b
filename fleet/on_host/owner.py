"""Gives up root before anything is read that an agent may put something else in the place of."""

from __future__ import annotations

import os
import stat

MAX_LINKS = 40


def become_owner(path: str) -> None:
    """As root, become the first other user who owns a part of the path, if there is one.

    That user can have all below lead anywhere, at any time: to a file that only root can read, or
    to a link in place of what was looked at a moment ago. What is above is root's to change.
    """
    if os.geteuid() == 0 and (owner := _first_owner(path)) is not None:
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)


def _first_owner(path: str) -> os.stat_result | None:
    """The status of the first part, or link on the way, that is not root's."""
    at, rest, links = "/", os.path.join(os.getcwd(), path).split("/"), 0
    while rest:
        at = os.path.join(at, rest.pop(0))
        try:
            status = os.lstat(at)
            if status.st_uid:
                return status
            if stat.S_ISLNK(status.st_mode) and (links := links + 1) <= MAX_LINKS:
                target = os.readlink(at)
                at, rest = os.path.dirname(at), [*target.split("/"), *rest]
                if target.startswith("/"):
                    at = "/"
        except OSError:
            return None  # nothing is there
    return None
