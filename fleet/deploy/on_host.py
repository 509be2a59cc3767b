"""What changes a host: runs there as root with its own Python; prints progress as lines of JSON.

Standard library only, and nothing of ours: it is sent as text (fleet/hosts/remote.py). It does one
of seven things:

    stage     remove releases that are too many, take a bundle from standard input, check it,
              unpack it to releases/<release>
    switch    have the new release check its configuration; then write files, set `current`,
              restart the unit; undo all at once if that fails
    confirm   the deployment is good: what undoes it is kept, no timer waits any more
    undo      put back the release and the files from before the last switch
    remove    remove releases
    write     write files that agents notice by themselves, such as keys
    boot      the host was started again before the verdict: wait anew, or undo

Before `switch` touches anything, what undoes it is on the disk, and a timer of systemd is armed
that does so unless `confirm` comes first: a host that lost its operator goes back by itself. The
timer is armed again, for the whole time, when the host is started meanwhile; when it is started a
second time, as one that panics, it goes back before its agent starts.

    /var/lib/sanderling-deploy/pending.json    what undoes a switch that awaits its verdict
                               kept.json       the same of the last one that was confirmed
                               saved-*/        the files for that, as they were
                               written.json    by unit, the files that were ever written
                               undo.py         this program, for the timer and for the start
                               journal.jsonl   what happened
"""

# ruff: noqa: PTH102, PTH103, PTH104, PTH105, PTH106, PTH108, PTH110, PTH112, PTH114, PTH115, PTH117, PTH119
# ruff: noqa: PTH120, PTH123, PTH208, PTH211 - without pathlib it starts faster on a small Pi

from __future__ import annotations

import base64
import compileall
import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

RELEASES = "/opt/sanderling/releases"
CURRENT = "/opt/sanderling/current"
JOURNAL = "/var/lib/sanderling-deploy"
UNITS = "/etc/systemd/system"
UNDO_UNIT = "sanderling-deploy-undo"
# A transient timer that former versions armed. They cannot where there is a file of that name.
FORMER_UNIT = "sanderling-undo"
BOOT_UNIT = "sanderling-deploy-undo-boot"
# Starts of the host without a verdict. One may be a power cut.
MOST_BOOTS = 1
SYSUSERS = "/usr/lib/sysusers.d/sanderling.conf"
BEAT_S = 2.0
# Silence of the operator while a bundle is awaited.
PATIENCE_S = 30
# Another of these programs may just be noticing that it has lost its operator.
LOCK_S = 60.0
CHUNK = 1 << 18
CONFIGURATION = "/etc/sanderling"
# Beside it, so that paths which lead out of it lead to the same.
TRIED = "/etc/.sanderling-tried"
STATE = "/var/lib/sanderling"
USER = "sanderling"
JOURNAL_LINES = 500
COMMAND_S = 60.0


class Failure(Exception):
    """Ends the program with one line."""

    def __init__(self, text: str, kind: str = "failed", **more: object) -> None:
        super().__init__(text)
        self.kind = kind
        self.more = more


class Host:
    """This host, or what stands for one below `root` in tests; `tools` has its commands there."""

    def __init__(self, root: str, tools: str = "") -> None:
        self.root = root.rstrip("/")
        self.tools = tools
        self._printing = threading.Lock()

    def at(self, path: str) -> str:
        return self.root + path

    def say(self, **line: object) -> None:
        """A line to the operator, who may be gone: what was begun is ended all the same."""
        with self._printing, contextlib.suppress(OSError, ValueError):
            print(json.dumps(line), flush=True)

    def run(self, *command: str, timeout_s: float = COMMAND_S, **more: Any) -> str:
        """The output of a command; Failure with its last line if it fails."""
        program, *rest = command
        try:
            done = subprocess.run(
                [program if os.path.isabs(program) else self.tools + program, *rest],
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=timeout_s,
                check=False,
                **more,
            )
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(command)} takes more than {timeout_s:g} s") from None
        except FileNotFoundError:
            raise Failure(f"{program} is missing there") from None
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failure(f"{' '.join(command)}: {said[-1] if said else done.returncode}")
        return str(done.stdout)

    @contextlib.contextmanager
    def lock(self, name: str = "lock") -> Iterator[None]:
        """One of these programs at a time; `files`: one that writes files. Keys are written while
        a release is still being uploaded."""
        os.makedirs(self.at(JOURNAL), mode=0o700, exist_ok=True)
        with open(self.at(f"{JOURNAL}/{name}"), "w") as file:
            give_up = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise Failure("another deployment is under way on it") from None
                    time.sleep(0.2)
            yield

    def beat(self) -> None:
        """Lines for as long as the program runs: silence is a lost connection to the operator."""

        def go_on() -> None:
            while True:
                time.sleep(BEAT_S)
                self.say(beat=True)

        threading.Thread(target=go_on, daemon=True).start()


# --- files --------------------------------------------------------------------------------------


Owner = tuple[int, int]


def write(host: Host, path: str, content: bytes, mode: int = 0o644, owner: Owner = (0, 0)) -> None:
    """Replace a file: at any moment there is the former or the new one."""
    target = host.at(path)
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    beside = f"{target}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        if not host.root:
            os.fchown(file.fileno(), *owner)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, target)
    sync_folder(os.path.dirname(target))


def has_user(name: str) -> bool:
    """Whether there is such a user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def user(host: Host, name: str) -> Owner:
    """A user's number and group; Failure if there is none."""
    if host.root:
        return 0, 0
    try:
        person = pwd.getpwnam(name)
    except KeyError:
        raise Failure(f"there is no user {name} yet; fleet deploy makes that user") from None
    return person.pw_uid, person.pw_gid


def is_there(host: Host, path: str, content: bytes, mode: int, owner: Owner) -> bool:
    """Whether a file is already as it shall be."""
    try:
        status = os.lstat(host.at(path))
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != mode:
            return False
        if not host.root and (status.st_uid, status.st_gid) != owner:
            return False
        with open(host.at(path), "rb") as file:
            return file.read() == content
    except OSError:
        return False


def write_files(host: Host, unit: str, files: list[Json]) -> list[str]:
    """Write files that are not as they shall be, in order; their paths."""
    written = []
    for file in files:
        content, owner = base64.b64decode(file["content"]), user(host, file["owner"])
        if not is_there(host, file["path"], content, file["mode"], owner):
            write(host, file["path"], content, file["mode"], owner)
            written.append(file["path"])
    found = read_json(host, f"{JOURNAL}/written.json") or {}
    ours = sorted({*found.get(unit, []), *(file["path"] for file in files)})
    if found.get(unit) != ours:
        write_json(host, f"{JOURNAL}/written.json", found | {unit: ours})
    return written


def write_json(host: Host, path: str, value: object) -> None:
    write(host, path, json.dumps(value).encode(), 0o600)


def read_json(host: Host, path: str) -> Json | None:
    try:
        with open(host.at(path), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sync_folder(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def sync_file_system(path: str) -> None:
    """All that was written below `path` is on the disk; one call instead of one for each file."""
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(number):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    finally:
        os.close(number)


def set_current(host: Host, release: str) -> None:
    """Set the link with one rename; with no release it is removed."""
    link = host.at(CURRENT)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{link}.new")
    if not release:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        return
    os.symlink(f"releases/{release}", f"{link}.new")
    os.replace(f"{link}.new", link)
    sync_folder(os.path.dirname(link))


def current(host: Host) -> str:
    try:
        return os.path.basename(os.readlink(host.at(CURRENT)))
    except OSError:
        return ""


def record(host: Host, **entry: object) -> None:
    """Add a line to the host's own journal, which keeps the last ones."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **entry}
    path = f"{JOURNAL}/journal.jsonl"
    try:
        with open(host.at(path), encoding="utf-8", errors="replace") as file:
            before = file.read().splitlines()[1 - JOURNAL_LINES :]
    except FileNotFoundError:
        before = []
    write(host, path, "".join(f"{each}\n" for each in [*before, json.dumps(line)]).encode(), 0o600)


# --- stage --------------------------------------------------------------------------------------


def stage(host: Host, request: Json, source: Any) -> Json:
    """Take the rest of a bundle, check all of it, unpack it."""
    release = request["release"]
    folder = host.at(RELEASES)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    remove(host, request["remove"], but=request["name"])
    if os.path.exists(f"{folder}/{release}/RELEASE"):
        return {"ok": True}
    upload = f"{folder}/{request['name']}"
    receive(upload, request["offset"], request["bytes"], source)
    host.say(at="unpacking")
    with open(upload, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != request["sha256"]:
        os.unlink(upload)
        raise Failure("the bundle arrived damaged, and was removed", "lost")
    unpack(upload, folder, release)
    os.unlink(upload)
    return {"ok": True}


def receive(upload: str, offset: int, size: int, source: Any) -> None:
    """Append what comes to the `offset` bytes that are there already."""

    def silent(*_: object) -> None:
        raise Failure(f"the operator has been silent for {PATIENCE_S} s", "lost")

    signal.signal(signal.SIGALRM, silent)
    with open(upload, "ab", buffering=0) as file:
        if file.tell() < offset:
            raise Failure(f"only {file.tell()} of {offset} bytes are there; run the command again")
        file.truncate(offset)
        file.seek(offset)
        left = size - offset
        while left:
            signal.alarm(PATIENCE_S)
            piece = source.read1(min(CHUNK, left))
            signal.alarm(0)
            if not piece:
                raise Failure(f"{left} bytes of the bundle did not come", "lost")
            left -= len(piece)
            try:
                while piece:
                    piece = piece[file.write(piece) :]
            except OSError:
                os.unlink(upload)  # a full disk needs the room
                raise


def unpack(bundle: str, folder: str, release: str) -> None:
    """Unpack beside, and rename when all of it is on the disk."""
    partial = f"{folder}/{release}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    os.mkdir(partial, 0o755)
    try:
        with tarfile.open(bundle, "r:xz") as archive:
            if hasattr(tarfile, "fully_trusted_filter"):  # its sha256 is the operator's
                archive.extraction_filter = tarfile.fully_trusted_filter
            archive.extractall(partial)  # noqa: S202 - as above
        with open(f"{partial}/RELEASE", encoding="utf-8") as file:
            said = file.read().strip()
        if said != release:
            raise Failure(f"the bundle holds release {said}, not {release}")
        if not has_byte_code(f"{partial}/lib"):
            compileall.compile_dir(f"{partial}/lib", quiet=2, workers=1, stripdir=partial)
        sync_file_system(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    # What is there has no RELEASE: it was not unpacked to its end by something else.
    shutil.rmtree(f"{folder}/{release}", ignore_errors=True)
    os.rename(partial, f"{folder}/{release}")
    sync_folder(folder)


def has_byte_code(folder: str) -> bool:
    return any(name.endswith(".pyc") for _, _, names in os.walk(folder) for name in names)


# --- check --------------------------------------------------------------------------------------


def check(host: Host, request: Json) -> None:
    """Have the agent of the new release check the configuration that it would get, while the
    former one, if any, goes on; Failure with what it says, and nothing is touched.

    Before a host's first deployment the agents' user and their folder for state are missing. The
    check is root's then, and the folder is there for as long as it takes.
    """
    wanted = request.get("check")
    if not wanted:
        return
    program = host.at(f"{RELEASES}/{request['release']}/bin/{wanted['program']}")
    config = host.at(f"{TRIED}/{wanted['config']}")
    state = host.at(STATE)
    first = not os.path.isdir(state)
    try:
        lay_out(host, request)
        if first:
            os.makedirs(state, 0o755)
        as_user = process_of_user(host)
        host.run(program, "--config", config, "--check", "--leave-sensors", cwd="/", **as_user)
    except Failure as error:
        said = str(error).partition(": error: ")[2] or str(error)
        if said.startswith("option --leave-sensors not recognized"):
            return  # a release from before there was such a check
        said = said.replace(host.at(TRIED), CONFIGURATION)
        what = f"nothing was touched, as {request['release']} refuses: {said}"
        raise Failure(what, refused=True) from None
    finally:
        forget_tried(host)
        if first:
            with contextlib.suppress(OSError):
                os.rmdir(state)


def forget_tried(host: Host) -> None:
    """Remove what was laid out for a check, which may have been killed: keys are among it."""
    shutil.rmtree(host.at(TRIED), ignore_errors=True)


def process_of_user(host: Host) -> Json:
    """What a process needs to run as the agents do; nothing if there is no such user yet."""
    if host.root or not has_user(USER):
        return {}
    number, group = user(host, USER)
    return {"user": number, "group": group, "extra_groups": os.getgrouplist(USER, group)}


def lay_out(host: Host, request: Json) -> None:
    """The folder of configuration as it would be after the switch."""
    top, tried = host.at(CONFIGURATION), host.at(TRIED)
    os.makedirs(tried, 0o755)
    for folder, folders, names in os.walk(top):
        beside = tried + folder[len(top) :]
        for name in folders:
            if not os.path.islink(f"{folder}/{name}"):
                os.mkdir(f"{beside}/{name}", 0o755)
        for name in names + [each for each in folders if os.path.islink(f"{folder}/{each}")]:
            if f"{folder}/{name}"[len(host.root) :] not in request["gone"]:
                os.symlink(f"{folder}/{name}", f"{beside}/{name}")
    for file in request["files"]:
        if file["path"].startswith(f"{CONFIGURATION}/"):
            path = TRIED + file["path"][len(CONFIGURATION) :]
            content = base64.b64decode(file["content"])
            owner = user(host, file["owner"]) if has_user(file["owner"]) else (0, 0)
            write(host, path, content, file["mode"], owner)


# --- switch, confirm, undo ----------------------------------------------------------------------


def switch(host: Host, request: Json, source: str) -> Json:
    """Make the changes, unless the new agent refuses them; if one fails, undo all."""
    check(host, request)
    pending = prepare(host, request)
    try:
        arm(host, request["window_s"], source)
        make(host, request)
    except Exception as error:  # noqa: BLE001 - whatever it is, the host goes back at once
        try:
            undo(host, "pending", f"could not be switched to: {error}")
        except (Failure, OSError) as trouble:
            raise Failure(f"{error}; {trouble}", kind_of(error)) from None
        raise Failure(str(error), kind_of(error), rolled_back=pending["before"]) from None
    return {"ok": True, "before": pending["before"]}


def make(host: Host, request: Json) -> None:
    of_users = [file for file in request["files"] if file["path"] == SYSUSERS]
    others = [file for file in request["files"] if file["path"] != SYSUSERS]
    with host.lock("files"):
        write_files(host, request["unit"], of_users)
        if of_users or request["users"]:
            host.run("systemd-sysusers")
        write_files(host, request["unit"], others)
    if request["rules"]:
        with contextlib.suppress(Failure):  # a host without devices of its own has no udev
            host.run("udevadm", "control", "--reload")
            host.run("udevadm", "trigger", "--subsystem-match=gpio")
    if request["release"] != current(host):
        set_current(host, request["release"])
    if request["units"]:
        host.run("systemctl", "daemon-reload")
    if request["enable"]:
        host.run("systemctl", "enable", "--quiet", request["unit"])
    if request["restart"]:
        host.say(at="restarting")
        start(host, request["unit"], request["start_s"])
    # The agent may have looked at them as long as it had its former configuration.
    with host.lock("files"):
        for path in request["gone"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(host.at(path))


def start(host: Host, unit: str, patience_s: float) -> None:
    """Start a unit anew and wait until it says that it is ready; Failure with its own last word."""
    try:
        host.run("systemctl", "restart", unit, timeout_s=patience_s)
    except Failure as error:
        raise Failure(f"{unit} does not start: {last_word(host, unit) or error}") from None


def last_word(host: Host, unit: str) -> str:
    """What the agent itself wrote last, since it was started last."""
    try:
        started = host.run("systemctl", "show", "--value", "-p", "InvocationID", unit).strip()
        text = host.run(
            "journalctl", f"_SYSTEMD_INVOCATION_ID={started}", "-n", "1", "-o", "cat",
            "--no-pager", "-q",
        )  # fmt: skip
    except Failure:
        return ""
    return text.strip().splitlines()[-1].strip()[:300] if text.strip() else ""


def prepare(host: Host, request: Json) -> Json:
    """Put what undoes the switch on the disk, before anything is touched. A switch that still
    awaits its verdict goes on being undone to where it began."""
    found = read_json(host, f"{JOURNAL}/pending.json")
    if found is None:
        active, enabled = unit_state(host, request["unit"])
        found = {
            "before": current(host),
            "folder": f"saved-{time.time_ns()}",
            "files": [],
            "unit": request["unit"],
            "was_active": active,
            "was_enabled": enabled,
        }
    require_unit(found, request["unit"])
    folder = f"{JOURNAL}/{found['folder']}"
    os.makedirs(host.at(folder), mode=0o700, exist_ok=True)
    becomes = {
        file["path"]: hashlib.sha256(base64.b64decode(file["content"])).hexdigest()
        for file in request["files"]
    }
    saved = {file["path"]: file for file in found["files"]}
    for path in (*becomes, *request["gone"]):
        if path not in saved:
            saved[path] = save(host, folder, path, len(saved))
            found["files"].append(saved[path])
        saved[path]["wrote"].append(becomes.get(path))
    found |= {
        "run": request["run"],
        "release": request["release"],
        "boots": 0,
        "boot_id": boot_id(host),
        "window_s": request["window_s"],
        "deadline_s": time.monotonic() + request["window_s"],
    }
    write_json(host, f"{JOURNAL}/pending.json", found)
    return found


def require_unit(found: Json, unit: str) -> None:
    """A host may have two agents, and undoes the switch of one of them at a time."""
    if found["unit"] != unit:
        raise Failure(f"the last deployment on it was that of {found['unit']}")


def save(host: Host, folder: str, path: str, number: int) -> Json:
    """A file as it is. `wrote` will have the digests of what it is replaced by."""
    try:
        with open(host.at(path), "rb") as file:
            content, status = file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return {"path": path, "saved": None, "wrote": []}
    write(host, f"{folder}/{number}", content, 0o600)
    owner = [status.st_uid, status.st_gid]
    mode = stat.S_IMODE(status.st_mode)
    return {"path": path, "saved": str(number), "mode": mode, "owner": owner, "wrote": []}


def boot_id(host: Host) -> str:
    try:
        with open(host.at("/proc/sys/kernel/random/boot_id"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def unit_state(host: Host, unit: str) -> tuple[bool, bool]:
    """Whether a unit is active, and whether it is enabled."""
    try:
        text = host.run("systemctl", "show", "-p", "ActiveState,UnitFileState", unit)
    except Failure:
        return False, False
    rows = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return rows.get("ActiveState") == "active", rows.get("UnitFileState") == "enabled"


def arm(host: Host, window_s: float, source: str) -> None:
    """Have systemd undo it after `window_s` unless `confirm` comes first, whatever is started
    again meanwhile."""
    write(host, f"{JOURNAL}/undo.py", source.encode(), 0o700)
    disarm(host)
    for name, text in undo_units(host, window_s).items():
        if not is_there(host, f"{UNITS}/{name}", text.encode(), 0o644, (0, 0)):
            write(host, f"{UNITS}/{name}", text.encode())
    enable(host, "timers.target", f"{UNDO_UNIT}.timer")
    enable(host, "multi-user.target", f"{BOOT_UNIT}.service")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", f"{UNDO_UNIT}.timer")


def undo_units(host: Host, window_s: float) -> dict[str, str]:
    """The units that undo a switch, by name: they stay, and do nothing without one."""
    pending = host.at(f"{JOURNAL}/pending.json")
    program = f"{sys.executable or '/usr/bin/python3'} -I {host.at(f'{JOURNAL}/undo.py')}"
    return {
        f"{UNDO_UNIT}.service": f"""[Unit]
Description=Undo a deployment that nobody confirmed

[Service]
Type=oneshot
ExecStart={program}
""",
        f"{UNDO_UNIT}.timer": f"""[Unit]
Description=Wait for the verdict on a deployment
# Also at each start of the host: then it waits for the whole time again.
ConditionPathExists={pending}

[Timer]
OnActiveSec={window_s:.0f}
AccuracySec=1s
""",
        f"{BOOT_UNIT}.service": f"""[Unit]
Description=Undo a deployment with which this host does not stay up
ConditionPathExists={pending}
Before=sanderling-edge.service sanderling-master.service

[Service]
Type=oneshot
ExecStart={program} boot
# The agents wait for it.
TimeoutStartSec=60
""",
    }


def enable(host: Host, target: str, unit: str) -> None:
    """As `systemctl enable` does, and on the disk when it returns."""
    folder = host.at(f"{UNITS}/{target}.wants")
    if os.path.lexists(f"{folder}/{unit}"):
        return
    os.makedirs(folder, mode=0o755, exist_ok=True)
    os.symlink(f"{UNITS}/{unit}", f"{folder}/{unit}")
    sync_folder(folder)


def disarm(host: Host) -> None:
    for place, unit in ((UNITS, UNDO_UNIT), ("/run/systemd/transient", FORMER_UNIT)):
        if not os.path.exists(host.at(f"{place}/{unit}.timer")):
            continue
        with contextlib.suppress(Failure):  # there is none
            host.run("systemctl", "stop", f"{unit}.timer")
        with contextlib.suppress(Failure):  # it has not failed
            host.run("systemctl", "reset-failed", f"{unit}.timer", f"{unit}.service")


def boot(host: Host) -> Json:
    """The host was started. With no verdict on a switch yet, the timer waits for it anew; but a
    host that is started again and again would wait for ever, so it goes back."""
    found = read_json(host, f"{JOURNAL}/pending.json")
    now = boot_id(host)
    if found is None or found["boot_id"] == now:
        return {"ok": True}
    boots = found.get("boots", 0) + 1
    if boots > MOST_BOOTS:
        reason = f"it was started {boots} times before anybody confirmed it"
        return undo(host, "pending", reason, at_boot=True)
    deadline_s = time.monotonic() + found["window_s"]
    found |= {"boots": boots, "boot_id": now, "deadline_s": deadline_s}
    write_json(host, f"{JOURNAL}/pending.json", found)
    return {"ok": True}


def confirm(host: Host, request: Json) -> Json:
    """The verdict is good."""
    found = read_json(host, f"{JOURNAL}/pending.json")
    if found is None or found["release"] != request["release"]:
        raise Failure("it went back by itself before the verdict came", rolled_back="")
    require_unit(found, request["unit"])
    if request["check"] and not unit_state(host, found["unit"])[0]:
        word = last_word(host, found["unit"])
        undo(host, "pending", f"it ended after it had been healthy: {word}")
        raise Failure(f"it ended again: {word}", rolled_back=found["before"])
    disarm(host)
    os.replace(host.at(f"{JOURNAL}/pending.json"), host.at(f"{JOURNAL}/kept.json"))
    sync_folder(host.at(JOURNAL))
    for name in os.listdir(host.at(JOURNAL)):
        if name.startswith("saved-") and name != found["folder"]:
            shutil.rmtree(host.at(f"{JOURNAL}/{name}"), ignore_errors=True)
    record(host, run=found["run"], release=found["release"], before=found["before"], outcome="kept")
    return {"ok": True}


def undo(host: Host, which: str, reason: str, unit: str = "", *, at_boot: bool = False) -> Json:
    """Put back what was before a switch: `pending`, or `kept`, the last that was confirmed.
    `at_boot`: units wait for this to end."""
    found = read_json(host, f"{JOURNAL}/{which}.json")
    if found is None:
        raise Failure("nothing is there to go back to")
    if unit:
        require_unit(found, unit)
    before = found["before"]
    if before and not os.path.exists(host.at(f"{RELEASES}/{before}/RELEASE")):
        raise Failure(f"release {before}, which was there before, is gone")
    word = last_word(host, found["unit"])
    problems = []
    with host.lock("files"):
        for file in found["files"]:
            try:
                put_back(host, f"{JOURNAL}/{found['folder']}", file)
            except OSError as error:
                problems.append(f"{file['path']}: {error.strerror}")
    set_current(host, before)
    # The journal first: what was put back stays so, whatever the unit does.
    entry = {"run": found["run"], "release": found["release"], "before": before}
    record(host, **entry, outcome="rolled_back", reason=reason)
    if not problems:  # else it can be tried again
        os.unlink(host.at(f"{JOURNAL}/{which}.json"))
        shutil.rmtree(host.at(f"{JOURNAL}/{found['folder']}"), ignore_errors=True)
    try:
        resume(host, found, at_boot=at_boot)
    except Failure as error:
        problems.append(str(error))
    disarm(host)
    if problems:
        raise Failure(f"rolled back with trouble: {'; '.join(problems)}")
    return {"ok": True, "release": before, "was_active": found["was_active"], "word": word}


def put_back(host: Host, folder: str, file: Json) -> None:
    """Let a file be as it was, unless somebody else has written it since: a key that was rotated
    meanwhile stays."""
    try:
        with open(host.at(file["path"]), "rb") as now:
            if hashlib.sha256(now.read()).hexdigest() not in file["wrote"]:
                return
    except FileNotFoundError:
        pass
    if file["saved"] is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(host.at(file["path"]))
        return
    with open(host.at(f"{folder}/{file['saved']}"), "rb") as saved:
        write(host, file["path"], saved.read(), file["mode"], tuple(file["owner"]))


def resume(host: Host, found: Json, *, at_boot: bool) -> None:
    """Let the unit be as it was."""
    unit = found["unit"]
    if not found["was_enabled"]:
        with contextlib.suppress(Failure):
            host.run("systemctl", "disable", "--quiet", unit)
    host.run("systemctl", "daemon-reload")
    if found["was_active"] and at_boot:
        host.run("systemctl", "--no-block", "restart", unit)
    elif found["was_active"]:
        start(host, unit, COMMAND_S)
    else:
        with contextlib.suppress(Failure):  # its unit file may be gone
            host.run("systemctl", "stop", unit)
            host.run("systemctl", "reset-failed", unit)


def remove(host: Host, releases: list[str], but: str = "") -> Json:
    """Remove releases, never the one in use, and what is left of uploads `but` one."""
    folder = host.at(RELEASES)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    left_over = {name for name in names if name.endswith((".partial", ".upload"))}
    pending = read_json(host, f"{JOURNAL}/pending.json") or {}
    for name in ({*releases} & {*names} | left_over) - {current(host), pending.get("before"), but}:
        path = f"{folder}/{name}"
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
    return {"ok": True}


def write_now(host: Host, request: Json) -> Json:
    """Write files beside whatever else is under way."""
    if not os.path.isdir(host.at(CONFIGURATION)):
        raise Failure(f"there is no {CONFIGURATION} yet; fleet deploy sets it up")
    with host.lock("files"):
        return {"ok": True, "written": write_files(host, request["unit"], request["files"])}


def kind_of(error: BaseException) -> str:
    if isinstance(error, Failure):
        return error.kind
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return "disk_full" if full else "failed"


def do(host: Host, request: Json, source: str, data: Any) -> Json:
    """What is asked for; Failure."""
    what = request["do"]
    if what == "write":
        return write_now(host, request)
    with host.lock():
        forget_tried(host)
        if what == "stage":
            return stage(host, request, data)
        if what == "switch":
            return switch(host, request, source)
        if what == "confirm":
            return confirm(host, request)
        if what == "remove":
            return remove(host, request["remove"])
        if what == "boot":
            return boot(host)
        return undo(host, request["which"], request["reason"], request["unit"])


def main(request: Json, source: str) -> None:
    """Do it and print how it ended."""
    os.umask(0o022)
    host = Host(request.get("root", "/"), request.get("tools", ""))
    host.beat()
    try:
        host.say(**do(host, request, source, sys.stdin.buffer))
    except Failure as error:
        host.say(error=str(error), kind=error.kind, **error.more)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        host.say(error=f"{where}{error.strerror or error}", kind=kind_of(error))
    except Exception as error:  # noqa: BLE001 - one line instead of a traceback, whatever it is
        host.say(error=f"{type(error).__name__}: {error}", kind="failed")


if __name__ == "__main__":
    BY_ITSELF = {
        "do": "boot" if sys.argv[1:] == ["boot"] else "undo",
        "which": "pending",
        "reason": "nobody confirmed it in time",
        "unit": "",
    }
    main(globals().get("REQUEST", BY_ITSELF), globals().get("SOURCE", b"").decode())
