#include "kernels/runtime/memory.h"

#include <cstdint>
#include <limits>

#include "tests/catch.h"

namespace ladder {
namespace {

constexpr size_t kMost = std::numeric_limits<size_t>::max();

TEST_CASE("memory is counted by category, exactly") {
  Memory memory(DeviceType::cpu, "device", 0);
  void* const a = memory.allocate(Category::parameters, 1001);
  void* const b = memory.allocate(Category::gradients, 1);
  void* const c = memory.allocate(Category::parameters, 99);
  CHECK(memory.current()[Category::parameters] == 1100);
  CHECK(memory.current()[Category::gradients] == 1);
  CHECK(memory.current().total() == 1101);
  memory.release(a, Category::parameters, 1001);
  void* const d = memory.allocate(Category::gradients, 500);
  CHECK(memory.current()[Category::parameters] == 99);
  CHECK(memory.current()[Category::gradients] == 501);
  // Each category's peak at its own time: 1,100 + 501, although there were never 1,601 at once.
  CHECK(memory.peak()[Category::parameters] == 1100);
  CHECK(memory.peak()[Category::gradients] == 501);
  for (Category category :
       {Category::optimizer, Category::activations, Category::communication, Category::workspace}) {
    CHECK(memory.peak()[category] == 0);
  }
  memory.release(b, Category::gradients, 1);
  memory.release(c, Category::parameters, 99);
  memory.release(d, Category::gradients, 500);
  CHECK(memory.current() == MemoryUse{});
  CHECK(memory.peak().total() == 1601);
}

TEST_CASE("memory is aligned, zero-filled and writable, small and large") {
  Memory memory(DeviceType::cpu, "device", 0);
  for (size_t bytes : {size_t{1}, size_t{64}, size_t{4097}, (size_t{2} << 20) - 1, size_t{2} << 20,
                       (size_t{5} << 20) + 3}) {
    for (int round = 0; round < 2; ++round) {  // the second may get memory that was written
      char* const bytes_at = static_cast<char*>(memory.allocate(Category::workspace, bytes));
      CHECK(reinterpret_cast<uintptr_t>(bytes_at) % 64 == 0);
      size_t not_zero = 0;
      for (size_t i = 0; i < bytes; ++i) not_zero += bytes_at[i] != 0;
      CHECK(not_zero == 0);
      for (size_t i = 0; i < bytes; ++i) bytes_at[i] = 'x';
      memory.release(bytes_at, Category::workspace, bytes);
    }
  }
  CHECK(memory.current().total() == 0);
}

TEST_CASE("the cap holds to the byte, over all categories") {
  Memory memory(DeviceType::cpu, "host", 1000);
  void* const a = memory.allocate(Category::parameters, 600);
  const MemoryUse before = memory.current();
  try {
    memory.allocate(Category::optimizer, 401);
    FAIL("401 of 400 bytes were allocated");
  } catch (const OutOfMemory& error) {
    CHECK(error.arena == "host");
    CHECK(error.in_use == before);
    CHECK(error.category == Category::optimizer);
    CHECK(error.bytes == 401);
    CHECK(error.limit == 1000);
    const std::string what = error.what();
    for (const char* part : {"host", "optimizer", "401 B", "600 B", "1000 B"}) {
      INFO(what);
      CHECK(what.find(part) != std::string::npos);
    }
    CHECK(what.find('\n') == std::string::npos);
  }
  CHECK(memory.current() == before);
  CHECK(memory.peak() == before);
  void* const b = memory.allocate(Category::optimizer, 400);
  CHECK(memory.current().total() == 1000);
  CHECK_THROWS_AS(memory.allocate(Category::workspace, 1), OutOfMemory);
  memory.release(a, Category::parameters, 600);
  void* const c = memory.allocate(Category::workspace, 600);
  memory.release(b, Category::optimizer, 400);
  memory.release(c, Category::workspace, 600);
}

TEST_CASE("absurd sizes are out of memory, not a crash") {
  for (size_t limit : {size_t{0}, size_t{1000}, kMost}) {
    Memory memory(DeviceType::cpu, "device", limit);
    for (size_t bytes : {kMost, kMost - 1, kMost - (size_t{1} << 21), kMost / 2, kMost / 4}) {
      INFO(bytes << " bytes, limit " << limit);
      CHECK_THROWS_AS(memory.allocate(Category::activations, bytes), OutOfMemory);
    }
    CHECK(memory.current() == MemoryUse{});
    CHECK(memory.peak() == MemoryUse{});
    CHECK_THROWS_AS(memory.allocate(Category::activations, 0), Error);
  }
}

TEST_CASE("human_bytes") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(17) == "17 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1 KiB");
  CHECK(human_bytes(1536) == "1.50 KiB");
  CHECK(human_bytes(size_t{512} << 20) == "512 MiB");
  CHECK(human_bytes((size_t{3} << 30) / 2) == "1.50 GiB");
  CHECK(human_bytes(size_t{1} << 60) == "1 EiB");
  CHECK(human_bytes(kMost) == "16 EiB");
}

TEST_CASE("categories have their names") {
  std::string names;
  for (Category category : kCategories) names += std::string(name_of(category)) + " ";
  CHECK(names == "parameters gradients optimizer activations communication workspace ");
}

}  // namespace
}  // namespace ladder
