// A library to preload: lets the N-th call of a kind fail, counted over all processes that share the
// file $FAULT_COUNTER (8 bytes, mapped). $FAULT_KIND is "disk" (calls that change files below
// $FAULT_UNDER end with ENOSPC) or "memory" (allocations of the program named $FAULT_PROGRAM return
// nothing); $FAULT_AT is N. tests/soak/faults.py uses it.
// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static long* counter;
static long fail_at;
static const char* under;
static int is_disk, is_memory;

__attribute__((constructor)) static void Begin(void) {
  const char* file = getenv("FAULT_COUNTER");
  const char* kind = getenv("FAULT_KIND");
  const char* at = getenv("FAULT_AT");
  const char* program = getenv("FAULT_PROGRAM");
  if (file == NULL || kind == NULL || at == NULL) return;
  if (program != NULL && strcmp(program, program_invocation_short_name) != 0) return;
  const int fd = open(file, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void* mapped = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) return;
  under = getenv("FAULT_UNDER");
  fail_at = atol(at);
  is_disk = strcmp(kind, "disk") == 0 && under != NULL;
  is_memory = strcmp(kind, "memory") == 0;
  __atomic_store_n(&counter, mapped, __ATOMIC_RELEASE);
}

static int Fails(void) {
  return counter != NULL && __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED) == fail_at;
}

static int IsUnder(const char* path) {
  char whole[4096];
  if (!is_disk || path == NULL) return 0;
  if (path[0] == '/') return strncmp(path, under, strlen(under)) == 0;
  return getcwd(whole, sizeof whole) != NULL && strncmp(whole, under, strlen(under)) == 0;
}

static int IsFileUnder(int fd) {
  char link[64];
  char path[4096];
  if (!is_disk) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return 0;
  path[size] = '\0';
  return strncmp(path, under, strlen(under)) == 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE(condition, value) \
  if ((condition) && Fails()) {  \
    errno = ENOSPC;              \
    return value;                \
  }

ssize_t write(int fd, const void* data, size_t size) {
  REFUSE(IsFileUnder(fd), -1)
  return REAL(write)(fd, data, size);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  REFUSE(IsFileUnder(fd), -1)
  return REAL(writev)(fd, parts, count);
}
ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  REFUSE(IsFileUnder(fd), -1)
  return REAL(pwrite)(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  REFUSE(IsFileUnder(fd), -1)
  return REAL(pwrite64)(fd, data, size, offset);
}
int fsync(int fd) {
  REFUSE(IsFileUnder(fd), -1)
  return REAL(fsync)(fd);
}
int rename(const char* from, const char* to) {
  REFUSE(IsUnder(to), -1)
  return REAL(rename)(from, to);
}
int mkdir(const char* path, mode_t mode) {
  REFUSE(IsUnder(path), -1)
  return REAL(mkdir)(path, mode);
}
static int ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  REFUSE((flags & O_CREAT) != 0 && IsUnder(path), -1)
  return REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = ModeOf(flags, arguments);
  va_end(arguments);
  REFUSE((flags & O_CREAT) != 0 && IsUnder(path), -1)
  return REAL(open64)(path, flags, mode);
}

extern void* __libc_malloc(size_t size);
void* malloc(size_t size) {
  if (is_memory && Fails()) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(size);
}
