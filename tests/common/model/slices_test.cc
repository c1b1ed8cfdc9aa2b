// Who holds and who owns what of the model, for every way to spread it over ranks.
#include "common/model/slices.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr ModelConfig kConfig = {
    .num_layers = 2, .num_heads = 2, .hidden = 6, .vocab_size = 11, .sequence_length = 5};

// How often each element of each full tensor is in the slices.
using Counts = std::map<std::string, std::vector<int>>;

void count(Counts& counts, const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    std::vector<int>& of_tensor = counts[slice.parameter->name];
    of_tensor.resize(slice.parameter->full_shape.num_elements());
    for_ranges_in(*slice.parameter, slice.first, slice.first + slice.view.num_elements(),
                  [&](size_t, size_t at, size_t n) {
                    for (size_t i = at; i < at + n; ++i) ++of_tensor.at(i);
                  });
  }
}

// A buffer of no memory: nobody looks into it.
TensorView buffer_of(const Layout& layout, bool is_sharded) {
  const size_t elements = is_sharded ? layout.num_shard_elements() : layout.num_elements();
  return TensorView(no_memory().allocate(elements * 8), DType::fp64, DeviceType::cpu, {elements});
}

void check_all_are(const Counts& counts, int times) {
  const ModelDescription model = describe(kConfig);
  size_t num_tensors = 0;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      CAPTURE(parameter.name);
      ++num_tensors;
      const auto found = counts.find(parameter.name);
      REQUIRE(found != counts.end());
      CHECK(found->second == std::vector<int>(parameter.shape.num_elements(), times));
    }
  }
  CHECK(counts.size() == num_tensors);
}

TEST_CASE("every element of the model has one owner") {
  const size_t data = GENERATE(1, 2, 3, 8), tensor = GENERATE(1, 2);
  // Operations: wte, wpe, h.0, h.1, ln_f, classifier.
  const std::vector<size_t> cut = GENERATE(std::vector<size_t>{0}, std::vector<size_t>{0, 3},
                                           std::vector<size_t>{0, 1, 2, 3, 4});
  const bool is_sharded = GENERATE(false, true);
  CAPTURE(data, tensor, cut, is_sharded);
  Counts owned;
  for (size_t stage = 0; stage < cut.size(); ++stage) {
    const size_t end = stage + 1 < cut.size() ? cut[stage + 1] : ModelPartition::kToTheEnd;
    for (size_t t = 0; t < tensor; ++t) {
      const ModelPartition part = {
          .first = cut[stage], .end = end, .tensor_rank = t, .tensor_size = tensor};
      const Layout layout(kConfig, data, part);
      for (size_t rank = 0; rank < data; ++rank) {
        count(owned, owned_slices(layout, rank, buffer_of(layout, is_sharded)));
      }
    }
  }
  check_all_are(owned, 1);
}

TEST_CASE("a whole buffer holds all elements, one of shards those of its rank") {
  const size_t data = GENERATE(1, 3);
  const Layout layout(kConfig, data);
  Counts whole, shards;
  for (size_t rank = 0; rank < data; ++rank) {
    count(whole, held_slices(layout, rank, buffer_of(layout, false)));
    count(shards, held_slices(layout, rank, buffer_of(layout, true)));
  }
  check_all_are(whole, static_cast<int>(data));
  check_all_are(shards, 1);
}

TEST_CASE("slices lie where the layout says") {
  const Layout layout(kConfig, 2);
  const TensorView flat = buffer_of(layout, false), shards = buffer_of(layout, true);
  const char* const begin = static_cast<const char*>(flat.data());
  for (const Slice& slice : held_slices(layout, 1, flat)) {
    const auto at = static_cast<size_t>(static_cast<const char*>(slice.view.data()) - begin) / 8;
    bool found = false;
    for (const Unit& unit : layout.units()) {
      for (const Parameter& parameter : unit.parameters) {
        if (&parameter == slice.parameter) found = at == unit.offset + parameter.offset;
      }
    }
    CHECK(found);
    CHECK(slice.first == 0);
  }
  // Rank 1's shards begin half-way through each unit, one after the other in a buffer of shards.
  const std::vector<Slice> in_flat = owned_slices(layout, 1, flat);
  const std::vector<Slice> in_shards = owned_slices(layout, 1, shards);
  REQUIRE(in_flat.size() == in_shards.size());
  CHECK(in_shards.front().view.data() == shards.data());
  CHECK(in_flat.front().view.data() == flat.rows(layout.unit(0).padded_elements / 2, 1).data());
  for (size_t i = 0; i < in_flat.size(); ++i) {
    CHECK(in_flat[i].parameter == in_shards[i].parameter);
    CHECK(in_flat[i].first == in_shards[i].first);
    CHECK(in_flat[i].view.num_elements() == in_shards[i].view.num_elements());
  }
}

TEST_CASE("experts: every element has one owner among the ranks that hold it") {
  ModelConfig config = {2, 2, 4, 6, 3};
  config.experts = {.num_experts = 4, .per_token = 1, .every = 2};
  const ModelDescription model = describe(config);
  std::vector<std::string> names;
  for (const UnitSpec& unit : model.units) names.push_back(unit.name);
  CHECK(names ==
        std::vector<std::string>{"wte", "wpe", "h.0", "h.1", "h.1.router", "h.1.experts", "ln_f"});
  // A token uses one of four experts, each of which has 8 C^2 + 5 C parameters.
  CHECK(model.num_parameters() - model.num_active_parameters() == 3 * (8 * 16 + 5 * 4));

  constexpr size_t kRanks = 4, kExpertSize = 2;
  const bool is_sharded = GENERATE(false, true);
  std::map<std::string, std::vector<int>> owners;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& p : unit.parameters) owners[p.name].resize(p.shape.num_elements());
  }
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const Layout layout(model, kRanks,
                        {.expert_rank = rank % kExpertSize, .expert_size = kExpertSize});
    const TensorView buffer = buffer_of(layout, is_sharded);
    const auto expert = std::ranges::find(layout.units(), "h.1.experts", &Unit::name);
    // Two ranks share a unit with experts, and all four any other.
    CHECK(expert->num_shards == 2);
    CHECK(layout.num_shard_elements() ==
          (layout.num_elements() - expert->padded_elements) / 4 + expert->padded_elements / 2);
    CHECK(expert->parameters.size() == 2 * 4);
    CHECK(expert->parameters[0].name ==
          (rank % 2 == 0 ? "h.1.experts.0.c_fc.weight" : "h.1.experts.2.c_fc.weight"));
    for (const Slice& slice : owned_slices(layout, rank, buffer)) {
      for (size_t i = 0; i < slice.view.num_elements(); ++i) {
        ++owners.at(slice.parameter->name).at(slice.first + i);
      }
    }
  }
  for (const auto& [name, counts] : owners) {
    INFO(name);
    CHECK(std::ranges::count(counts, 1) == static_cast<std::ptrdiff_t>(counts.size()));
  }
}

}  // namespace
}  // namespace ladder
