#include "common/comm/node_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "common/comm/delay.h"
#include "kernels/runtime/check.h"

namespace ladder {
namespace {

constexpr size_t kPage = 4096, kHugePage = size_t{2} << 20;

size_t rounded_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Returns the bytes that the ranks of the machine need together. Collective over the node.
uint64_t sum_of_needs(const MpiWorld& world, size_t bytes) {
  uint64_t own = rounded_up(bytes, kPage), needed = 0;
  mpi_check(MPI_Allreduce(&own, &needed, 1, MPI_UINT64_T, MPI_SUM, world.node()));
  return needed;
}

// Returns the free bytes of /dev/shm, or nothing if it does not say (opening a file there will say
// why).
std::optional<uint64_t> free_bytes() {
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0) return std::nullopt;
  return uint64_t{status.f_bavail} * status.f_frsize;
}

[[noreturn]] void fail_for_space(uint64_t needed) {
  fail(concat("/dev/shm has ", human_bytes(free_bytes().value_or(0)),
              " free, the ranks of this machine need ", human_bytes(needed),
              " of shared memory; enlarge it (docker and podman: --shm-size), or use "
              "--no-shared-memory (slower)"));
}

// Throws Error with the reason of the system call that has just failed.
void check_shared(bool good) {
  if (!good) {
    fail(concat("shared memory in /dev/shm: ", std::strerror(errno), ", ", space_for_sharing(),
                " left; --no-shared-memory does without (slower)"));
  }
}

// A file in /dev/shm. Its memory lasts until the last process has unmapped it. It never has a name,
// which a process that is killed would leave behind: peers find it in /proc, by the process that
// made it and that process's number for it.
class SharedFile {
 public:
  SharedFile() : file_(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)) {
    check_shared(file_ >= 0);
  }
  // In a container of its own a process may have another number, and this one be another file's.
  SharedFile(uint64_t process, uint64_t number, uint64_t inode)
      : file_(open(concat("/proc/", process, "/fd/", number).c_str(), O_RDWR | O_CLOEXEC)) {
    check_shared(file_ >= 0);
    if (this->inode() == inode) return;
    close(file_);
    fail(
        "shared memory: ranks of this machine do not see each other's processes; "
        "--no-shared-memory does without (slower)");
  }
  ~SharedFile() { close(file_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  uint64_t number() const { return static_cast<uint64_t>(file_); }
  uint64_t inode() const {
    struct stat status;
    check_shared(fstat(file_, &status) == 0);
    return status.st_ino;
  }
  void resize(size_t bytes) { check_shared(ftruncate(file_, static_cast<off_t>(bytes)) == 0); }
  // Gives the file its memory, in small pages. Returns false if /dev/shm has too little.
  bool reserve(size_t bytes) { return posix_fallocate(file_, 0, static_cast<off_t>(bytes)) == 0; }
  // Maps the file at a multiple of a huge page; elsewhere the kernel cannot use huge pages.
  char* map(size_t bytes) {
    const size_t size = rounded_up(bytes, kPage), reserved = size + kHugePage;
    void* const location = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_shared(location != MAP_FAILED);
    char* const begin = static_cast<char*>(location);
    const size_t head =
        rounded_up(reinterpret_cast<size_t>(begin), kHugePage) - reinterpret_cast<size_t>(begin);
    if (head > 0) munmap(begin, head);
    munmap(begin + head + size, kHugePage - head);
    void* const mapped =
        mmap(begin + head, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0);
    check_shared(mapped != MAP_FAILED);
    return begin + head;
  }

 private:
  int file_;
};

// Returns whether the kernel has the request that populate() makes (Linux 5.14).
bool can_populate() { return madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0; }

// Gives a new file its memory, which is zero. Returns false if /dev/shm has too little. (Without
// this, touching memory that /dev/shm does not have would end the process by SIGBUS.) On Linux 6.1
// and later it gets huge pages: it asks for one small page in each, and then for the rest of each
// huge page at once. That takes a tenth of the time of asking for all small pages, peers map the
// memory in a hundredth of the time, and kernels run on it as on private memory. On older kernels
// the pages are small, since shared memory gets no huge pages unless the administrator says so.
bool populate(char* memory, size_t bytes) {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers do not have
  if (!can_populate()) return true;
  const auto get = [](char* begin, size_t size) {
    return madvise(begin, size, MADV_POPULATE_WRITE) == 0;
  };
  const size_t huge = bytes / kHugePage * kHugePage;
  for (size_t at = 0; at < huge; at += kHugePage) {
    if (!get(memory + at, kPage)) return false;
  }
  if (huge > 0) madvise(memory, huge, kCollapse);
  return get(memory, rounded_up(bytes, kPage));
}

}  // namespace

NodeMemory::NodeMemory(const MpiWorld& world) : world_(world) {
  int rank = 0;
  mpi_check(MPI_Comm_rank(world_.node(), &rank));
  node_rank_ = static_cast<size_t>(rank);
}

NodeMemory::~NodeMemory() {
  for (const Allocation& allocation : allocations_) unmap(allocation);
}

void NodeMemory::unmap(const Allocation& allocation) {
  // While an exception unwinds the stack, operations under way may still use it; the program is
  // about to end.
  if (std::uncaught_exceptions() > 0) return;
  for (const Mapping& mapping : allocation) munmap(mapping.begin, mapping.bytes);
}

void* NodeMemory::allocate(size_t bytes) {
  auto limit = world_.limit_wait();
  const uint64_t needed = sum_of_needs(world_, bytes);
  if (const auto free = free_bytes(); free && *free < needed) fail_for_space(needed);
  struct Ours {
    uint64_t process, number, inode, bytes;
  };
  std::vector<Ours> all(world_.node_size());
  Allocation allocation;
  {
    SharedFile file;
    // An allocation without bytes gets one byte, so that it has an address too.
    const Ours own = {static_cast<uint64_t>(getpid()), file.number(), file.inode(),
                      std::max<size_t>(bytes, 1)};
    maybe_delay("node memory: before its size is set");
    file.resize(own.bytes);
    // populate(), below, is seven times as fast, but old kernels do not have it.
    if (!can_populate() && !file.reserve(own.bytes)) fail_for_space(needed);
    mpi_check(MPI_Allgather(&own, 4, MPI_UINT64_T, all.data(), 4, MPI_UINT64_T, world_.node()));
    maybe_delay("node memory: before the others' is opened");
    for (const Ours& one : all) {
      allocation.push_back(
          {SharedFile(one.process, one.number, one.inode).map(one.bytes), one.bytes});
    }
    mpi_check(MPI_Barrier(world_.node()));  // all ranks have opened all files
  }
  limit.reset();
  char* const memory = allocation[node_rank_].begin;
  maybe_delay("node memory: before it has memory");
  if (!populate(memory, bytes)) fail_for_space(needed);
  const std::lock_guard lock(mutex_);
  allocations_.push_back(std::move(allocation));
  return memory;
}

void NodeMemory::release(void* pointer, size_t) noexcept {
  const std::optional<Location> location = find(pointer);
  if (!location) return;
  const std::lock_guard lock(mutex_);
  unmap(allocations_[location->allocation]);
  allocations_[location->allocation].clear();  // its number stays taken
}

std::optional<NodeMemory::Location> NodeMemory::find(const void* pointer) const {
  const char* const p = static_cast<const char*>(pointer);
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < allocations_.size(); ++i) {
    if (allocations_[i].empty()) continue;
    const auto& [begin, bytes] = allocations_[i][node_rank_];
    if (p >= begin && p < begin + bytes) return Location{i, static_cast<size_t>(p - begin)};
  }
  return std::nullopt;
}

void* NodeMemory::at(const Location& location, size_t node_rank) const {
  const std::lock_guard lock(mutex_);
  return allocations_[location.allocation][node_rank].begin + location.offset;
}

}  // namespace ladder
