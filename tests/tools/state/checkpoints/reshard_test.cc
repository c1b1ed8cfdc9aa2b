// A checkpoint written anew for another layout is, byte for byte, what that layout's ranks write.
#include "tools/state/checkpoints/reshard.h"

#include <fstream>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"
#include "tests/common/checkpoint/watched.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// Fails the test unless both folders have the same files with the same bytes.
void check_same(const TestFolder& folder, const std::string& a, const std::string& b) {
  REQUIRE(folder.list(a) == folder.list(b));
  for (const std::string& name : folder.list(a)) {
    INFO(name);
    const bool is_same = text_of(folder / (a + "/" + name)) == text_of(folder / (b + "/" + name));
    CHECK(is_same);  // bytes are not for printing
  }
}

TEST_CASE("from any layout to any other: the files that its own ranks would have written") {
  // Every file is brought to the disk, so the ranks are few.
  const std::vector<std::string> layouts = {"data=1", "tensor=4", "data=3,pipeline=2"};
  const std::string from = GENERATE("data=3", "data=2,pipeline=2,tensor=2");
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const TestFolder folder;
  const std::string source =
      write_checkpoint(folder / "from", parse_layout(from), 50, kSmall, dtype);
  for (const std::string& to : layouts) {
    CAPTURE(from, to);
    CHECK(reshard(source, parse_layout(to), folder / to) == folder / to + "/step_00000050");
    write_checkpoint(folder / "own " + to, parse_layout(to), 50, kSmall, dtype);
    check_same(folder, to + "/step_00000050", "own " + to + "/step_00000050");
  }
}

TEST_CASE("each rank of the new layout reads nothing but its own file") {
  const TestFolder folder;
  ProcessGrid grid = parse_layout("data=2,pipeline=2,tensor=2");
  const std::string path =
      reshard(write_checkpoint(folder / "from", parse_layout("data=3")), grid, folder / "to");
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    fs::create_directory(folder / "alone");
    for (const std::string& name : {std::string("checkpoint.json"), rank_file_name(grid.rank)}) {
      fs::copy(path + "/" + name, folder / "alone");
    }
    CheckpointReader reader(folder / "alone");
    const Layout layout = rank_layout(kSmall, grid);
    const auto slices = [&] { return slices_without_memory(layout, grid); };
    for (const auto& [name, slice] : stored_by_adamw(slices)) {
      const PlacedElements wanted = elements_of(slice);
      CHECK(read_values(reader, name, wanted) == values_of(name, wanted));
    }
    fs::remove_all(folder / "alone");
  }
}

TEST_CASE("what is held at a time is a file block or two, not a tensor") {
  // wte has 2.4 MiB, c_fc 0.5 MiB.
  const ModelConfig model = {1, 4, 128, 2500, 5};
  const TestFolder folder;
  const std::string source =
      write_checkpoint(folder / "from", parse_layout("tensor=4"), 1, model, DType::fp64);
  watched = {};
  const std::string path = reshard(source, parse_layout("data=2"), folder / "to");
  CHECK(watched.largest_allocation <= kFileBlockBytes);
  CheckpointReader reader(path);
  for (const auto& [name, tensor] : reader.index().tensors) {
    size_t total = 1;
    for (size_t extent : tensor.shape) total *= extent;
    const PlacedElements all = {{0, total, total}, 0, total};
    CHECK(read_values(reader, name, all) == values_of(name, all));
  }
}

std::string refusal(const std::string& from, const std::string& layout, const std::string& out) {
  try {
    reshard(from, parse_layout(layout), out);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what cannot be written anew leaves nothing") {
  const TestFolder folder;
  const std::string source = write_checkpoint(folder / "c", parse_layout("data=2"));
  SECTION("a layout that the model cannot have") {
    CHECK_THAT(refusal(source, "tensor=3", folder / "out"),
               ContainsSubstring("cannot be split among 3 ranks"));
    CHECK_FALSE(fs::exists(folder / "out"));
  }
  SECTION("a checkpoint of this step is there") {
    CHECK(refusal(source, "data=3", folder / "c") ==
          source + ": is there already; name another folder");
    CheckpointReader(source).verify();
  }
  SECTION("into itself") {
    const std::string inside = GENERATE("", "/deeper");
    CHECK(refusal(source, "data=3", source + inside) ==
          source + inside + ": is a checkpoint or lies in one; name the folder that has the " +
              "checkpoints, or a new one");
    CHECK(folder.list("c/step_00000050").size() == 3);
  }
  SECTION("a layout of more files than anybody waits for") {
    CHECK(refusal(source, "data=1000000", folder / "out") ==
          "--layout data=1000000: makes a file for each of 1000000 ranks; this takes at most "
          "16384");
    CHECK_FALSE(fs::exists(folder / "out"));
  }
  SECTION("a checkpoint with the name of another step") {
    const std::string renamed = folder / "step_00000060";
    fs::copy(source, renamed);
    CHECK(refusal(renamed, "data=3", folder / "out") ==
          renamed + ": the index says step 50, but the folder's name says another step");
  }
  SECTION("a damaged source") {
    const std::string file = source + "/rank_0001.safetensors";
    std::ofstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end)
        << '\x7f';
    CHECK_THAT(refusal(source, "data=3", folder / "out"),
               ContainsSubstring("rank_0001.safetensors") &&
                   ContainsSubstring("do not match their checksum"));
    CHECK_FALSE(fs::exists(folder / "out"));
  }
  SECTION("a full disk") {
    const FullDisk full(1'000);
    CHECK_THROWS_AS(reshard(source, parse_layout("data=3"), folder / "out"), Error);
    CHECK_FALSE(fs::exists(folder / "out"));
  }
  SECTION("a folder that another run writes to") {
    const CheckpointFolder other(folder / "out");
    CHECK_THAT(refusal(source, "data=3", folder / "out"),
               ContainsSubstring("another run is writing"));
  }
  CHECK(folder.list("c") == std::vector<std::string>{"step_00000050"});
}

TEST_CASE("kinds of tensors that this program does not know come along") {
  const TestFolder folder;
  CheckpointFolder checkpoints(folder.path());
  const std::string partial = checkpoints.begin(1);
  const RankState state(kSmall, {}, DType::fp32);
  std::vector<NamedSlice> slices = state.slices;
  for (const NamedSlice& slice : state.slices) {
    if (slice.name == "param.wte.weight") slices.push_back({"error.wte.weight", slice.slice});
  }
  write_rank_files(partial, 0, slices, [](const NamedSlice& part) { return part.slice.view; });
  write_index(partial, empty_index(kSmall, {}, 1));
  checkpoints.publish(1);
  CheckpointReader reader(
      reshard(checkpoint_path(folder.path(), 1), parse_layout("data=3"), folder / "to"));
  const PlacedElements all = {{0, 88, 88}, 0, 88};
  CHECK(read_values(reader, "error.wte.weight", all) == values_of("param.wte.weight", all));
}

}  // namespace
}  // namespace ladder
