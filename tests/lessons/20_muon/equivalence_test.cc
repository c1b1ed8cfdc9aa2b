// Lesson 20: wherever a matrix becomes whole, every rank ends with the bits of lesson 02, where all
// ranks have all matrices.

#include "common/model/muon_homes.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/20_muon/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/20_muon/muon.h"

namespace ladder {
namespace {

using namespace testing;

MuonTrainer::Flags at(const std::string& homes) { return {.homes = homes}; }

TEST_CASE("lesson 01's numbers, memory and bytes as predicted, matrices x steps calls") {
  const Record oracle = record_oracle(with_muon(equivalence_config(DType::fp64, 24)));
  for (const auto& [ranks, micro_batch, homes] :
       {std::tuple<size_t, size_t, const char*>{1, 6, "longest-first"},
        {2, 3, "in-turn"},
        {3, 4, "longest-first"},
        {4, 6, "longest-first"},
        {8, 1, "longest-first"},
        {8, 3, "everywhere"}}) {
    INFO(ranks << " ranks, micro-batch " << micro_batch << ", " << homes);
    Groups groups(ranks);
    const RunConfig config = with_muon(equivalence_config(DType::fp64, micro_batch));
    Session<MuonTrainer> session(config, *groups.group, &groups.node_memory, at(homes));
    const Record record =
        record_run<MuonTrainer>(config, *groups.group, &groups.node_memory, at(homes));
    require_as_predicted(record);
    session.trainer->step();
    const double calls =
        sum_over(*groups.group, static_cast<double>(session.trainer->state().matrix_work().so_far));
    const size_t each = homes == std::string("everywhere") ? ranks : 1;
    CHECK(static_cast<size_t>(calls) == each * num_matrices(config));
    if (groups.group->rank() != 0) continue;
    require_none(differences(oracle, record, bounds_for(DType::fp64), config.optimizer));
  }
}

TEST_CASE("every choice of homes has the bits of lesson 02") {
  for (const auto& [ranks, dtype, micro_batch] :
       {std::tuple<size_t, DType, size_t>{2, DType::fp32, 12},
        {3, DType::fp64, 1},
        {3, DType::bf16, 4},
        {8, DType::fp32, 1}}) {
    Groups groups(ranks);
    const RunConfig config = with_muon(equivalence_config(dtype, micro_batch));
    const Record replicated = record_run<DdpTrainer>(config, *groups.group, &groups.node_memory);
    for (const char* homes : {"longest-first", "in-turn", "everywhere"}) {
      INFO(ranks << " ranks, " << name_of(dtype) << ", " << homes);
      const Record record =
          record_run<MuonTrainer>(config, *groups.group, &groups.node_memory, at(homes));
      if (groups.group->rank() == 0) {
        require_none(differences(replicated, record, {}, config.optimizer));
      }
    }
  }
}

TEST_CASE("more ranks than weights: some are no home") {
  RunConfig config = with_muon(equivalence_config(DType::fp64, 24));
  config.model.num_layers = 1;
  const Record oracle = record_oracle(config);
  config.micro_batch_size = 3;
  Groups groups(8);
  const Record record = require_predicted<MuonTrainer>(config, groups);
  if (groups.group->rank() != 0) return;
  require_none(differences(oracle, record, bounds_for(DType::fp64), config.optimizer));
}

TEST_CASE("memory and bytes are those of the README's formulas") {
  const RunConfig config = with_muon(equivalence_config(DType::fp32, 1));
  for (size_t wanted : {1, 2, 3, 4, 8}) {
    Groups groups(wanted);
    const size_t ranks = groups.group->size();  // the last group may be a smaller one
    INFO(ranks << " ranks");
    const Layout layout(config.model, ranks);
    const size_t p = layout.num_elements() * sizeof(float);
    const MuonHomes homes(config.optimizer, layout, 0, {.size = ranks, .has_shards = true});
    // What a rank sends to homes and back: all parts of all weights but those that stay.
    size_t moved = 0, own_weights = 0;
    for (const HomedWeight& weight : homes.weights()) {
      for (size_t rank = 0; rank < ranks; ++rank) {
        const size_t bytes = weight.parts[rank].count * sizeof(float);
        if (rank != weight.home) moved += 2 * bytes;
        if (rank == 0) own_weights += bytes;
      }
    }
    const Prediction prediction = predict<MuonTrainer>(config, {.data_size = ranks}, {});
    CHECK(prediction.device[Category::parameters] == p);
    CHECK(prediction.device[Category::gradients] == p);
    size_t own = 0;  // parameters of rank 0's shards, without padding
    for (const Slice& slice : held_slices(
             layout, 0,
             TensorView(nullptr, DType::fp32, DeviceType::cpu, {layout.num_shard_elements()}))) {
      own += slice.view.num_elements() * sizeof(float);
    }
    CHECK(prediction.device[Category::optimizer] == p / ranks + own - own_weights);
    const TrafficKey key = {Purpose::update, Collective::all_to_all};
    if (ranks == 1) {
      CHECK_FALSE(prediction.step.contains(key));
      continue;
    }
    CHECK(prediction.step.at(key).calls == 2 * homes.num_rounds());
    const Record record = require_predicted<MuonTrainer>(config, groups);
    CHECK(record.communicated.at(key).moved.bytes == kSteps * moved);
  }
}

TEST_CASE("each weight has one home, and the longest has little more than the mean") {
  const ModelConfig model = {
      .num_layers = 12, .num_heads = 12, .hidden = 768, .vocab_size = 50304, .sequence_length = 64};
  OptimizerConfig optimizer;
  optimizer.name = "muon";
  for (size_t ranks : {1, 3, 4, 8, 64}) {
    const Layout layout(model, ranks);
    double longest[2] = {};
    for (const HomeChoice choice : {HomeChoice::longest_first, HomeChoice::in_turn}) {
      const MuonHomes homes(optimizer, layout, 0,
                            {.size = ranks, .has_shards = true, .choice = choice});
      CHECK(homes.weights().size() == 48);
      size_t housed = 0;
      double all = 0, most = 0;
      for (size_t home = 0; home < ranks; ++home) {
        housed += homes.at(home).size();
        all += homes.flops_at(home);
        most = std::max(most, homes.flops_at(home));
      }
      CHECK(housed == 48);
      for (const HomedWeight& weight : homes.weights()) {
        size_t elements = 0;
        for (const WeightPart& part : weight.parts) elements += part.count;
        CHECK(elements == weight.parts[0].slice->full_shape.num_elements());
      }
      longest[choice == HomeChoice::in_turn] = most / (all / static_cast<double>(ranks));
    }
    CHECK(longest[0] <= longest[1]);
    if (ranks == 4) CHECK(longest[0] < 1.001);
  }
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  require_negative_control<MuonTrainer>(with_muon(equivalence_config(DType::fp64, 3)),
                                        {.data_size = 2});
}

}  // namespace
}  // namespace ladder
