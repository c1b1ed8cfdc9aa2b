// Experts on one rank or on many compute the same, and a single expert is an MLP.

#include <cmath>
#include <numeric>
#include <random>
#include <sstream>

#include "common/data/batch.h"
#include "common/model/lora.h"
#include "common/model/train_choice.h"
#include "lessons/15_expert_parallel/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/copies.h"
#include "tests/lessons/examples.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/weights.h"
#include "tests/sample.h"

namespace ladder {
namespace {

using namespace testing;
using Experts = ExpertParallelTrainer;

RunConfig config_for(DType dtype, size_t micro_batch, Experts::Flags flags) {
  RunConfig config = equivalence_config(dtype, micro_batch);
  Experts::adjust(flags, config);
  return config;
}

Experts::Flags flags_with(size_t chosen, double capacity_factor, size_t parallel_size = 0) {
  return {.experts = {.experts = 8,
                      .per_token = chosen,
                      .every = 1,
                      .parallel_size = parallel_size,
                      .capacity_factor = capacity_factor,
                      .balance_loss = 0.1,
                      .z_loss = 0.01},
          .zero = {.bucket_bytes = 20000}};
}

// One rank, one micro-batch: it exchanges nothing.
Record record_alone(Experts::Flags flags) {
  flags.experts.parallel_size = 1;
  Communicator alone{std::make_unique<OneRank>()};
  return record_run<Experts>(config_for(DType::fp64, 24, flags), alone, nullptr, flags);
}

TEST_CASE("every expert-parallel size, with drops and without: what one rank computes") {
  const auto [chosen, capacity_factor] =
      GENERATE(std::pair(2, 0.0), std::pair(2, 1.0), std::pair(1, 0.8));
  const Record expected = record_alone(flags_with(static_cast<size_t>(chosen), capacity_factor));
  for (size_t ranks : {1, 2, 3, 4, 8}) {
    for (size_t parallel_size = 1; parallel_size <= ranks; ++parallel_size) {
      if (ranks % parallel_size != 0 || 8 % parallel_size != 0) continue;
      Groups groups(ranks);
      const Experts::Flags flags =
          flags_with(static_cast<size_t>(chosen), capacity_factor, parallel_size);
      const RunConfig config =
          config_for(DType::fp64, ranks == 3 || parallel_size == 2 ? 1 : 3, flags);
      INFO("k " << chosen << ", capacity " << capacity_factor << ", " << ranks << " ranks, "
                << parallel_size << " share the experts");
      const Record record = record_run<Experts>(config, *groups.group, &groups.node_memory, flags);
      require_as_predicted(record);
      if (groups.group->rank() != 0) continue;
      require_none(differences(expected, record, bounds_for(DType::fp64), config.optimizer));
    }
  }
}

// With --train, of GPT-2 or of a Llama, whose biases are not all there.
RunConfig config_training(const std::string& choice, const std::string& targets, bool is_llama,
                          size_t micro_batch, Experts::Flags flags) {
  RunConfig config = equivalence_config(DType::fp64, micro_batch);
  if (is_llama) config = with_llama_block(config, 1);
  if (!targets.empty()) {
    config.model.lora = {.rank = 3, .alpha = 7, .targets = lora_targets(config.model, targets)};
    config.optimizer.learning_rate = 1e-2;
    config.optimizer.clip_norm = 0.05;
  }
  config.model.frozen = frozen_names(config.model, choice);
  Experts::adjust(flags, config);
  return config;
}

TEST_CASE("with something frozen, or adapters of every expert: what one rank computes") {
  const auto [choice, targets, is_llama] =
      GENERATE(std::tuple("last-1", "", false), std::tuple("last-2", "", true),
               std::tuple("bias", "", false), std::tuple("lora", "qkv", false),
               std::tuple("lora", "qkv,fc,mlp-proj", false), std::tuple("lora", "fc", false),
               std::tuple("lora", "q_proj,gate,down", true));
  Experts::Flags flags = flags_with(2, 1.0, 1);
  Communicator alone{std::make_unique<OneRank>()};
  const Record expected = record_run<Experts>(config_training(choice, targets, is_llama, 24, flags),
                                              alone, nullptr, flags);
  for (const auto& [ranks, parallel_size, zero_stage] :
       {std::tuple<size_t, size_t, int>{1, 1, 0}, {4, 2, 0}, {4, 4, 1}}) {
    flags.experts.parallel_size = parallel_size;
    flags.zero.stage = zero_stage;
    INFO("--train " << choice << " " << targets << (is_llama ? ", Llama, " : ", ") << ranks
                    << " ranks, " << parallel_size << " share the experts, ZeRO-" << zero_stage);
    Groups groups(ranks);
    const RunConfig config = config_training(choice, targets, is_llama, 3, flags);
    const Record record = require_predicted<Experts>(config, groups, flags);
    if (groups.group->rank() != 0) continue;
    require_none(differences(expected, record, bounds_for(DType::fp64), config.optimizer));
    CHECK(train_choice(config.model) == choice);
    size_t gradients = 0;
    for (const auto& [name, values] : record.tensors[0]) {
      const bool is_gradient = name.starts_with("grad.");
      gradients += is_gradient ? 1 : 0;
      if (is_gradient && choice == std::string("lora")) CHECK(is_adapter(name));
    }
    CHECK(gradients > 0);
  }
}

TEST_CASE("gradients are those of the adapters of a rank's experts, and so are their sums") {
  constexpr size_t kRanks = 4, kExperts = 8, kBlocks = 2, C = 32, r = 4, kFp32 = 4;
  const size_t size = GENERATE(1, 2, 4);
  const Experts::Flags flags = flags_with(2, 0, size);
  RunConfig config = equivalence_config(DType::fp32, 3);
  config.model.lora = {
      .rank = r, .alpha = 8, .targets = lora_targets(config.model, "qkv,fc,mlp-proj")};
  config.model.frozen = frozen_names(config.model, kTrainLora);
  Experts::Flags adjusted = flags;
  Experts::adjust(adjusted, config);
  const Prediction with = predict<Experts>(config, Experts::arrange(flags, kRanks, 0), flags);
  const size_t shared = kBlocks * r * (C + 3 * C);
  const size_t experts = kBlocks * kExperts / size * 2 * r * (C + 4 * C);
  CHECK(with.device[Category::gradients] == kFp32 * (shared + experts));
  CHECK(with.device[Category::optimizer] == 2 * kFp32 * (shared + experts));
  const auto sums = [&](Axis axis) {
    const auto found = with.step.find({Purpose::gradient, Collective::all_reduce, axis});
    return found == with.step.end() ? 0 : found->second.payload_bytes;
  };
  CHECK(sums(Axis::data) == kFp32 * (shared + (size == 1 ? experts : 0)));
  CHECK(sums(Axis::expert_data) == (size == 2 ? kFp32 * experts : 0));
}

// What padding must not enter is the router: its losses, shares and capacity.
TEST_CASE("a longer sequence has more padding, which no router, loss or gradient knows of") {
  RunConfig config = with_llama_block(equivalence_config(DType::fp64, 1), 1);  // sizes have no T
  const Corpus corpus = corpus_of_examples(config, 7);
  given_corpus = &corpus;
  for_random_cases(6, [&](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const auto one_of = [&](auto... values) {
      return std::vector{values...}[random() % sizeof...(values)];
    };
    const size_t ranks = one_of(1UL, 2UL, 4UL), micro_batch = one_of(1UL, 3UL, 6UL);
    const size_t sizes = one_of(1UL, 2UL, 4UL);
    Experts::Flags flags = flags_with(one_of(1UL, 2UL), one_of(0.0, 0.6, 1.0, 1.5), 1);
    config.seed = seed;
    INFO("case " << seed << ": " << ranks << " ranks, " << sizes << " of them share the experts");
    const auto record_of = [&](size_t length, Communicator& group, MemorySource* registered) {
      RunConfig longer = config;
      longer.model.sequence_length = length;
      longer.micro_batch_size = group.size() == 1 ? 24 : micro_batch;
      Experts::adjust(flags, longer);
      Record record = record_run<Experts>(longer, group, registered, flags);
      record.samples.clear();  // they begin with other text where a sequence is longer
      Session<Experts> session(longer, group, registered, flags);
      session.trainer->step();
      return std::pair(record, session.trainer->loads());
    };
    Communicator alone{std::make_unique<OneRank>()};
    const auto [expected, loads] = record_of(16, alone, nullptr);
    flags.experts.parallel_size = std::min(ranks, sizes);
    flags.zero.stage = one_of(0, 1);
    Groups groups(ranks);
    const auto [record, loads_of_longer] = record_of(32, *groups.group, &groups.node_memory);
    const std::vector<size_t> lengths =
        unpadded_lengths(corpus, Split::train, seed, 1, 0, config.global_batch_size);
    const size_t tokens = std::accumulate(lengths.begin(), lengths.end(), size_t{0});
    for (const auto& [block, load] : loads_of_longer) {
      CHECK(load.num_tokens == static_cast<double>(tokens));
      CHECK(load.kept == loads.at(block).kept);
      CHECK(load.dropped == loads.at(block).dropped);
      CHECK(load.balance == Approx(loads.at(block).balance));
      CHECK(load.z == Approx(loads.at(block).z));
      CHECK(load.entropy == Approx(loads.at(block).entropy));
    }
    if (groups.group->rank() != 0) return;
    require_none(differences(expected, record, bounds_for(DType::fp64), config.optimizer));
  });
  given_corpus = nullptr;
}

// The numbers after some text of a report, up to the end of its line.
std::vector<double> numbers_after(const std::string& text, const std::string& before) {
  const size_t found = text.find(before), begin = found + before.size();
  if (found == text.npos) return {};
  std::istringstream line(text.substr(begin, text.find('\n', begin) - begin));
  std::vector<double> numbers;
  for (std::string word; line >> word;) {
    if (word[0] >= '0' && word[0] <= '9') numbers.push_back(std::stod(word));
  }
  return numbers;
}

TEST_CASE("what is printed of the routers are means over all tokens, and shares of all choices") {
  for_random_cases(4, [](size_t seed) {
    std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
    const size_t chosen = 1 + random() % 3;
    const Experts::Flags flags =
        flags_with(chosen, 0.4 + 0.3 * static_cast<double>(random() % 3), 1 + random() % 2);
    RunConfig config = config_for(DType::fp64, 3, flags);
    config.seed = seed;
    Groups groups(2);
    Session<Experts> session(config, *groups.group, &groups.node_memory, flags);
    session.trainer->step();
    const std::string report = session.trainer->report();
    const double tokens = 24 * 16, choices = tokens * static_cast<double>(chosen);
    for (const auto& [block, load] : session.trainer->loads()) {
      const std::string of_block = report.substr(report.find(concat("  h.", block, ": ")));
      CAPTURE(seed, of_block);
      const std::vector<double> shares = numbers_after(of_block, "choices of each expert, %:");
      REQUIRE(shares.size() == load.kept.size());
      double num_dropped = 0;
      for (size_t x = 0; x < shares.size(); ++x) {
        const double of_expert = load.kept[x] + load.dropped[x];
        CHECK(std::abs(shares[x] - 100 * of_expert / choices) <= 0.0501);
        num_dropped += load.dropped[x];
      }
      CHECK(numbers_after(of_block, "dropped: ").at(0) == num_dropped);
      CHECK(numbers_after(of_block, "dropped: ").at(1) == choices);
      // Rounded to four places. An even router has a balance of 1; no mean is far below.
      CHECK(std::abs(numbers_after(of_block, "balance ").at(0) - load.balance / tokens) <= 5.1e-5);
      CHECK(std::abs(numbers_after(of_block, "logsumexp^2 ").at(0) - load.z / tokens) <= 5.1e-5);
      const std::vector<double> entropy = numbers_after(of_block, "entropy ");
      CHECK(std::abs(entropy.at(0) - load.entropy / tokens) <= 5.1e-5);
      CHECK(std::abs(entropy.at(1) - std::log(8)) <= 5.1e-5);
    }
  });
}

TEST_CASE("ZeRO-1 with two shard groups: what one rank computes, in every layout") {
  const double capacity_factor = GENERATE(0.0, 1.0);
  const Record expected = record_alone(flags_with(2, capacity_factor));
  for (size_t ranks : {1, 2, 4}) {
    for (size_t parallel_size : {1, 2, 4}) {
      if (ranks % parallel_size != 0) continue;
      Groups groups(ranks);
      Experts::Flags flags = flags_with(2, capacity_factor, parallel_size);
      flags.zero.stage = 1;
      const RunConfig config = config_for(DType::fp64, 3, flags);
      INFO("capacity " << capacity_factor << ", " << ranks << " ranks, " << parallel_size
                       << " share the experts");
      const Record record = require_predicted<Experts>(config, groups, flags);
      if (groups.group->rank() != 0) continue;
      require_none(differences(expected, record, bounds_for(DType::fp64), config.optimizer));
    }
  }
}

TEST_CASE("ZeRO-1: moments and bytes of both shard groups by the formulas of the README") {
  constexpr size_t kRanks = 4, kExperts = 8, kBlocks = 2, C = 32, T = 16, V = 256, kFp32 = 4;
  const size_t size = GENERATE(1, 2, 4);
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  CAPTURE(size, dtype);
  Experts::Flags flags = flags_with(2, 0, size);
  flags.zero.stage = 1;
  const Prediction with =
      predict<Experts>(config_for(dtype, 3, flags), Experts::arrange(flags, kRanks, 0), flags);
  const auto padded = [](size_t n) { return (n + 16 * kRanks - 1) / (16 * kRanks) * 16 * kRanks; };
  const size_t attention = 4 * C * C + 8 * C, router = C * kExperts;
  const size_t shared = padded(V * C) + padded(T * C) +
                        kBlocks * (padded(attention) + padded(router)) + padded(2 * C);
  const size_t experts = kBlocks * padded(kExperts / size * (8 * C * C + 5 * C));
  // Two moments of each parameter, and in bf16 the master copy.
  const size_t numbers = dtype == DType::bf16 ? 3 : 2;
  CHECK(with.device[Category::optimizer] ==
        numbers * kFp32 * (shared / kRanks + experts / (kRanks / size)));
  CHECK(with.device[Category::gradients] == kFp32 * (shared + experts));

  const auto check_bytes = [&](Axis axis, size_t calls, size_t elements) {
    const auto expect = [&](Purpose purpose, Collective collective, size_t bytes) {
      const auto found = with.step.find({purpose, collective, axis});
      REQUIRE((found != with.step.end()) == (calls > 0));
      if (calls == 0) return;
      CHECK(found->second.calls == calls);
      CHECK(found->second.payload_bytes == bytes);
    };
    INFO(name_of(axis));
    expect(Purpose::gradient, Collective::reduce_scatter, kFp32 * elements);
    expect(Purpose::parameter, Collective::all_gather, size_of(dtype) * elements);
  };
  // Units: two embeddings, the last layernorm, and of each block attention, router and experts.
  const bool one_group = size == 1;
  check_bytes(Axis::data, 3 + (one_group ? 3 : 2) * kBlocks, shared + (one_group ? experts : 0));
  // With one rank in each group of experts nobody has anything to add.
  const bool sums_experts = size > 1 && size < kRanks;
  check_bytes(Axis::expert_data, sums_experts ? kBlocks : 0, experts);
}

TEST_CASE("who is dropped does not depend on ranks or micro-batches") {
  const auto dropped_with = [](size_t ranks, size_t micro_batch, size_t parallel_size) {
    const Experts::Flags flags = flags_with(2, 1, parallel_size);
    Groups groups(ranks);
    Session<Experts> session(config_for(DType::fp64, micro_batch, flags), *groups.group,
                             &groups.node_memory, flags);
    session.trainer->step();
    std::vector<double> numbers;
    for (const auto& [block, load] : session.trainer->loads()) {
      numbers.insert(numbers.end(), load.kept.begin(), load.kept.end());
      numbers.insert(numbers.end(), load.dropped.begin(), load.dropped.end());
    }
    return numbers;
  };
  const std::vector<double> expected = dropped_with(1, 24, 1);
  double total = 0;
  for (double n : expected) total += n;
  CHECK(total == 2 * 2 * 24 * 16);  // blocks, choices, sequences, tokens
  for (size_t parallel_size : {1, 2, 4}) CHECK(dropped_with(4, 3, parallel_size) == expected);
  CHECK(dropped_with(8, 1, 8) == expected);
}

TEST_CASE("one expert that gets every token is the MLP of lesson 01") {
  const Experts::Flags flags = {.experts = {.experts = 1, .every = 2, .z_loss = 0}};
  const auto with_experts = [](std::string name) {
    const size_t at = name.find("h.1.mlp.");
    return at == std::string::npos ? name : name.replace(at, 8, "h.1.experts.0.");
  };
  std::map<std::string, std::vector<float>> values;
  RunConfig dense = equivalence_config(DType::fp64, 24);
  Record expected;
  {
    const WeightsOnDisk file(dense.model, [&](const std::string& name, std::vector<float>& v) {
      values[with_experts(name)] = v;
    });
    dense.init = file.path();
    expected = record_oracle(dense);
  }
  for (auto& tensors : expected.tensors) {
    decltype(expected.tensors)::value_type renamed;
    for (auto& [name, tensor] : tensors) renamed[with_experts(name)] = tensor;
    tensors = renamed;
  }
  std::map<std::string, Shape> shapes;
  for (const auto& [name, shape] : expected.shapes) shapes[with_experts(name)] = shape;
  expected.shapes = shapes;

  RunConfig config = config_for(DType::fp64, 3, flags);
  const WeightsOnDisk file(config.model, [&](const std::string& name, std::vector<float>& v) {
    if (values.contains(name)) v = values.at(name);
  });
  config.init = file.path();
  Groups groups(4);
  Record record = record_run<Experts>(config, *groups.group, &groups.node_memory, flags);
  if (groups.group->rank() != 0) return;
  // With one expert every probability is 1, and the router has no gradient.
  for (auto& tensors : record.tensors) {
    for (const double g : tensors.at("grad.h.1.router.weight")) REQUIRE(g == 0);
    std::erase_if(tensors, [](const auto& t) { return t.first.ends_with("router.weight"); });
  }
  require_none(differences(expected, record, bounds_for(DType::fp64), dense.optimizer));
}

TEST_CASE("the negative control: ranks that exchange nothing are found out") {
  const Experts::Flags flags = flags_with(2, 0, 2);
  const Record expected = record_alone(flags);
  const RunConfig config = config_for(DType::fp64, 3, flags);
  const Record record =
      record_unconnected<Experts>(config, {.data_size = 2, .expert_size = 2}, flags);
  if (world().rank() != 0) return;
  CHECK(differences(expected, record, bounds_for(DType::fp64), config.optimizer).size() > 100);
}

TEST_CASE("in bf16 with drops: memory and bytes as predicted, and losses near those of fp64") {
  const Experts::Flags flags = flags_with(2, 1.25, 2);
  const Record exact = record_alone(flags);
  Groups groups(4);
  const RunConfig config = config_for(DType::bf16, 3, flags);
  const Record record = require_predicted<Experts>(config, groups, flags);
  // Rounding sends some tokens to another expert, whose output differs by all of its size. At this
  // size of weights that moves a loss by less than 1 %.
  for (size_t step = 0; step < kSteps; ++step) {
    CHECK(std::abs(record.results[step].loss / exact.results[step].loss - 1) < 0.01);
    CHECK(std::abs(record.results[step].grad_norm / exact.results[step].grad_norm - 1) < 0.05);
  }
}

TEST_CASE("memory and bytes by the formulas of the README") {
  constexpr size_t kRanks = 4, kSize = 2, kExperts = 8, k = 2, kBlocks = 2, B = 3, T = 16, C = 32;
  constexpr size_t R = B * T, kFp32 = 4;
  const auto predicted = [&](const Experts::Flags& flags) {
    return predict<Experts>(config_for(DType::fp32, B, flags), Experts::arrange(flags, kRanks, 0),
                            flags);
  };
  const auto check = [&](double factor, size_t S, size_t A) {
    CAPTURE(factor);
    const Experts::Flags flags = flags_with(k, factor, kSize);
    const Prediction with = predicted(flags);
    // What a dense block keeps besides fc and gelu: ln_1, qkv, attention, middle, ln_2, out, and
    // five statistics, and logsumexp. Then the input and the final norm.
    const size_t dense = R * (8 * C + 4 + 2), ends = R * (2 * C + 2);
    const size_t router = R * kExperts + R + R * k + B * kExperts;
    const size_t indices = 2 * R * k + 2 * A;
    const size_t rows = 9 * A * C + S * C;
    CHECK(with.device[Category::activations] ==
          kFp32 * (ends + kBlocks * (dense + router + indices + rows)));
    // Of E experts a rank holds E / size, each with 8 C^2 + 5 C parameters.
    const RunConfig config = config_for(DType::fp32, B, flags);
    const Layout layout(config.model, kRanks, {.expert_rank = 1, .expert_size = kSize});
    const size_t expert = 8 * C * C + 5 * C;
    const size_t held = layout.num_parameters();
    CHECK(held + kBlocks * kExperts / kSize * expert ==
          Layout(config.model, kRanks).num_parameters());
    const auto& step = with.step;
    const size_t micro_batches = 24 / (kRanks * B), calls = kBlocks * micro_batches;
    const Traffic& tokens = step.at({Purpose::activation, Collective::all_to_all, Axis::expert});
    CHECK(tokens.calls == 4 * calls);
    CHECK(tokens.payload_bytes == 4 * calls * S * C * kFp32);
    const Traffic& counts = step.at({Purpose::activation, Collective::all_gather, Axis::expert});
    CHECK(counts.calls == calls);
    CHECK(counts.payload_bytes == calls * kSize * kExperts * sizeof(int32_t));
    const auto gradients = [&](Axis axis) {
      return step.at({Purpose::gradient, Collective::all_reduce, axis}).payload_bytes;
    };
    CHECK(gradients(Axis::expert_data) >= kFp32 * kBlocks * kExperts / kSize * expert);
    CHECK(gradients(Axis::data) + gradients(Axis::expert_data) == kFp32 * layout.num_elements());
  };
  check(0, R * k, kSize * R * k);  // all tokens of all ranks may come
  // An expert takes ceil(0.5 * 2 * 16 / 8) = 2 tokens of a sequence.
  check(0.5, B * kExperts * 2, kSize * B * kExperts / kSize * 2);
}

TEST_CASE("a copy of an expert that differs is found, and the rank named") {
  const Experts::Flags flags = flags_with(2, 0, 2);
  Groups groups(4);
  Session<Experts> session(config_for(DType::fp32, 3, flags), *groups.group, &groups.node_memory,
                           flags);
  CHECK_NOTHROW(session.trainer->check_replicas());
  ModelState& state = session.trainer->state();
  const auto unit = std::ranges::find(state.layout().units(), "h.0.experts", &Unit::name);
  float& element = state.parameters.view().as<float>()[unit->offset + 5];
  if (groups.group->rank() == 3) element += 1;
  const bool has_expert = groups.group->rank() % 2 == 1;  // of the two that hold these experts
  if (has_expert) {
    CHECK_THROWS_WITH(session.trainer->check_replicas(), ContainsSubstring("rank"));
  } else {
    CHECK_NOTHROW(session.trainer->check_replicas());
  }
}

}  // namespace
}  // namespace ladder
