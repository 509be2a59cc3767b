/* Recorder of what a process does to the files of one folder; loaded with LD_PRELOAD.
 *
 * Every change goes to a log in the order in which it took effect, with its data: `recording.py`
 * reads it, `disk.py` makes from it what a disk may hold after a power cut. Changes that the model
 * of the disk does not know (a shared writable mapping, a hard link, …) are recorded as UNKNOWN, so
 * that no log is taken for complete that is not.
 *
 * A page that the controlling process maps too makes operations fail and moves the wall clock.
 *
 * TORTURE_FOLDER   the folder, absolute and without symbolic links
 * TORTURE_LOG      the log; appended to
 * TORTURE_CONTROL  the page; see struct control
 * TORTURE_BOOT     a file to be read for the kernel's boot id
 * TORTURE_RANDOM   a file to be read for /dev/urandom, which SQLite draws its salts from
 *
 * Left out: files named …-shm, which SQLite maps and which carry nothing across a power cut
 * (faults hit them all the same); descriptors that were duplicated or opened relative to another.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* A descriptor that cannot be open: what is written there is a mark in the log. */
enum { MARK_FD = 1000077, MAX_FDS = 4096 };

enum kind {
    OPEN, CLOSE, WRITE, TRUNCATE, SYNC, RENAME, UNLINK, MKDIR, RMDIR, MARK, UNKNOWN, READ
};

/* With the names of `recording.py`; path and data follow. */
struct record {
    uint8_t kind;
    uint8_t made;   /* OPEN: 1 the file is new, 2 it was emptied */
    uint16_t path;  /* length */
    uint32_t data;  /* length */
    int32_t fd;
    int32_t error;  /* SYNC: an errno or 0; of other kinds only successes are recorded */
    int64_t offset; /* TRUNCATE: the new size */
};

struct control {
    int64_t clock_ns; /* added to the wall clock */
    int32_t error;    /* errno of operations that fail; 0: none fails */
    uint32_t kinds;   /* bit 1 << kind: these fail; ENOSPC only where more room is asked for */
    int64_t after;    /* let so many of them pass first */
    int64_t count;    /* then let so many fail */
    int64_t failed;   /* counted here */
    int64_t clock_state; /* what adjtimex says: 0 the truth, 1 synchronised, 2 not */
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static uint8_t watched[MAX_FDS]; /* 1: faults hit it; 3: and it is recorded */
static char folder[PATH_MAX];
static size_t folder_length;
static int log_fd = -1;
static struct control nothing;
static volatile struct control *control = &nothing;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void forked(void) {
    if (log_fd >= 0) syscall(SYS_close, log_fd);
    log_fd = -1;
    folder_length = 0;
    memset(watched, 0, sizeof watched);
}

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("TORTURE_FOLDER"), *log = getenv("TORTURE_LOG");
    const char *page = getenv("TORTURE_CONTROL");
    if (!where || !log || strlen(where) >= sizeof folder) return;
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log_fd < 0) abort();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a campaign that is killed leaves nobody behind */
    strcpy(folder, where);
    folder_length = strlen(folder);
    pthread_atfork(NULL, NULL, forked);
    if (page) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, page, O_RDWR | O_CLOEXEC);
        void *at = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd < 0 || at == MAP_FAILED) abort();
        control = at;
    }
}

/* 0, 1 or 3, as in `watched`. */
static uint8_t watch_of(const char *path) {
    if (!folder_length || !path || strncmp(path, folder, folder_length)) return 0;
    if (path[folder_length] != '/' && path[folder_length]) return 0;
    size_t length = strlen(path);
    return length > 4 && !strcmp(path + length - 4, "-shm") ? 1 : 3;
}

static uint8_t watch_of_fd(int fd) { return fd >= 0 && fd < MAX_FDS ? watched[fd] : 0; }

static void record(
    enum kind kind, int made, int fd, int error, int64_t offset,
    const char *path, const void *data, size_t length
) {
    if (log_fd < 0) return;
    struct record head = {
        (uint8_t)kind, (uint8_t)made, (uint16_t)(path ? strlen(path) : 0), (uint32_t)length,
        fd, error, offset,
    };
    struct iovec parts[3] = {
        {&head, sizeof head}, {(void *)path, head.path}, {(void *)data, length},
    };
    ssize_t all = (ssize_t)(sizeof head + head.path + length);
    int before = errno;
    if (syscall(SYS_writev, log_fd, parts, 3) != all) abort();
    errno = before;
}

/* Whether this operation has to fail; sets errno. */
static int fails(enum kind kind) {
    if (!control->error || !(control->kinds >> kind & 1)) return 0;
    if (control->after > 0) {
        control->after--;
        return 0;
    }
    if (control->count <= 0) return 0;
    control->count--;
    control->failed++;
    errno = control->error;
    return 1;
}

static int64_t size_of(int fd) {
    struct stat found;
    return fstat(fd, &found) ? 0 : found.st_size;
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int open_watched(const char *path, int flags, mode_t mode, uint8_t watch) {
    pthread_mutex_lock(&order);
    int there = !syscall(SYS_faccessat, AT_FDCWD, path, F_OK);
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    int fd = -1;
    /* A full disk refuses new files only. */
    if (!(writes && !(control->error == ENOSPC && there) && fails(OPEN))) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
        if (fd >= 0 && fd < MAX_FDS) {
            watched[fd] = watch;
            int made = !there ? 1 : flags & O_TRUNC ? 2 : 0;
            if (watch == 3) record(OPEN, made, fd, 0, 0, path, NULL, 0);
        }
    }
    pthread_mutex_unlock(&order);
    return fd;
}

static int open_any(const char *path, int flags, mode_t mode) {
    const char *boot = getenv("TORTURE_BOOT"), *drawn = getenv("TORTURE_RANDOM");
    if (boot && path && !strcmp(path, "/proc/sys/kernel/random/boot_id")) path = boot;
    if (drawn && path && !strcmp(path, "/dev/urandom")) path = drawn;
    uint8_t watch = watch_of(path);
    if (watch) return open_watched(path, flags, mode, watch);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define MODE(flags, mode) do { if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } } while (0)

int open(const char *path, int flags, ...) {
    mode_t mode = 0;
    MODE(flags, mode);
    return open_any(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    MODE(flags, mode);
    return open_any(path, flags | O_LARGEFILE, mode);
}

int openat(int at, const char *path, int flags, ...) {
    mode_t mode = 0;
    MODE(flags, mode);
    if (*path == '/') return open_any(path, flags, mode);
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
    mode_t mode = 0;
    MODE(flags, mode);
    if (*path == '/') return open_any(path, flags | O_LARGEFILE, mode);
    return (int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode);
}

int creat(const char *path, mode_t mode) {
    return open_any(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int close(int fd) {
    if (!watch_of_fd(fd)) return (int)syscall(SYS_close, fd);
    pthread_mutex_lock(&order);
    if (watched[fd] == 3) record(CLOSE, 0, fd, 0, 0, NULL, NULL, 0);
    watched[fd] = 0;
    int result = (int)syscall(SYS_close, fd);
    pthread_mutex_unlock(&order);
    return result;
}

/* --- contents --------------------------------------------------------------------------------- */

static ssize_t write_watched(int fd, const void *data, size_t length, int64_t at, int positioned) {
    pthread_mutex_lock(&order);
    if (!positioned)
        at = (int64_t)(fcntl(fd, F_GETFL) & O_APPEND ? size_of(fd) : lseek(fd, 0, SEEK_CUR));
    ssize_t result = -1;
    int grows = at + (int64_t)length > size_of(fd);
    int full = control->error == ENOSPC;
    if ((full && !grows) || !fails(WRITE)) {
        result = positioned ? syscall(SYS_pwrite64, fd, data, length, at)
                            : syscall(SYS_write, fd, data, length);
    } else if (full && length > 1024) {
        /* The last room of a full disk takes a part. The rest, tried next, fails. */
        control->count++;
        result = positioned ? syscall(SYS_pwrite64, fd, data, length / 2, at)
                            : syscall(SYS_write, fd, data, length / 2);
    }
    if (result > 0 && watched[fd] == 3) record(WRITE, 0, fd, 0, at, NULL, data, (size_t)result);
    pthread_mutex_unlock(&order);
    return result;
}

ssize_t write(int fd, const void *data, size_t length) {
    if (fd == MARK_FD) {
        pthread_mutex_lock(&order);
        record(MARK, 0, fd, 0, 0, NULL, data, length);
        pthread_mutex_unlock(&order);
        return (ssize_t)length;
    }
    if (!watch_of_fd(fd)) return REAL(write)(fd, data, length); /* a cancellation point */
    return write_watched(fd, data, length, 0, 0);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t at) {
    if (!watch_of_fd(fd)) return syscall(SYS_pwrite64, fd, data, length, at);
    return write_watched(fd, data, length, at, 1);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    return pwrite64(fd, data, length, at);
}

static int refused_read(int fd) {
    if (!watch_of_fd(fd)) return 0;
    pthread_mutex_lock(&order);
    int refused = fails(READ);
    pthread_mutex_unlock(&order);
    return refused;
}

ssize_t read(int fd, void *data, size_t length) {
    return refused_read(fd) ? -1 : REAL(read)(fd, data, length);
}

ssize_t pread64(int fd, void *data, size_t length, off64_t at) {
    return refused_read(fd) ? -1 : syscall(SYS_pread64, fd, data, length, at);
}

ssize_t pread(int fd, void *data, size_t length, off_t at) { return pread64(fd, data, length, at); }

int ftruncate64(int fd, off64_t size) {
    if (!watch_of_fd(fd)) return (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_lock(&order);
    int result = -1;
    if ((control->error == ENOSPC && size <= size_of(fd)) || !fails(TRUNCATE)) {
        result = (int)syscall(SYS_ftruncate, fd, size);
        if (!result && watched[fd] == 3) record(TRUNCATE, 0, fd, 0, size, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&order);
    return result;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

static int sync_watched(int fd, long number) {
    pthread_mutex_lock(&order);
    int result = -1;
    if (!fails(SYNC)) result = (int)syscall(number, fd);
    if (watched[fd] == 3) record(SYNC, 0, fd, result ? errno : 0, 0, NULL, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}

int fsync(int fd) {
    return watch_of_fd(fd) ? sync_watched(fd, SYS_fsync) : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    return watch_of_fd(fd) ? sync_watched(fd, SYS_fdatasync) : REAL(fdatasync)(fd);
}

/* --- names ------------------------------------------------------------------------------------ */

static int changed(enum kind kind, int result, const char *path, const char *to) {
    if (!result && watch_of(path) == 3)
        record(kind, 0, -1, 0, 0, path, to, to ? strlen(to) : 0);
    return result;
}

/* Freeing room works on a full disk. */
#define NAMES(kind, path, to, call) do { \
    if (!watch_of(path)) return (int)(call); \
    pthread_mutex_lock(&order); \
    int result = control->error != ENOSPC && fails(kind) ? -1 : changed(kind, (int)(call), path, to); \
    pthread_mutex_unlock(&order); \
    return result; } while (0)

int rename(const char *from, const char *to) {
    NAMES(RENAME, from, to, syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char *path) { NAMES(UNLINK, path, NULL, syscall(SYS_unlinkat, AT_FDCWD, path, 0)); }

int mkdir(const char *path, mode_t mode) {
    NAMES(MKDIR, path, NULL, syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int rmdir(const char *path) {
    NAMES(RMDIR, path, NULL, syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

/* --- what the model does not know ------------------------------------------------------------- */

static void unknown(const char *what, int concerns) {
    if (!concerns) return;
    pthread_mutex_lock(&order);
    record(UNKNOWN, 0, -1, 0, 0, what, NULL, 0);
    pthread_mutex_unlock(&order);
}

#define RECORDED(fd) (watch_of_fd(fd) == 3)

void *mmap64(void *at, size_t length, int protection, int flags, int fd, off64_t offset) {
    int writes = flags & MAP_SHARED && protection & PROT_WRITE && !(flags & MAP_ANONYMOUS);
    unknown("mmap", writes && RECORDED(fd));
    return (void *)syscall(SYS_mmap, at, length, protection, flags, fd, offset);
}

void *mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset) {
    return mmap64(at, length, protection, flags, fd, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    unknown("writev", RECORDED(fd));
    return REAL(writev)(fd, parts, count);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    unknown("pwritev", RECORDED(fd));
    return REAL(pwritev64)(fd, parts, count, at);
}

int fallocate64(int fd, int mode, off64_t at, off64_t length) {
    unknown("fallocate", RECORDED(fd));
    return REAL(fallocate64)(fd, mode, at, length);
}

int posix_fallocate64(int fd, off64_t at, off64_t length) {
    unknown("posix_fallocate", RECORDED(fd));
    return REAL(posix_fallocate64)(fd, at, length);
}

ssize_t copy_file_range(
    int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags
) {
    unknown("copy_file_range", RECORDED(to));
    return REAL(copy_file_range)(from, from_at, to, to_at, length, flags);
}

int truncate64(const char *path, off64_t size) {
    unknown("truncate", watch_of(path) == 3);
    return REAL(truncate64)(path, size);
}

int link(const char *from, const char *to) {
    unknown("link", watch_of(to) == 3);
    return REAL(link)(from, to);
}

int symlink(const char *from, const char *to) {
    unknown("symlink", watch_of(to) == 3);
    return REAL(symlink)(from, to);
}

int dup2(int from, int to) {
    unknown("dup2", RECORDED(from) || RECORDED(to));
    return REAL(dup2)(from, to);
}

/* --- the wall clock --------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = REAL(clock_gettime)(clock, now);
    if (!result && control->clock_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = now->tv_sec * 1000000000LL + now->tv_nsec + control->clock_ns;
        now->tv_sec = (time_t)(ns / 1000000000);
        now->tv_nsec = (long)(ns % 1000000000);
    }
    return result;
}

int adjtimex(struct timex *about) {
    int state = REAL(adjtimex)(about);
    return control->clock_state == 1 ? TIME_OK : control->clock_state == 2 ? TIME_ERROR : state;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
