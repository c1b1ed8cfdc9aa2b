// A checkpoint of any layout gives any slice, to the bit, and nothing that is damaged.
#include "common/checkpoint/reader.h"

#include <sys/stat.h>

#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"
#include "tests/common/checkpoint/watched.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const std::vector<ProcessGrid>& layouts() {
  static const std::vector<ProcessGrid> all = {
      {},
      {.data_size = 3},
      {.tensor_size = 4},
      {.pipeline_size = 5},
      {.pipeline_size = 2, .data_size = 3, .tensor_size = 2},
      {.data_size = 64},  // more ranks than some units have elements: ranks that own nothing
  };
  return all;
}

TEST_CASE("every rank of any layout reads what it owns from a checkpoint of any layout") {
  const TestFolder folder;
  const size_t from = GENERATE(range(size_t{0}, layouts().size()));
  CheckpointReader reader(write_checkpoint(folder / "c", layouts()[from]));
  CHECK(layout_text(reader.index().layout) == layout_text(layouts()[from]));
  for (ProcessGrid grid : layouts()) {
    for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
      const Layout layout = rank_layout(kSmall, grid);
      const auto slices = [&] { return slices_without_memory(layout, grid); };
      for (const auto& [name, slice] : stored_by_adamw(slices)) {
        const PlacedElements wanted = elements_of(slice);
        if (read_values(reader, name, wanted) == values_of(name, wanted)) continue;
        FAIL(layout_text(grid) << " rank " << grid.rank << ": " << name);
      }
    }
  }
  reader.verify();
}

TEST_CASE("elements are stored in any dtype and read in any dtype") {
  const TestFolder folder;
  const DType stored = GENERATE(DType::fp32, DType::fp64);
  CheckpointReader reader(write_checkpoint(folder / "c", {.data_size = 2}, 1, kSmall, stored));
  const PlacedElements wanted = {{0, 88, 88}, 3, 80};
  const std::vector<double> expected = values_of("param.wte.weight", wanted);
  CHECK(read_values(reader, "param.wte.weight", wanted) == expected);
  std::vector<float> floats(wanted.count);
  reader.read("param.wte.weight", wanted,
              TensorView(floats.data(), DType::fp32, DeviceType::cpu, {wanted.count}));
  CHECK(std::vector<double>(floats.begin(), floats.end()) == expected);
}

// Tensors of several file blocks: wte has 2.4 MiB in fp64, and the largest of a block 0.5 MiB.
constexpr ModelConfig kLarge = {
    .num_layers = 1, .num_heads = 4, .hidden = 128, .vocab_size = 2500, .sequence_length = 5};

TEST_CASE("a reader reads the file blocks that it needs and holds one of them") {
  const TestFolder folder;
  CheckpointReader reader(write_checkpoint(folder / "c", {.data_size = 2}, 1, kLarge, DType::fp64));
  // Rank 0 has 160,000 elements of the 320,000, in file blocks of 131,072.
  const PlacedElements wanted = {{0, 320'000, 320'000}, 140'000, 30'000};
  std::vector<double> values(wanted.count);
  const TensorView view(values.data(), DType::fp64, DeviceType::cpu, {wanted.count});
  reader.read("param.wte.weight", wanted, view);  // reads the headers, too
  watched = {};
  reader.read("param.wte.weight", wanted, view);
  const Watched seen = watched;
  CHECK(values == values_of("param.wte.weight", wanted));
  // The second file block of rank 0, which is cut short at 160,000, and the first of rank 1.
  CHECK(seen.bytes_read == (160'000 - 131'072 + 131'072) * 8);
  CHECK(seen.largest_allocation <= kFileBlockBytes);
  watched = {};
  reader.verify();
  CHECK(watched.largest_allocation <= kFileBlockBytes);
  CHECK(watched.bytes_read == describe(kLarge).num_parameters() * 3 * 8);
}

TEST_CASE("a reader opens only the files that it needs") {
  const TestFolder folder;
  const std::string path = write_checkpoint(folder / "c", {.data_size = 4});
  for (const char* rank : {"1", "2", "3"}) {
    fs::remove(concat(path, "/rank_000", rank, ".safetensors"));
  }
  CheckpointReader reader(path);
  const PlacedElements first = {{0, 88, 88}, 0, 16}, second = {{0, 88, 88}, 16, 72};
  CHECK(read_values(reader, "param.wte.weight", first) == values_of("param.wte.weight", first));
  CHECK_THROWS_WITH(read_values(reader, "param.wte.weight", second),
                    path + "/rank_0001.safetensors: cannot be read: No such file or directory");
}

// What verify() says of a checkpoint; "" if it is sound.
std::string fault_of(const std::string& path) {
  try {
    CheckpointReader(path).verify();
  } catch (const UserError& error) {
    CHECK_THAT(error.what(), StartsWith(path) && !ContainsSubstring("\n"));
    return std::string(error.what()).substr(path.size());
  }
  return "";
}

void flip(const std::string& path, size_t byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<long>(byte));
  const char changed = static_cast<char>(file.get() ^ 4);
  file.seekp(static_cast<long>(byte));
  file.put(changed);
  REQUIRE(file.good());
}

TEST_CASE("a flipped bit anywhere in a rank's elements is found, and named") {
  const TestFolder folder;
  const std::string path = write_checkpoint(folder / "c", {.data_size = 2});
  const std::string file = path + "/rank_0001.safetensors";
  REQUIRE(fault_of(path) == "");
  const std::string whole = text_of(file);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  for (size_t byte = 8 + header; byte < whole.size(); byte += 37) {
    flip(file, byte);
    CAPTURE(byte);
    REQUIRE_THAT(fault_of(path), StartsWith("/rank_0001.safetensors: tensor \"") &&
                                     ContainsSubstring("do not match their checksum"));
    flip(file, byte);
  }
  REQUIRE(fault_of(path) == "");
}

TEST_CASE("a rank's file whose header is changed or cut is refused") {
  const TestFolder folder;
  const std::string path = write_checkpoint(folder / "c", {.data_size = 2});
  const std::string file = path + "/rank_0001.safetensors", whole = text_of(file);
  SECTION("cut off anywhere") {
    for (size_t size = 0; size < whole.size(); size += 101) {
      fs::resize_file(file, size);
      CAPTURE(size);
      REQUIRE_THAT(fault_of(path), StartsWith("/rank_0001.safetensors: "));
      std::ofstream(file, std::ios::binary) << whole;
    }
  }
  SECTION("longer") {
    std::ofstream(file, std::ios::binary | std::ios::app) << "x";
    CHECK_THAT(fault_of(path), ContainsSubstring("1 bytes after the last tensor"));
  }
  SECTION("names that are exchanged") {
    std::string changed = whole;
    for (size_t at; (at = changed.find("exp_avg_sq.h.1")) != std::string::npos;) {
      changed.replace(at, 14, "exp_avg_xx.h.1");
    }
    std::ofstream(file, std::ios::binary) << changed;
    CHECK_THAT(fault_of(path), ContainsSubstring("tensor \"exp_avg_xx.h.1") &&
                                   ContainsSubstring("is not what checkpoint.json says"));
  }
}

TEST_CASE("a file that is missing, too much, of another step or no file is named") {
  const TestFolder folder;
  const std::string path = write_checkpoint(folder / "c", {.data_size = 2});
  const std::string file = path + "/rank_0001.safetensors";
  SECTION("missing") {
    fs::remove(file);
    CHECK(fault_of(path) == "/rank_0001.safetensors: cannot be read: No such file or directory");
  }
  SECTION("the index is missing") {
    fs::remove(path + "/checkpoint.json");
    CHECK(fault_of(path) == "/checkpoint.json: cannot be read: No such file or directory");
  }
  SECTION("a rank too many") {
    const char* const name = GENERATE("rank_0002.safetensors", "rank_00001.safetensors",
                                      "rank_x.safetensors", "rank_1.safetensors");
    fs::copy(file, concat(path, "/", name));
    CHECK(fault_of(path) == concat("/", name, ": does not belong to this checkpoint of 2 ranks"));
  }
  SECTION("other files do not matter") {
    std::ofstream(path + "/notes.txt") << "mine";
    CHECK(fault_of(path) == "");
  }
  SECTION("of another step") {
    const TestFolder other;
    const std::string of_other = write_checkpoint(other / "c", {.data_size = 2}, 60);
    // The same names and sizes, other numbers.
    flip(of_other + "/rank_0001.safetensors",
         fs::file_size(of_other + "/rank_0001.safetensors") - 1);
    fs::copy(of_other + "/rank_0001.safetensors", file, fs::copy_options::overwrite_existing);
    CHECK_THAT(fault_of(path), ContainsSubstring("the file is damaged, or of another step"));
  }
  SECTION("the folder has the name of another step") {
    const std::string renamed = folder / "c/step_00000060";
    fs::rename(path, renamed);
    CHECK(fault_of(renamed) == ": the index says step 50, but the folder's name says another step");
    fs::rename(renamed, folder / "mine");  // a name of one's own
    CHECK(fault_of(folder / "mine") == "");
  }
  SECTION("of another rank") {
    fs::copy(path + "/rank_0000.safetensors", file, fs::copy_options::overwrite_existing);
    CHECK_THAT(fault_of(path), StartsWith("/rank_0001.safetensors: tensor \""));
  }
  SECTION("a pipe") {
    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    CHECK(fault_of(path) == "/rank_0001.safetensors: is a pipe, expected a regular file");
  }
  SECTION("a link to another file") {
    fs::rename(file, folder / "elsewhere");
    fs::create_symlink(folder / "elsewhere", file);
    CHECK_THAT(fault_of(path), StartsWith("/rank_0001.safetensors: cannot be read: "));
  }
}

TEST_CASE("the files of ranks that own nothing are read, too") {
  const TestFolder folder;
  const ProcessGrid many = {.data_size = 32};
  const std::string path = write_checkpoint(folder / "c", many);
  const std::map<std::string, StoredTensor> tensors = CheckpointReader(path).index().tensors;
  size_t rank = many.world_size();  // the last that no slice names
  const auto is_named = [&](size_t of_rank) {
    return std::ranges::any_of(tensors, [&](const auto& tensor) {
      return std::ranges::count(tensor.second.slices, of_rank, &StoredSlice::rank) > 0;
    });
  };
  while (rank > 0 && is_named(--rank)) continue;
  REQUIRE_FALSE(is_named(rank));
  const std::string name = "/" + rank_file_name(rank), file = path + name;
  REQUIRE(fault_of(path) == "");
  fs::resize_file(file, 4);
  CHECK_THAT(fault_of(path), StartsWith(name + ": "));
  fs::copy(path + "/rank_0000.safetensors", file, fs::copy_options::overwrite_existing);
  CHECK_THAT(fault_of(path), StartsWith(name + ": tensor ") && EndsWith("checkpoint.json says"));
  fs::remove(file);
  CHECK(fault_of(path) == name + ": cannot be read: No such file or directory");
}

TEST_CASE("what is no checkpoint is refused") {
  const TestFolder folder;
  CHECK(fault_of(folder / "none") == ": cannot be read: No such file or directory");
  CHECK(fault_of(folder.write("file", "")) == ": is a file, expected the folder of a checkpoint");
  const std::string path = write_checkpoint(folder / "c", {});
  fs::create_symlink(path, folder / "link");
  CHECK(fault_of(folder / "link") == ": is a link, expected the folder of a checkpoint");
}

TEST_CASE("an index of 20 GiB is refused at once") {
  const TestFolder folder;
  fs::create_directory(folder / "c");
  folder.write("c/checkpoint.json", "{");
  fs::resize_file(folder / "c/checkpoint.json", uintmax_t{20} << 30);  // a hole, no bytes
  CHECK_THAT(fault_of(folder / "c"), ContainsSubstring("checkpoint.json: has 21474836480 bytes"));
}

TEST_CASE("a rank's file that claims 16 GiB and more is refused at once") {
  const TestFolder folder;
  const std::string path = write_checkpoint(folder / "c", {});
  const std::string file = path + "/rank_0000.safetensors", whole = text_of(file);
  SECTION("as the length of its header") {
    std::string changed = whole;
    const uint64_t length = GENERATE(uint64_t{16} << 30, UINT64_MAX);
    std::memcpy(changed.data(), &length, 8);
    std::ofstream(file, std::ios::binary) << changed;
    CHECK_THAT(fault_of(path), StartsWith("/rank_0000.safetensors: "));
  }
  SECTION("as its size") {
    fs::resize_file(file, uintmax_t{20} << 30);
    CHECK_THAT(fault_of(path), ContainsSubstring("bytes after the last tensor"));
  }
}

}  // namespace
}  // namespace ladder
