// Memory that ranks share: all see the same bytes, however large, and nothing is left behind.
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "tests/catch.h"
#include "tests/common/comm/ranks.h"
#include "tests/delays.h"

namespace ladder::testing {
namespace {

void barrier() { mpi_check(MPI_Barrier(MPI_COMM_WORLD)); }

// Every rank another size: none, less than a page, pages, huge pages and some more.
size_t size_of_rank(size_t rank) {
  constexpr size_t kSizes[] = {0, 1, 100, 4096, 5000, size_t{2} << 20, (size_t{4} << 20) + 12345};
  return kSizes[rank % std::size(kSizes)];
}

char mark(size_t rank, size_t i) { return static_cast<char>(1 + (rank * 31 + i) % 101); }

TEST_CASE("every rank reads and writes the memory of all") {
  NodeMemory memory(world());
  const size_t me = world().rank(), n = size_of_rank(me), ranks = world().size();
  void* const before = memory.allocate(64);  // a second allocation has its own numbers
  char* const own = static_cast<char*>(memory.allocate(n));
  CHECK(reinterpret_cast<uintptr_t>(own) % 64 == 0);
  CHECK(std::all_of(own, own + n, [](char c) { return c == 0; }));
  barrier();
  // Each writes to the next rank's, and all read all.
  const size_t next = (me + 1) % ranks;
  char* const theirs = static_cast<char*>(memory.at({1, 0}, next));
  for (size_t i = 0; i < size_of_rank(next); ++i) theirs[i] = mark(next, i);
  barrier();
  for (size_t r = 0; r < ranks; ++r) {
    INFO("memory of rank " << r);
    const char* const bytes = static_cast<const char*>(memory.at({1, 0}, r));
    size_t wrong = 0;
    for (size_t i = 0; i < size_of_rank(r); ++i) wrong += bytes[i] != mark(r, i);
    CHECK(wrong == 0);
  }
  barrier();
  memory.release(own, n);
  memory.release(before, 64);
}

TEST_CASE("a pointer is found where it lies, until it is released") {
  NodeMemory memory(world());
  constexpr size_t kBytes = (size_t{2} << 20) + 100;
  char* const small = static_cast<char*>(memory.allocate(10));
  char* const large = static_cast<char*>(memory.allocate(kBytes));
  const auto require_at = [&](const void* pointer, size_t allocation, size_t offset) {
    const auto place = memory.find(pointer);
    REQUIRE(place.has_value());
    CHECK(place->allocation == allocation);
    CHECK(place->offset == offset);
  };
  require_at(small + 9, 0, 9);
  require_at(large, 1, 0);
  require_at(large + kBytes - 1, 1, kBytes - 1);
  CHECK_FALSE(memory.find(small + 10).has_value());
  CHECK_FALSE(memory.find(large + kBytes).has_value());
  CHECK_FALSE(memory.find(&memory).has_value());
  memory.release(small, 10);
  CHECK_FALSE(memory.find(small).has_value());
  require_at(large, 1, 0);
  memory.release(large, kBytes);
}

TEST_CASE("a rank that releases its memory takes it from nobody") {
  NodeMemory memory(world());
  int32_t* const own = static_cast<int32_t*>(memory.allocate(sizeof(int32_t)));
  own[0] = static_cast<int32_t>(world().rank()) + 7;
  barrier();
  if (world().rank() == 0) memory.release(own, sizeof(int32_t));
  barrier();
  if (world().rank() != 0) CHECK(*static_cast<const int32_t*>(memory.at({0, 0}, 0)) == 7);
}

// A test of its own starts this one with a small /dev/shm that nobody else has, tests/system/. On
// any other it would take the machine's memory.
TEST_CASE("/dev/shm fills up between the look at it and the use", "[.][full]") {
  struct statvfs all;
  REQUIRE(statvfs("/dev/shm", &all) == 0);
  REQUIRE(all.f_blocks * all.f_frsize <= size_t{64} << 20);
  NodeMemory memory(world());
  const std::string file = "/dev/shm/filler";
  const auto fill = [&] {
    barrier();
    if (world().rank() == 0) {
      struct statvfs status;
      REQUIRE(statvfs("/dev/shm", &status) == 0);
      const int descriptor = open(file.c_str(), O_CREAT | O_WRONLY, 0600);
      const auto rest = static_cast<off_t>(status.f_bavail * status.f_frsize);
      REQUIRE(posix_fallocate(descriptor, 0, rest) == 0);
      close(descriptor);
    }
    barrier();
  };
  set_action("node memory: before it has memory", fill);
  for (size_t bytes : {size_t{1000}, size_t{3} << 20}) {  // small pages, huge ones
    CHECK_THROWS_WITH(memory.allocate(bytes),
                      ContainsSubstring("/dev/shm has 0 B free, the ranks of this machine need ") &&
                          ContainsSubstring("--no-shared-memory"));
    barrier();
    if (world().rank() == 0) std::filesystem::remove(file);
    barrier();
  }
  set_action("", nullptr);
}

// A process may be killed at any moment, and what has a name then would stay.
TEST_CASE("memory that ranks share never has a name in /dev/shm") {
  const auto open_files = [] {
    std::set<std::string> found;
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
      const std::string target = std::filesystem::read_symlink(file, ignored);
      if (target.starts_with("/dev/shm/")) found.insert(target);
    }
    return found;
  };
  const std::set<std::string> before = open_files();
  NodeMemory memory(world());
  for (const char* const place :
       {"node memory: before its size is set", "node memory: before the others' is opened"}) {
    std::set<std::string> made;
    set_action(place, [&] { made = open_files(); });
    memory.release(memory.allocate(100), 100);
    set_action("", nullptr);
    for (const std::string& file : before) made.erase(file);
    CAPTURE(place);
    REQUIRE(made.size() == 1);
    CHECK_THAT(*made.begin(), EndsWith(" (deleted)") && !ContainsSubstring("ladder"));
  }
  CHECK(open_files() == before);
}

}  // namespace
}  // namespace ladder::testing
