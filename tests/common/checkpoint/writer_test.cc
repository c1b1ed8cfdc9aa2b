// Writing a checkpoint: what the files say, and what must not become a checkpoint.
#include "common/checkpoint/writer.h"

#include <fstream>

#include "common/io/safetensors.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

ConstTensorView as_it_is(const NamedSlice& part) { return part.slice.view; }

// Writes the files of two data ranks, without an index. Returns the index that belongs to them.
CheckpointIndex write_two_ranks(const std::string& folder) {
  ProcessGrid grid = {.data_size = 2};
  for (grid.rank = 0; grid.rank < 2; ++grid.rank) {
    const RankState state(kSmall, grid, DType::fp32);
    write_rank_files(folder, grid.rank, state.slices, as_it_is);
  }
  return empty_index(kSmall, grid, 50);
}

TEST_CASE("ranks write their files, then rank 0 the index in place of the parts") {
  const TestFolder folder;
  CHECK_FALSE(has_all_rank_files(folder.path(), 2));
  const RankState state(kSmall, {.data_size = 2}, DType::fp32);
  write_rank_files(folder.path(), 0, state.slices, as_it_is);
  CHECK(folder.list() == Names{"rank_0000.safetensors", "rank_0000.safetensors.json"});
  CHECK(has_all_rank_files(folder.path(), 1));
  CHECK_FALSE(has_all_rank_files(folder.path(), 2));
  const CheckpointIndex index = write_two_ranks(folder.path());
  CHECK(has_all_rank_files(folder.path(), 2));
  write_index(folder.path(), index);
  CHECK(folder.list() ==
        Names{"checkpoint.json", "rank_0000.safetensors", "rank_0001.safetensors"});
  CheckpointReader(folder.path()).verify();
}

TEST_CASE("a rank's file says by itself where its elements belong") {
  const TestFolder folder;
  write_two_ranks(folder.path());
  const SafetensorsReader file(folder / "rank_0001.safetensors");
  // wpe has 40 elements, and padding up to 64.
  const SafetensorsEntry* const entry = file.find("exp_avg.wpe.weight");
  REQUIRE(entry != nullptr);
  CHECK(entry->shape == std::vector<size_t>{8});
  CHECK_THAT(
      text_of(folder / "rank_0001.safetensors"),
      ContainsSubstring("\"exp_avg.wpe.weight\":\"shape (5, 8), runs 0 40 40, range 32 8\""));
}

TEST_CASE("a rank that owns nothing writes a file without tensors") {
  const TestFolder folder;
  write_rank_files(folder.path(), 7, {}, as_it_is);
  CHECK(SafetensorsReader(folder / "rank_0007.safetensors").entries().empty());
  CHECK(text_of(folder / "rank_0007.safetensors.json") == "{}");
}

TEST_CASE("elements reach the file file block by file block, each with its place") {
  const TestFolder folder;
  const ModelConfig model = {1, 1, 128, 2500, 1};  // wte has 320,000 elements
  const RankState state(model, {}, DType::fp64);
  std::vector<std::pair<size_t, size_t>> parts;  // of the first slice: begin and elements
  write_rank_files(folder.path(), 0, state.slices, [&](const NamedSlice& part) {
    CHECK(part.slice.view.num_bytes() <= kFileBlockBytes);
    if (part.name == "param.wte.weight") {
      parts.emplace_back(part.slice.first, part.slice.view.num_elements());
    }
    return part.slice.view;
  });
  CHECK(parts == std::vector<std::pair<size_t, size_t>>{
                     {0, 131'072}, {131'072, 131'072}, {262'144, 57'856}});
}

TEST_CASE("an index that nobody could read is not written") {
  const TestFolder folder;
  CheckpointIndex index = write_two_ranks(folder.path());
  std::string why;
  SECTION("a rank too few") {
    index.layout.data_size = 1;
    why = "tensor \"exp_avg.h.0.mlp.c_fc.weight\": element 128 is in no slice";
  }
  SECTION("another model") {
    index.model.num_layers = 1;
    why = "is not part of the model";
  }
  SECTION("a part that is damaged") {
    fs::resize_file(folder / "rank_0001.safetensors.json", 100);
    why = "rank_0001.safetensors.json: is not valid JSON";
  }
  SECTION("a number that is none") {
    index.scalars["loss_scale"] = std::numeric_limits<double>::quiet_NaN();
    why = "scalar \"loss_scale\": expected a number";
  }
  SECTION("ranks of two dtypes") {
    const RankState state(kSmall, {.data_size = 2, .rank = 1}, DType::fp64);
    write_rank_files(folder.path(), 1, state.slices, as_it_is);
    why = "has another dtype or shape than on the ranks before";
  }
  // No user has written it: an Error, not a UserError.
  CHECK_THROWS_WITH(write_index(folder.path(), index), ContainsSubstring(why));
  CHECK_THROWS_AS(write_index(folder.path(), index), Error);
  CHECK_FALSE(fs::exists(folder / "checkpoint.json"));
  CHECK(has_all_rank_files(folder.path(), 2));
}

TEST_CASE("a full disk is an Error and leaves no file of the rank") {
  const TestFolder folder;
  const RankState state(kSmall, {}, DType::fp32);
  const size_t bytes = GENERATE(0, 100, 20'000);
  {
    const FullDisk full(bytes);
    CHECK_THROWS_WITH(write_rank_files(folder.path(), 0, state.slices, as_it_is),
                      ContainsSubstring("rank_0000.safetensors: write failed: File too large"));
  }
  CHECK(folder.list().empty());
  CHECK_FALSE(has_all_rank_files(folder.path(), 1));
}

}  // namespace
}  // namespace ladder
