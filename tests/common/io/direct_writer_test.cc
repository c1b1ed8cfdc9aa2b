#include "common/io/direct_writer.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "common/io/file.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

constexpr size_t kBlock = DirectWriter::kBufferBytes;

std::vector<std::byte> some_bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + (i >> 8) * 13);
  return bytes;
}

// Writes `bytes` in pieces of so many bytes and returns the path of the file. A writer that does
// not stop fails, and does not fill the disk.
std::string written(const std::vector<std::byte>& bytes, size_t piece) {
  const FullDisk full(bytes.size() + kBlock);
  const std::string path = temporary("blocks");
  PartialFile file(path);
  DirectWriter blocks(file);
  for (size_t first = 0; first < bytes.size(); first += piece) {
    blocks.write(std::span(bytes).subspan(first, std::min(piece, bytes.size() - first)));
  }
  blocks.finish();
  file.commit();
  return path;
}

// Returns how many bytes of the file are in the system's cache.
size_t cached_bytes(const std::string& path) {
  constexpr size_t kPage = 4096;
  const size_t size = std::filesystem::file_size(path);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  void* const map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  REQUIRE(map != MAP_FAILED);
  std::vector<unsigned char> pages((size + kPage - 1) / kPage);
  REQUIRE(mincore(map, size, pages.data()) == 0);
  munmap(map, size);
  return kPage * static_cast<size_t>(std::ranges::count_if(pages, [](auto p) { return p & 1; }));
}

bool knows_direct_writes(const std::string& path) {
  return Descriptor(open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC)).is_open();
}

TEST_CASE("what goes through blocks is in the file, in its order") {
  const size_t size =
      GENERATE(size_t{0}, size_t{1}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 12345);
  const size_t piece = GENERATE(kBlock / 3 + 7, 2 * kBlock + 1, 3 * kBlock + 12345);
  CAPTURE(size, piece);
  const std::vector<std::byte> bytes = some_bytes(size);
  const std::string text = read_file(written(bytes, piece));
  CHECK(std::ranges::equal(std::as_bytes(std::span(text)), bytes));
}

TEST_CASE("whole blocks do not fill the system's cache") {
  const std::string path = written(some_bytes(4 * kBlock + 5), 1000);
  if (!knows_direct_writes(path)) {
    WARN("skipped: the file system has no direct writes");
    return;
  }
  // Only the end has been written through the cache; looking into the map would read the rest.
  CHECK(cached_bytes(path) < kBlock);
}

}  // namespace
}  // namespace ladder
