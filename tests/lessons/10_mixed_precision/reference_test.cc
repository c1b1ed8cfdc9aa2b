// Lesson 10 step by step against a step of mixed precision that is written out: gradients, their
// rounding and their sums to the bit, masters and moments as fp64 has them, parameters the masters
// rounded; and which steps are skipped.
#include "tests/lessons/10_mixed_precision/reference.h"

#include <map>
#include <string>
#include <utility>

#include "lessons/10_mixed_precision/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/sharded.h"
#include "tests/lessons/watched_memory.h"
#include "tests/lessons/weights.h"

namespace ladder {
namespace {

using namespace testing;
using Mixed = MixedPrecisionTrainer;

// A trainer and the reference of it, in a group's ranks.
class Comparison {
 public:
  Comparison(const RunConfig& config, Communicator& group, const Mixed::Flags& flags)
      : reference_(config, group.size(), flags.reduce.dtype.value_or(DType::fp32)),
        flags_(flags),
        session_(config, group, nullptr, flags, &memory_) {
    for (std::string_view kind : kDumpedKinds) state_[kind] = visited(kind);
  }

  bool is_first() const { return session_.group.rank() == 0; }
  const Layout& layout() const { return reference_.layout(); }
  // Of a kind: on the first rank in full, elsewhere nothing but zeros.
  const Flat& state(std::string_view kind) const { return state_.at(kind); }

  // What the model computes with: whole on every rank.
  void check_parameters() const {
    if (!is_first()) return;
    const DType dtype = session_.config.dtype;
    const uint16_t* const bits = memory_.find(layout().num_elements() * size_of(dtype));
    const Flat& masters = state(kParam);
    size_t num_wrong = 0;
    for (size_t i = 0; i < masters.size(); ++i) {
      const float parameter = dtype == DType::bf16
                                  ? static_cast<float>(bfloat16::from_bits(bits[i]))
                                  : static_cast<float>(float16::from_bits(bits[i]));
      num_wrong += parameter != rounded(masters[i], dtype);
    }
    CHECK(num_wrong == 0);
  }

  // Takes a step; true if it was skipped.
  bool step() {
    INFO("step " << ++step_);
    const StepResult result = session_.trainer->step();
    std::map<std::string_view, Flat> after;
    for (std::string_view kind : kDumpedKinds) after[kind] = visited(kind);
    if (is_first()) check_step(result, after);
    if (!result.skipped) ++num_updates_;
    state_ = after;
    check_parameters();
    return result.skipped;
  }

 private:
  Flat visited(std::string_view kind) {
    Flat flat(layout().num_elements());
    std::map<std::string, size_t> places;
    for_parameters_in(
        layout(), 0, flat.size(),
        [&](const Parameter& p, size_t begin, size_t, size_t) { places[p.name] = begin; });
    session_.visit(kind, [&](const ParameterSpec& parameter, ConstTensorView tensor) {
      std::copy_n(tensor.as<float>(), tensor.num_elements(), &flat[places.at(parameter.name)]);
    });
    return flat;
  }

  void check_step(const StepResult& result, const std::map<std::string_view, Flat>& after) {
    const double scale = result.loss_scale.value();
    const auto expected = reference_.gradients(state(kParam), step_, scale);
    // 384 numbers near 5 in fp64, added in another order.
    CHECK(std::abs(result.loss - expected.loss) <= 1e-12 * expected.loss);
    CHECK(result.skipped == !expected.finite);
    if (!expected.finite) {
      CHECK_FALSE(std::isfinite(result.grad_norm));
      for (std::string_view kind : {kParam, kExpAvg, kExpAvgSq}) {
        const bool is_same = after.at(kind) == state(kind);
        CHECK(is_same);
      }
      return;
    }
    const double norm = MixedReference::norm(expected, scale);
    // A sum of some 27,000 squares in fp64, each sum off by 2^-53 at most.
    CHECK(std::abs(result.grad_norm - norm) <= 1e-11 * norm);
    size_t num_wrong = 0;
    for (size_t i = 0; i < expected.sum.size(); ++i) {
      // Division by a power of two is exact.
      num_wrong += after.at(kGrad)[i] != expected.sum[i] / static_cast<float>(scale);
    }
    CHECK(num_wrong == 0);
    check_update(after, norm);
  }

  // What AdamW makes of the gradients: off from fp64 by some roundings to fp32, 2^-24 of a number
  // each. Seen against the largest of them: the moments have three. An update is the learning rate
  // times a quotient of at most 1 / sqrt(1 - beta2) = 4.5, of some ten roundings, and where the
  // first moment cancels those of the larger terms count; then the master is rounded once.
  void check_update(const std::map<std::string_view, Flat>& after, double norm) {
    const double u = 0x1p-24, rate = session_.config.optimizer.learning_rate;
    const auto largest = [](const Flat& flat) {
      double most = 0;
      for (float x : flat) most = std::max<double>(most, std::abs(x));
      return most;
    };
    const Flat &master = after.at(kParam), &exp_avg = after.at(kExpAvg),
               &exp_avg_sq = after.at(kExpAvgSq), &grad = after.at(kGrad);
    const double master_bound = u * largest(master) + 64 * u * rate;
    const double exp_avg_bound = 4 * u * std::max(largest(exp_avg), largest(grad));
    const double exp_avg_sq_bound = 4 * u * largest(exp_avg_sq);
    size_t num_wrong = 0;
    for_parameters_in(
        layout(), 0, master.size(), [&](const Parameter& p, size_t, size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) {
            const MixedReference::Element e =
                reference_.updated({state(kParam)[i], state(kExpAvg)[i], state(kExpAvgSq)[i]},
                                   grad[i], norm, num_updates_ + 1, p.shape.num_dims() == 2);
            const bool is_right =
                (flags_.no_master_weights ? master[i] == rounded(master[i], session_.config.dtype)
                                          : std::abs(master[i] - e.master) <= master_bound) &&
                std::abs(exp_avg[i] - e.exp_avg) <= exp_avg_bound &&
                std::abs(exp_avg_sq[i] - e.exp_avg_sq) <= exp_avg_sq_bound;
            num_wrong += !is_right;
          }
        });
    CHECK(num_wrong == 0);
  }

  MixedReference reference_;
  Mixed::Flags flags_;
  WatchedMemory memory_;
  Session<Mixed> session_;
  std::map<std::string_view, Flat> state_;
  int64_t step_ = 0, num_updates_ = 0;
};

RunConfig config_of(DType dtype, size_t micro_batch_size) {
  RunConfig config = equivalence_config(dtype, micro_batch_size);
  config.optimizer.num_steps = 12;
  config.optimizer.warmup_steps = 6;  // so that a learning rate belongs to one update alone
  return config;
}

TEST_CASE("the reference rounds to nearest, ties to even, and overflows") {
  CHECK(rounded(1 + 0x1p-8, DType::bf16) == 1);  // a tie
  CHECK(rounded(1 + 0x1p-8 + 0x1p-20, DType::bf16) == 1 + 0x1p-7f);
  CHECK(rounded(1 + 3 * 0x1p-8, DType::bf16) == 1 + 0x1p-6f);
  CHECK(rounded(-65519.9, DType::fp16) == -65504);
  CHECK(std::isinf(rounded(65520, DType::fp16)));
  CHECK(rounded(65520, DType::bf16) == 65536);
  CHECK(rounded(0x1.8p-24, DType::fp16) == 0x1p-23f);  // a tie between 1 and 2 of the smallest
  CHECK(rounded(0x1p-25, DType::fp16) == 0);
}

TEST_CASE("every step is that of the reference, whatever overflows") {
  for (DType dtype : {DType::bf16, DType::fp16}) {
    for (DType reduced : {DType::fp32, DType::bf16, DType::fp16}) {
      for (size_t zero_stage : {0, 1}) {
        INFO(name_of(dtype) << ", sums in " << name_of(reduced) << ", ZeRO-" << zero_stage);
        Groups groups(zero_stage == 0 ? 4 : 2);
        // Two micro-batches a rank. The scale begins too large for activations, or for sums of
        // parameters' gradients, and becomes it again.
        const size_t micro_batch = 24 / groups.group->size() / 2;
        Comparison comparison(config_of(dtype, micro_batch), *groups.group,
                              {.scale = {.initial_scale = reduced == DType::fp16 ? 0x1p20 : 0x1p26,
                                         .window = 2,
                                         .hysteresis = 1},
                               .zero = {.stage = zero_stage},
                               .reduce = {reduced}});
        comparison.check_parameters();
        size_t num_skipped = 0;
        for (int step = 0; step < 12; ++step) num_skipped += comparison.step();
        // A scale of bf16's is 1, and nothing overflows.
        if (dtype == DType::bf16) CHECK(num_skipped == 0);
        if (dtype == DType::fp16) CHECK((num_skipped >= 3 && num_skipped <= 9));
      }
    }
  }
}

// Masters are the file's own numbers; only what the model computes with is rounded.
TEST_CASE("with weights from a file the first step is that of the reference too") {
  RunConfig config = config_of(DType::bf16, 6);
  const WeightsOnDisk file(config.model);
  config.init = file.path();
  for (size_t zero_stage : {0, 1}) {
    INFO("ZeRO-" << zero_stage);
    Groups groups(4);
    Comparison comparison(config, *groups.group, {.zero = {.stage = zero_stage}});
    comparison.check_parameters();
    comparison.step();
    comparison.step();
  }
}

// Of each shard's gradients the largest.
std::vector<double> largest_by_shard(const Layout& layout, const Flat& gradients) {
  std::vector<double> largest(layout.world_size());
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    for (size_t i = 0; i < layout.unit(unit).padded_elements; ++i) {
      double& most = largest[i / shard_elements(layout, unit)];
      most = std::max<double>(most, std::abs(gradients[layout.unit(unit).offset + i]));
    }
  }
  return largest;
}

// Weights whose largest gradient is one of the final norm's, in the shards of rank `owner` of four:
// the norm has 32 weights and 32 biases, a quarter of them in each shard. Little flows through the
// norm, so that all other gradients are small, and the space, the most frequent byte, alone has an
// embedding in column `j`: the gradient of bias j is what the model gives the space too little.
// That of weight j is as many times larger as the column is above the others, behind the norm: by
// the position embedding, for the first two ranks.
WeightsOnDisk::Adjust gradient_in_shard(size_t owner) {
  return [owner](const std::string& name, std::vector<float>& values) {
    const size_t columns = 32, j = owner % 2 == 0 ? 3 : 20;
    if (name == "ln_f.weight") std::ranges::fill(values, 0.01f);
    if (name == "wte.weight") values[' ' * columns + j] = 1;
    for (size_t i = j; name == "wpe.weight" && owner < 2 && i < values.size(); i += columns) {
      values[i] = 1;
    }
  };
}

TEST_CASE("an infinity in the shards of one rank alone, whichever it is, skips the step on all") {
  constexpr size_t kRanks = 4;
  Groups groups(kRanks);
  RunConfig config = config_of(DType::bf16, 6);
  for (size_t owner = 0; owner < kRanks; ++owner) {
    const WeightsOnDisk file(config.model, gradient_in_shard(owner));
    config.init = file.path();
    Flat masters;
    const MixedReference exact(config, kRanks, DType::fp32), reduced(config, kRanks, DType::fp16);
    for_parameters_in(exact.layout(), 0, exact.layout().num_elements(),
                      [&](const Parameter& p, size_t begin, size_t, size_t) {
                        masters.resize(begin);  // padding before it
                        masters.insert(masters.end(), file.values(p.name).begin(),
                                       file.values(p.name).end());
                      });
    masters.resize(exact.layout().num_elements());
    // The largest is 10 % beyond fp16. This scale is no power of two, and gradients are rounded
    // otherwise than with the scale of 1: by 2 % at most, some roundings of 2^-8.
    const std::vector<double> shards =
        largest_by_shard(exact.layout(), exact.gradients(masters, 1, 1).sum);
    const double scale = 1.1 * 65520 / *std::ranges::max_element(shards);
    const std::vector<double> overflowing =
        largest_by_shard(exact.layout(), reduced.gradients(masters, 1, scale).sum);
    for (size_t zero_stage : {0, 1}) {
      INFO("in the shards of rank " << owner << ", ZeRO-" << zero_stage);
      for (size_t r = 0; r < kRanks; ++r) REQUIRE(std::isinf(overflowing[r]) == (r == owner));
      Comparison comparison(
          config, *groups.group,
          {.scale = {.loss_scale = scale}, .zero = {.stage = zero_stage}, .reduce = {DType::fp16}});
      CHECK(comparison.step());
    }
  }
}

TEST_CASE("without masters they are rounded after every update, and the moments are as before") {
  Groups groups(2);
  Comparison comparison(config_of(DType::bf16, 6), *groups.group, {.no_master_weights = true});
  for (int step = 0; step < 3; ++step) comparison.step();
}

}  // namespace
}  // namespace ladder
