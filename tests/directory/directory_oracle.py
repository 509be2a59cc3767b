"""The directory as a list of records, searched by brute force; and a disk in memory."""

from __future__ import annotations

from agent.directory.directory import Directory, Edit
from agent.wire import directory as d
from agent.wire.areas import overlaps

NAMES = ("ann", "bob", "cat", "dan")
KEYS = ("k1", "k2", "k3")
# Some differ from "a/b" in a character that sorts just before or after "/".
AREAS = ("a", "a/b", "a/b/c", "a/b/c/d", "a/bb", "a/b.c", "a/b0", "a/x", "e", "e/f", "ee")
CAPABILITIES = ("temperature", "humidity")


class Oracle:
    """Parties by name, as a reader of the documentation would keep them."""

    def __init__(self):
        self.kinds: dict[str, str] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        self.records: dict[str, d.Register] = {}
        self.ends: dict[str, float] = {}

    def expire(self, now):
        for name in [name for name, at in self.ends.items() if at <= now]:
            self.records.pop(name, None)
            del self.ends[name]
            if not self.keys[name]:
                self.forget(name)

    def may_be(self, name, kind, keys):
        if self.kinds.get(name, kind) != kind:
            return False
        taken = {key for other, ks in self.keys.items() if other != name for key in ks}
        return not taken & set(keys)

    def forget(self, name):
        del self.kinds[name], self.keys[name]
        self.records.pop(name, None)
        self.ends.pop(name, None)

    def discover(self, capability, asked):
        found = []
        for name, record in sorted(self.records.items()):
            areas = {
                area
                for offering in record.offerings
                if offering.capability == capability
                for area in offering.areas
                if any(overlaps(area, one) for one in asked)
            }
            if areas:
                found.append(
                    d.Candidate(name, record.address, self.keys[name], tuple(sorted(areas)))
                )
        uncovered = [
            one
            for one in dict.fromkeys(asked)
            if not any(overlaps(one, area) for c in found for area in c.areas)
        ]
        return tuple(found), tuple(uncovered)

    def places(self):
        """Areas, and different areas above them, of each IAD and capability."""
        count = 0
        for record in self.records.values():
            for capability in CAPABILITIES:
                areas = {
                    area
                    for offering in record.offerings
                    if offering.capability == capability
                    for area in offering.areas
                }
                segments = [area.split("/") for area in areas]
                above = {"/".join(one[:depth]) for one in segments for depth in range(1, len(one))}
                count += len(areas) + len(above)
        return count

    def owner(self, key):
        return next((name for name, keys in self.keys.items() if key in keys), None)

    def look_up(self, names):
        return tuple(
            d.Candidate(
                name,
                record.address,
                self.keys[name],
                tuple(sorted({a for offering in record.offerings for a in offering.areas})),
            )
            for name, record in sorted(self.records.items())
            if name in names
        )

    def accounts(self):
        return tuple(
            d.Account(name, kind, self.keys[name]) for name, kind in sorted(self.kinds.items())
        )


class Disk:
    """What a store does, without a file."""

    def __init__(self, epoch):
        self.epoch, self.version = epoch, 0
        self.entries: dict[str, d.DirectoryEntry] = {}

    def write(self, edit: Edit):
        if edit.whole:
            self.entries.clear()
        for entry in edit.entries:
            if entry.gone:
                self.entries.pop(entry.account.name, None)
            else:
                self.entries[entry.account.name] = entry
        self.epoch, self.version = edit.epoch, edit.version

    def load(self):
        return Directory(self.epoch, self.version, self.entries.values())
