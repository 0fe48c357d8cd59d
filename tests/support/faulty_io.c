// LD_PRELOAD: a file system that fails, is slow, kills its caller, or forgets what was not synced.
//
//   FAULTY_IO_PATH   a glob over whole paths ('*' crosses '/'); calls on other paths are left alone
//   FAULTY_IO        CALL:WHAT:SKIP[:TIMES],…  the SKIP first matching calls work, the TIMES (all)
//                    after them do WHAT: an errno (ENOSPC), delayN (N milliseconds, then the call),
//                    kill (signal 9 to the process) or lose (the same, after the file system has
//                    forgotten all data, names and renames that no fsync of file or folder covers)
//   FAULTY_IO_LOG    a file that gets one line per matching call: "fsync PATH", "rename FROM TO"
//
// CALL is open, mkdir, write, fsync, close, rename, unlink, read, or any. Variants (pwrite, openat,
// renameat2, fdatasync, …) count as the plain call. Paths are as the process gave them, made whole.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static __thread int inside;  // calls of the shim itself

// What no fsync covers yet, in order.
enum Kind { kWritten, kCreated, kRenamed, kExchanged, kDone };
struct Entry {
  enum Kind kind;
  char path[PATH_MAX], from[PATH_MAX];
};
static struct Entry* journal;
static size_t journal_count, journal_room;

static void whole_path(int folder, const char* path, char* out) {
  char base[PATH_MAX] = "", link[64];
  if (path[0] == '/') {
    snprintf(out, PATH_MAX, "%s", path);
    return;
  }
  if (folder == AT_FDCWD) {
    if (getcwd(base, sizeof base) == NULL) base[0] = '\0';
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, base, sizeof base - 1);
    base[size < 0 ? 0 : size] = '\0';
  }
  if (path[0] == '\0') {
    memcpy(out, base, sizeof base);
    return;
  }
  size_t size = strlen(base);
  memcpy(out, base, size);
  snprintf(out + size, PATH_MAX - size, "/%s", path);
}

static void parent_of(const char* path, char* out) {
  snprintf(out, PATH_MAX, "%s", path);
  char* slash = strrchr(out, '/');
  if (slash != NULL) *slash = '\0';
}

static void note(enum Kind kind, const char* path, const char* from) {
  if (journal_count == journal_room) {
    journal_room = journal_room == 0 ? 256 : 2 * journal_room;
    journal = realloc(journal, journal_room * sizeof *journal);
    if (journal == NULL) abort();
  }
  struct Entry* entry = &journal[journal_count++];
  entry->kind = kind;
  snprintf(entry->path, PATH_MAX, "%s", path);
  snprintf(entry->from, PATH_MAX, "%s", from);
}

static void move_prefix(char* path, const char* from, const char* to) {
  size_t size = strlen(from);
  if (strncmp(path, from, size) != 0 || (path[size] != '/' && path[size] != '\0')) return;
  char moved[2 * PATH_MAX];
  snprintf(moved, sizeof moved, "%s%s", to, path + size);
  memcpy(path, moved, PATH_MAX - 1);
}

static void move_entries(size_t count, const char* from, const char* to, int exchanged) {
  static const char* const kAside = "/\1";
  for (size_t i = 0; i < count; ++i) {
    for (int which = 0; which < 2; ++which) {
      char* path = which == 0 ? journal[i].path : journal[i].from;
      if (exchanged) move_prefix(path, to, kAside);
      move_prefix(path, from, to);
      if (exchanged) move_prefix(path, kAside, from);
    }
  }
}

// A file's fsync covers its data, a folder's the names in it.
static void settle(const char* path) {
  char parent[PATH_MAX];
  for (size_t i = 0; i < journal_count; ++i) {
    struct Entry* entry = &journal[i];
    parent_of(entry->path, parent);
    int is_name = entry->kind == kCreated || entry->kind == kRenamed || entry->kind == kExchanged;
    if ((entry->kind == kWritten && strcmp(entry->path, path) == 0) ||
        (is_name && strcmp(parent, path) == 0)) {
      entry->kind = kDone;
    }
  }
}

static void forget_what_was_not_synced(void) {
  inside = 1;
  for (size_t i = journal_count; i-- > 0;) {
    struct Entry entry = journal[i];
    if (entry.kind == kWritten && truncate(entry.path, 0) != 0) continue;
    if (entry.kind == kCreated && remove(entry.path) != 0) continue;
    if (entry.kind == kRenamed || entry.kind == kExchanged) {
      unsigned flags = entry.kind == kExchanged ? RENAME_EXCHANGE : RENAME_NOREPLACE;
      if (renameat2(AT_FDCWD, entry.path, AT_FDCWD, entry.from, flags) != 0) continue;
      move_entries(i, entry.path, entry.from, entry.kind == kExchanged);
    }
  }
}

static int errno_of(const char* name) {
  static const struct {
    const char* name;
    int value;
  } kNames[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS},
                {"ESTALE", ESTALE}, {"EFBIG", EFBIG},   {"EACCES", EACCES}, {"EINTR", EINTR}};
  for (size_t i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    if (strcmp(name, kNames[i].name) == 0) return kNames[i].value;
  }
  fprintf(stderr, "faulty_io: unknown fault '%s'\n", name);
  _exit(99);
}

static void write_log(const char* call, const char* path, const char* other) {
  const char* name = getenv("FAULTY_IO_LOG");
  if (name == NULL) return;
  int fd = REAL(open)(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  char line[2 * PATH_MAX + 64];
  int size =
      snprintf(line, sizeof line, "%s %s%s%s\n", call, path, other ? " " : "", other ? other : "");
  if (fd < 0 || REAL(write)(fd, line, (size_t)size) != size) _exit(98);
  REAL(close)(fd);
}

// 0, or the errno that the call shall fail with. The mutex is held.
static int apply_rules(const char* call) {
  static int used[16];
  const char* rules = getenv("FAULTY_IO");
  char copy[1024], *rest = NULL;
  snprintf(copy, sizeof copy, "%s", rules == NULL ? "" : rules);
  int number = 0, result = 0;
  for (char* rule = strtok_r(copy, ",", &rest); rule && number < 16;
       rule = strtok_r(NULL, ",", &rest)) {
    char name[32] = "", what[32] = "";
    int skip = 0, times = INT_MAX, index = number++;
    if (sscanf(rule, "%31[^:]:%31[^:]:%d:%d", name, what, &skip, &times) < 3) _exit(97);
    if (strcmp(name, call) != 0 && strcmp(name, "any") != 0) continue;
    int seen = used[index]++;
    if (seen < skip || seen - skip >= times) continue;
    if (strcmp(what, "lose") == 0) forget_what_was_not_synced();
    if (strcmp(what, "lose") == 0 || strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
    if (strncmp(what, "delay", 5) == 0) {
      long ms = atol(what + 5);
      struct timespec time = {ms / 1000, ms % 1000 * 1000000};
      nanosleep(&time, NULL);
    } else {
      result = errno_of(what);
    }
  }
  return result;
}

static int matches(const char* path) {
  const char* glob = getenv("FAULTY_IO_PATH");
  return glob != NULL && fnmatch(glob, path, 0) == 0;
}

// Begins a call: 1 when it is one that counts. Then *fault is 0 or an errno, the mutex is held, and
// the caller ends with finish().
static int begin(const char* call, const char* path, const char* other, int* fault) {
  *fault = 0;
  if (inside || !(matches(path) || (other != NULL && matches(other)))) return 0;
  pthread_mutex_lock(&mutex);
  inside = 1;
  write_log(call, path, other);
  *fault = apply_rules(call);
  return 1;
}

static long finish(int counted, int fault, long result) {
  int error = fault != 0 ? fault : errno;
  if (counted) {
    inside = 0;
    pthread_mutex_unlock(&mutex);
  }
  errno = error;
  return fault != 0 ? -1 : result;
}

static int open_any(int folder, const char* path, int flags, mode_t mode) {
  char whole[PATH_MAX];
  int fault, fd = -1;
  whole_path(folder, path, whole);
  int counted = begin("open", whole, NULL, &fault);
  int is_new = counted && (flags & O_CREAT) != 0 && access(whole, F_OK) != 0;
  if (fault == 0) fd = REAL(openat)(folder, path, flags, mode);
  if (is_new && fd >= 0) note(kCreated, whole, "");
  if (counted && fd >= 0 && (flags & O_TRUNC) != 0) note(kWritten, whole, "");
  return (int)finish(counted, fault, fd);
}

#define OPEN_MODE(mode)                       \
  mode_t mode = 0;                            \
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list list;                             \
    va_start(list, flags);                    \
    mode = va_arg(list, mode_t);              \
    va_end(list);                             \
  }

int open(const char* path, int flags, ...) {
  OPEN_MODE(mode)
  return open_any(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPEN_MODE(mode)
  return open_any(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  OPEN_MODE(mode)
  return open_any(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  OPEN_MODE(mode)
  return open_any(folder, path, flags, mode);
}

// What is done to an open file, whose path /proc knows.
#define ON_DESCRIPTOR(call, type, expression, when_done) \
  char whole[PATH_MAX];                                  \
  int fault;                                             \
  type result = -1;                                      \
  whole_path(fd, "", whole);                             \
  int counted = begin(call, whole, NULL, &fault);        \
  if (fault == 0) result = expression;                   \
  if (counted && fault == 0 && result >= 0) {            \
    when_done;                                           \
  }                                                      \
  return (type)finish(counted, fault, (long)result);

ssize_t write(int fd, const void* data, size_t size){
    ON_DESCRIPTOR("write", ssize_t, REAL(write)(fd, data, size), note(kWritten, whole, ""))} ssize_t
    pwrite(int fd, const void* data, size_t size,
           off_t at){ON_DESCRIPTOR("write", ssize_t, REAL(pwrite)(fd, data, size, at),
                                   note(kWritten, whole, ""))} ssize_t
    pwrite64(int fd, const void* data, size_t size,
             off64_t at){ON_DESCRIPTOR("write", ssize_t, REAL(pwrite64)(fd, data, size, at),
                                       note(kWritten, whole, ""))} ssize_t
    writev(int fd, const struct iovec* parts, int count) {
  ON_DESCRIPTOR("write", ssize_t, REAL(writev)(fd, parts, count), note(kWritten, whole, ""))
}
int ftruncate(int fd, off_t size){
    ON_DESCRIPTOR("write", int, REAL(ftruncate)(fd, size), note(kWritten, whole, ""))} ssize_t
    read(int fd, void* data, size_t size) {
  ON_DESCRIPTOR("read", ssize_t, REAL(read)(fd, data, size), )
}
int fsync(int fd) { ON_DESCRIPTOR("fsync", int, REAL(fsync)(fd), settle(whole)) }
int fdatasync(int fd) { ON_DESCRIPTOR("fsync", int, REAL(fdatasync)(fd), settle(whole)) }

int close(int fd) {
  char whole[PATH_MAX];
  int fault;
  whole_path(fd, "", whole);
  int counted = begin("close", whole, NULL, &fault);
  int result = REAL(close)(fd);  // a close that fails has closed
  return (int)finish(counted, fault, result);
}

static int rename_any(int from_folder, const char* from, int to_folder, const char* to,
                      unsigned flags) {
  char a[PATH_MAX], b[PATH_MAX];
  int fault, result = -1;
  whole_path(from_folder, from, a);
  whole_path(to_folder, to, b);
  int counted = begin("rename", a, b, &fault);
  int replaces = counted && access(b, F_OK) == 0;  // what was there cannot be brought back
  if (fault == 0) result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  if (counted && result == 0) {
    int exchanged = (flags & RENAME_EXCHANGE) != 0;
    move_entries(journal_count, a, b, exchanged);
    if (exchanged || !replaces) note(exchanged ? kExchanged : kRenamed, b, a);
  }
  return (int)finish(counted, fault, result);
}

int rename(const char* from, const char* to) { return rename_any(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return rename_any(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return rename_any(from_folder, from, to_folder, to, flags);
}

int mkdir(const char* path, mode_t mode) {
  char whole[PATH_MAX];
  int fault, result = -1;
  whole_path(AT_FDCWD, path, whole);
  int counted = begin("mkdir", whole, NULL, &fault);
  if (fault == 0) result = REAL(mkdir)(path, mode);
  if (counted && result == 0) note(kCreated, whole, "");
  return (int)finish(counted, fault, result);
}

// What was removed does not come back in "lose": a removal that is not synced is the harmless case.
static int unlink_any(int folder, const char* path, int flags) {
  char whole[PATH_MAX];
  int fault, result = -1;
  whole_path(folder, path, whole);
  int counted = begin("unlink", whole, NULL, &fault);
  if (fault == 0) result = (int)syscall(SYS_unlinkat, folder, path, flags);
  return (int)finish(counted, fault, result);
}

int unlink(const char* path) { return unlink_any(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlink_any(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) { return unlink_any(folder, path, flags); }
