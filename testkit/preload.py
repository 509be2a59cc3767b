"""A preloaded library that delays a process's fsync and steps its wall clock.

Both numbers are in a small file that the library maps, so that they can change while the process
runs, and take effect at once. The monotonic clock stays, as it does when somebody sets a clock.
"""

from __future__ import annotations

import mmap
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NUMBERS: Final = struct.Struct("=qq")

LIBRARY: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#define SLICE_MS 10
static const volatile int64_t *told;
__attribute__((constructor)) static void open_told(void) {
    const char *path = getenv("PRELOAD_NUMBERS");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) told = at;
}
static void wait_a_while(void) {
    const struct timespec slice = {0, SLICE_MS * 1000000L};
    for (int64_t waited = 0; told && waited < told[0]; waited += SLICE_MS) nanosleep(&slice, NULL);
}
int fsync(int fd) {
    wait_a_while();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    wait_a_while();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned int flags) {
    wait_a_while();
    return ((int (*)(int, off64_t, off64_t, unsigned int))dlsym(RTLD_NEXT, "sync_file_range"))(
        fd, offset, bytes, flags);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && told && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += told[1];
    return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *kept) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (kept) *kept = exact.tv_sec;
    return exact.tv_sec;
}
"""


class Preload:
    """The disk and the wall clock of each named process; nothing is delayed or stepped at first.
    FileNotFoundError without gcc."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._files = {name: folder / f"preload-{name}" for name in names}
        for each in self._files.values():
            each.write_bytes(NUMBERS.pack(0, 0))
        source, self._library = folder / "preload.c", folder / "preload.so"
        source.write_text(LIBRARY)
        compiler = ["gcc", "-shared", "-fPIC", "-O1", str(source), "-o", str(self._library)]
        subprocess.run([*compiler, "-ldl"], check=True)

    def delay(self, name: str, delay_ms: int) -> None:
        """Set the delay of one disk, which also applies to an fsync in progress."""
        self._set(name, 0, delay_ms)

    def step(self, name: str, offset_s: int) -> None:
        """Put that wall clock so many seconds off the machine's."""
        self._set(name, 1, offset_s)

    def command(self, name: str) -> tuple[str, ...]:
        """The prefix that runs a command on this disk and clock."""
        return "env", f"LD_PRELOAD={self._library}", f"PRELOAD_NUMBERS={self._files[name]}"

    def _set(self, name: str, place: int, number: int) -> None:
        with self._files[name].open("r+b") as file, mmap.mmap(file.fileno(), NUMBERS.size) as both:
            # Whole words: the other side reads either the old or the new one.
            both[place * 8 : place * 8 + 8] = struct.pack("=q", number)
