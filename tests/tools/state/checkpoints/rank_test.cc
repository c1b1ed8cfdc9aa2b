// What is said of a rank that nobody has started is what such a rank does.
#include "tools/state/checkpoints/rank.h"

#include "common/checkpoint/overlap.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/checkpoints.h"
#include "tests/common/checkpoint/watched.h"

namespace ladder {
namespace {

TEST_CASE("places of elements are said in rows, columns and elements") {
  const Shape matrix = {8, 24}, vector = {24};
  CHECK(elements_text(matrix, {{0, 192, 192}, 0, 192}) == "all");
  CHECK(elements_text(matrix, {{0, 192, 192}, 48, 24}) == "row 2");
  CHECK(elements_text(matrix, {{0, 192, 192}, 48, 72}) == "rows 2 to 4");
  CHECK(elements_text(matrix, {{0, 192, 192}, 50, 72}) == "elements 50 to 121");
  CHECK(elements_text(matrix, {{96, 96, 96}, 24, 72}) == "rows 5 to 7");  // of the second half
  CHECK(elements_text(matrix, {{12, 12, 24}, 0, 96}) == "columns 12 to 23");
  CHECK(elements_text(matrix, {{12, 12, 24}, 24, 12}) == "columns 12 to 23, row 2 of these");
  CHECK(elements_text(matrix, {{12, 12, 24}, 5, 9}) ==
        "columns 12 to 23, elements 5 to 13 of these");
  CHECK(elements_text(matrix, {{4, 4, 8}, 0, 96}) == "columns 4 to 7, 12 to 15, 20 to 23");
  CHECK(elements_text(matrix, {{4, 4, 8}, 12, 84}) ==
        "columns 4 to 7, 12 to 15, 20 to 23, rows 1 to 7 of these");
  CHECK(elements_text(vector, {{0, 24, 24}, 0, 24}) == "all");
  CHECK(elements_text(vector, {{0, 24, 24}, 7, 1}) == "element 7");
  CHECK(elements_text(vector, {{12, 12, 24}, 0, 12}) == "elements 12 to 23");
  CHECK(elements_text(vector, {{4, 4, 8}, 0, 12}) == "elements 4 to 7, 12 to 15, 20 to 23");
  CHECK(elements_text(vector, {{4, 4, 8}, 2, 5}) ==
        "elements 4 to 7, 12 to 15, 20 to 23, elements 2 to 6 of these");
}

OwnedSlices owned_by(const std::string& layout, size_t rank, const ModelConfig& model = kSmall) {
  ProcessGrid grid = parse_layout(layout);
  grid.rank = rank;
  return OwnedSlices(model, grid, stored_tensors_of(model));
}

// Fewer heads of k and v than ranks, and norms of q and k: ranks have copies of what they split.
ModelConfig with_copied_heads() {
  ModelConfig model = kSmall;
  model.key_value_heads = model.num_heads / 2;
  model.norm = Norm::rmsnorm;
  model.positions = Positions::rotary;
  model.mlp = MlpCore::swiglu;
  model.biases = Biases::none;
  model.qk_norm = QkNorm::rmsnorm;
  check_config(model);
  return model;
}

TEST_CASE("a rank owns what its file has") {
  const TestFolder folder;
  const std::string layout = GENERATE("data=1", "data=3,pipeline=2,tensor=2", "data=64");
  CheckpointReader reader(write_checkpoint(folder / "c", parse_layout(layout)));
  for (size_t rank = 0; rank < parse_layout(layout).world_size(); ++rank) {
    const OwnedSlices owned = owned_by(layout, rank);
    size_t num_stored = 0;
    for (const auto& [name, tensor] : reader.index().tensors) {
      for (const StoredSlice& slice : tensor.slices) num_stored += slice.rank == rank;
    }
    CHECK(owned.slices.size() == num_stored);
    for (const auto& [name, slice] : owned.slices) {
      const PlacedElements elements = elements_of(slice);
      for (const auto& [stored, file_block, part] :
           parts_to_read(reader.index().tensors.at(name), elements)) {
        CHECK(stored->rank == rank);
      }
    }
  }
}

// Adds what the elements are of the whole tensor to `places`, each as the tensor's name and
// element.
void add_places(std::vector<std::pair<std::string, size_t>>& places, const Parameter& parameter,
                const PlacedElements& elements) {
  for_ranges_in(parameter, elements.first, elements.first + elements.count,
                [&](size_t, size_t at, size_t count) {
                  for (size_t i = at; i < at + count; ++i) places.emplace_back(parameter.name, i);
                });
}

TEST_CASE("of a copy the rank that writes it is named") {
  const std::string layout = GENERATE("data=4", "tensor=4", "pipeline=4", "data=3,tensor=2",
                                      "data=3,pipeline=2,tensor=2", "pipeline=2,tensor=4");
  const ModelConfig model = GENERATE(ModelConfig(kSmall), with_copied_heads());
  CAPTURE(layout, model.is_gpt2());
  std::vector<std::vector<std::pair<std::string, size_t>>> owned;  // by rank
  for (size_t rank = 0; rank < parse_layout(layout).world_size(); ++rank) {
    const OwnedSlices slices = owned_by(layout, rank, model);
    owned.emplace_back();
    for (const auto& [name, slice] : slices.slices) {
      if (name.starts_with("param.")) {
        add_places(owned.back(), *slice.parameter, elements_of(slice));
      }
    }
    std::ranges::sort(owned.back());
  }
  ProcessGrid grid = parse_layout(layout);
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const Layout held = rank_layout(model, grid);
    std::vector<std::pair<std::string, size_t>> copied;
    for (const auto& [parameter, elements, writer] : copies_of(held, grid)) {
      std::vector<std::pair<std::string, size_t>> places;
      add_places(places, *parameter, elements);
      std::ranges::sort(places);
      CAPTURE(grid.rank, parameter->name, writer);
      CHECK(writer != grid.rank);
      CHECK(std::ranges::includes(owned.at(writer), places));
      copied.insert(copied.end(), places.begin(), places.end());
    }
    // What is left of the rank's shards is no copy.
    size_t num_held = 0;
    for (size_t i = 0; i < held.units().size(); ++i) {
      const size_t begin = shard_begin(held, i, grid.group_rank(Axis::data));
      for_parameters_in(
          held, begin, begin + shard_elements(held, i),
          [&](const Parameter&, size_t, size_t from, size_t to) { num_held += to - from; });
    }
    CHECK(num_held == owned[grid.rank].size() + copied.size());
  }
}

TEST_CASE("a rank reads the bytes that are said") {
  const TestFolder folder;
  CheckpointReader reader(write_checkpoint(folder / "c", parse_layout("data=3,tensor=2")));
  const std::string to = GENERATE("data=1", "data=2,pipeline=2", "tensor=4", "data=64");
  ProcessGrid grid = parse_layout(to);
  reader.verify();  // reads the headers, too
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const OwnedSlices owned(kSmall, grid, reader.index().tensors);
    watched = {};
    size_t needed = 0;
    for (const auto& [name, slice] : owned.slices) {
      std::vector<float> values(slice.view.num_elements());
      needed += slice.view.num_bytes();
      reader.read(name, {slice.parameter->ranges, slice.first, values.size()},
                  TensorView(values.data(), DType::fp32, DeviceType::cpu, {values.size()}));
    }
    CAPTURE(to, grid.rank);
    CHECK_THAT(read_text(owned, reader.index()),
               ContainsSubstring(concat(", ", human_bytes(watched.bytes_read), " for ",
                                        human_bytes(needed), "\n")));
  }
}

TEST_CASE("what a rank of 8 would own and read") {
  const TestFolder folder;
  CheckpointReader reader(write_checkpoint(folder / "c", parse_layout("data=2")));
  ProcessGrid grid = parse_layout("data=2,pipeline=2,tensor=2");
  grid.rank = 7;
  const OwnedSlices owned(kSmall, grid, reader.index().tensors);
  const std::string owns = owned_text(owned, grid);
  CHECK_THAT(owns, StartsWith("rank 7 of data=2,pipeline=2,tensor=2: data 1 of 2, "
                              "pipeline 1 of 2, tensor 1 of 2; holds h.1 to ln_f and "
                              "classifier\n"));
  CHECK_THAT(owns,
             ContainsSubstring("\n    h.1.mlp.c_proj.weight    (32, 8)        rows 16 to 31\n"));
  CHECK_THAT(
      owns, ContainsSubstring("\nhas copies:\n") &&
                ContainsSubstring(
                    "\n    h.1.mlp.c_proj.bias      (8)            all, which rank 6 writes\n") &&
                ContainsSubstring(
                    "\n    wte.weight               (11, 8)        row 10, which rank 3 writes\n"));
  const std::string reads = read_text(owned, reader.index());
  CHECK_THAT(reads,
             ContainsSubstring("\n  rank_0001.safetensors: ") &&
                 ContainsSubstring("\n    param.h.1.mlp.c_proj.weight: file block 0 of 1\n"));
}

TEST_CASE("a rank that owns nothing says so") {
  const OwnedSlices owned = owned_by("data=64", 63);
  ProcessGrid grid = parse_layout("data=64");
  grid.rank = 63;
  CHECK_THAT(owned_text(owned, grid), ContainsSubstring("owns nothing\n"));
  CHECK(read_text(owned, whole_index(kSmall, {})) ==
        "reads 0 file blocks of 0 files, 0 B for 0 B\n");
}

}  // namespace
}  // namespace ladder
