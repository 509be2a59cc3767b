"""Entry point of the `fleet` command: exit statuses and the handling of every error.

Exit status: 0 done (of a query: complete), 1 failed (of a query: partial), 2 wrong usage,
3 refused, 4 no reply that can be read, 5 nothing was done (every host failed, or it was stopped
before the first), 74 the output could not be written, 130 interrupted. Errors are one line on
stderr; one that nobody expected names the file with its traceback.
"""

from __future__ import annotations

import errno
import os
import sys

# Next to nothing is imported here: Ctrl-C is only answered afterwards.
from fleet.common import streams
from fleet.common.exits import DONE, FAILED, INTERRUPTED, OUTPUT, USAGE, fail

# What a file's place, rights and disk are the cause of, wherever a command meets it.
OF_THE_MACHINE = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO),
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
    *(errno.EMFILE, errno.ENFILE),
}
NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


def main() -> int:
    """Run the command; the exit status."""
    streams.prepare()
    try:
        try:
            os.getcwd()  # noqa: PTH109 - pathlib takes time to import
        except FileNotFoundError:
            return fail("this folder was deleted; go to another one", USAGE)
        # Inside, so that Ctrl-C during the imports ends in one line too.
        try:
            from fleet.cli.commands import run
        except ModuleNotFoundError as error:
            if error.name not in {"click", "rich"}:
                raise
            how = "in a checkout, run .venv/bin/pip install -e '.[cli]'"
            return fail(f"{error.name} is missing; {how}", USAGE)
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        return fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of stdout has closed it
        streams.give_up()
        return DONE
    except streams.OutputError as error:
        streams.give_up()
        return fail(str(error), OUTPUT)
    except Exception as error:
        from fleet.common import crash_reports

        if crash_reports.raised:
            raise
        if isinstance(error, OSError) and error.errno in OF_THE_MACHINE and error.filename:
            return fail(f"{error.filename}: {error.strerror}", FAILED)
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # a write names no file
            return fail(f"{error.strerror}; make room and try again", FAILED)
        return fail(f"unexpected {crash_reports.told(error)}", FAILED)
    return status
