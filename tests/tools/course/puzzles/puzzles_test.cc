// The puzzles of lessons 00 to 06.
#include <cmath>
#include <map>

#include "common/schedule/simulate.h"
#include "common/train/program/prediction.h"
#include "kernels/adamw.h"
#include "kernels/classifier.h"
#include "lessons/00_collectives/plan.h"
#include "lessons/02_ddp/buckets.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "tests/kernels/arrays.h"
#include "tests/tools/course/puzzles/puzzle_test.h"
#include "tools/course/puzzles/00_1.h"
#include "tools/course/puzzles/00_2.h"
#include "tools/course/puzzles/00_3.h"
#include "tools/course/puzzles/01_1.h"
#include "tools/course/puzzles/01_2.h"
#include "tools/course/puzzles/02_1.h"
#include "tools/course/puzzles/02_2.h"
#include "tools/course/puzzles/03_1.h"
#include "tools/course/puzzles/04_1.h"
#include "tools/course/puzzles/05_1.h"
#include "tools/course/puzzles/06_1.h"

// NOLINTBEGIN(bugprone-suspicious-include)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // nothing is written yet
#include "lessons/00_collectives/puzzles/1.cc"
#include "lessons/00_collectives/puzzles/2.cc"
#include "lessons/00_collectives/puzzles/3.cc"
#include "lessons/01_single_gpu/puzzles/1.cc"
#include "lessons/01_single_gpu/puzzles/2.cc"
#include "lessons/02_ddp/puzzles/1.cc"
#include "lessons/02_ddp/puzzles/2.cc"
#include "lessons/03_zero1/puzzles/1.cc"
#include "lessons/04_zero2/puzzles/1.cc"
#include "lessons/05_zero3/puzzles/1.cc"
#include "lessons/06_offload/puzzles/1.cc"
#pragma GCC diagnostic pop
// NOLINTEND(bugprone-suspicious-include)

namespace ladder::puzzles {
namespace {
using testing::Array;

// What a rank sends in a round of an all_gather of one element a rank.
Exchange::Transfer sent(Algorithm algorithm, int rank, int round, int ranks) {
  const size_t n = static_cast<size_t>(ranks);
  return make_plan(algorithm, Collective::all_gather, n, n).at(rank).at(round).send.value();
}

TEST_CASE("00.1 is the ring's all_gather") {
  try_puzzle(check_00_1, ::sent_part,
             [](int rank, int round, int ranks) {
               return static_cast<int>(sent(Algorithm::ring, rank, round, ranks).range.begin);
             },
             {[](int rank, int round, int ranks) { return (rank + round) % ranks; },
              [](int rank, int round, int ranks) { return (rank - round) % ranks; },
              [](int rank, int round, int ranks) { return (rank + ranks - round - 1) % ranks; },
              [](int rank, int, int) { return rank; }});
}

TEST_CASE("00.2 is the all_gather by halving") {
  try_puzzle(check_00_2, ::partner,
             [](int rank, int round, int ranks) {
               return static_cast<int>(sent(Algorithm::halving, rank, round, ranks).peer);
             },
             {[](int rank, int round, int ranks) { return (rank + (1 << round)) % ranks; },
              [](int rank, int, int) { return rank ^ 1; },
              [](int rank, int round, int) { return rank ^ round; }});
}

TEST_CASE("00.3 is the ring's all_to_all, in which a rank has no exchange with itself") {
  try_puzzle(check_00_3, ::peer,
             [](int rank, int round, int ranks) {
               const Plan plan = make_plan(Algorithm::ring, Collective::all_to_all, ranks, ranks);
               // All exchanges of a round have two ranks whose numbers have one sum.
               for (const Exchange& exchange : plan[rank]) {
                 const int other = static_cast<int>(exchange.send->peer);
                 if ((rank + other) % ranks == round) return other;
               }
               return rank;
             },
             {[](int rank, int round, int) { return rank ^ round; },
              [](int rank, int round, int ranks) { return (rank + round) % ranks; },
              [](int rank, int round, int ranks) { return (round - rank) % ranks; }});
}

TEST_CASE("01.1 is the loss of the classifier's kernel") {
  try_puzzle(check_01_1, ::loss,
             [](const std::vector<double>& logits, int target) {
               const size_t v = logits.size();
               const Array rows(DType::fp64, {1, v}, logits), losses(DType::fp64, {1}),
                   dlogits(DType::fp64, {1, v}), statistics(DType::fp64, {3});
               softmax_cross_entropy(testing::stream(), losses, dlogits, rows, statistics,
                                     Array(DType::int32, {1}, {static_cast<double>(target)}), 1);
               return losses.values()[0];
             },
             {[](const std::vector<double>& logits, int target) {
                double sum = 0;
                for (const double logit : logits) sum += std::exp(logit);
                return std::log(sum) - logits[target];
              },
              [](const std::vector<double>& logits, int target) {
                const double most = *std::ranges::max_element(logits);
                double sum = 0;
                for (const double logit : logits) sum += std::exp(logit - most);
                return std::log(sum) - logits[target];
              },
              [](const std::vector<double>& logits, int target) {  // not the largest one
                double sum = 0;
                for (const double logit : logits) sum += std::exp(logit - logits[target]);
                return std::log(sum);
              },
              [](const std::vector<double>& logits, int target) {
                double sum = 0;
                for (const double logit : logits) sum += std::exp(logit - logits[0]);
                return std::log(sum) + logits[0] - logits[target];
              },
              [](const std::vector<double>& logits, int target) {
                double mean = 0, sum = 0;
                for (const double l : logits) mean += l / static_cast<double>(logits.size());
                for (const double logit : logits) sum += std::exp(logit - mean);
                return std::log(sum) + mean - logits[target];
              }});
}

TEST_CASE("01.2 is AdamW's first moment, corrected") {
  try_puzzle(
      check_01_2, ::mean,
      [](double& moment, double gradient, int step) {
        // With beta2 = 0 the update is the corrected mean over the gradient's size.
        const AdamWFactors<double> factors(
            {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0, .epsilon = 0, .step = step});
        double parameter = 0, square = 0;
        adamw_element(parameter, moment, square, gradient, factors);
        return -parameter * std::abs(gradient);
      },
      {[](double& moment, double gradient, int) { return moment = 0.9 * moment + 0.1 * gradient; },
       [](double& moment, double gradient, int step) {
         moment = 0.9 * moment + 0.1 * gradient;
         return step == 1 ? gradient : moment;
       },
       [](double& moment, double gradient, int step) {
         moment = 0.9 * moment + 0.1 * gradient;
         return moment / (1 - std::pow(0.9, step - 1));
       }});
}

// Lets `units` micro-batches go through engines, each of which is a stage that only runs forward.
// Messages take nothing, and every micro-batch has its own buffer. A micro-batch enters when that
// `most` before it has left. Returns when the last one leaves.
double time_through(const Table& takes, size_t most) {
  using enum ActionKind;
  const size_t units = takes[0].size(), last = takes.size() - 1;
  Schedule schedule(takes.size());
  for (size_t k = 0; k < units; ++k) {
    for (size_t s = 0; s <= last; ++s) {
      if (s > 0) schedule[s].push_back({recv_activation, k, k, s - 1});
      if (s == 0 && k >= most) schedule[s].push_back({recv_activation, k - most, units + k, last});
      schedule[s].push_back({forward, k, k});
      if (s < last) schedule[s].push_back({send_activation, k, k, s + 1});
      if (s == last && k + most < units) schedule[s].push_back({send_activation, k, k, 0});
    }
  }
  const auto costs = [&](size_t stage, const Action& action) -> double {
    return action.kind == forward ? takes[stage][action.micro_batch] : 0;
  };
  return extent_of(simulate(schedule, costs, Links::many)).end;
}

TEST_CASE("02.1 is the simulation of two stages, one of which is the link") {
  try_puzzle(
      check_02_1, ::waits,
      [](const Ints& ready, const Ints& takes) {
        Ints backward = ready;
        for (size_t i = 1; i < ready.size(); ++i) backward[i] -= ready[i - 1];
        return static_cast<int>(time_through({backward, takes}, ready.size())) - ready.back();
      },
      {[](const Ints&, const Ints& takes) { return takes.back(); },
       [](const Ints& ready, const Ints& takes) {
         int end = ready[0];
         for (const int t : takes) end += t;
         return end - ready.back();
       },
       [](const Ints& ready, const Ints& takes) {
         int end = 0;
         for (size_t i = 0; i < ready.size(); ++i) end = std::max(end, ready[i] + takes[i]);
         return end - ready.back();
       }},
      "ready = {2, 4}, takes = {3, 1}");
}

// A model with units of so many elements. The first one is also the classifier's.
Layout layout_of(const Ints& elements, size_t world_size) {
  ModelDescription model(find_preset("nano").config);
  for (size_t u = 0; u < elements.size(); ++u) {
    const ParameterSpec parameter = {.name = "weight", .shape = {static_cast<size_t>(elements[u])}};
    model.units.push_back({.name = concat(u), .parameters = {parameter}});
    model.operations.push_back({.kind = u == 0                     ? OperationKind::token_embedding
                                        : u + 1 == elements.size() ? OperationKind::final_norm
                                                                   : OperationKind::block,
                                .unit = u});
  }
  model.operations.push_back({.kind = OperationKind::classifier, .unit = 0});
  return Layout(model, world_size);
}

TEST_CASE("02.2 is make_buckets()") {
  try_puzzle(check_02_2, ::bucket_of,
             [](const Ints& bytes, int bucket_bytes) {
               constexpr size_t kBytes = 16 * 4;  // of a cache line, to which units are padded
               Ints elements;
               for (const int b : bytes) elements.push_back(16 * b);
               const Layout layout = layout_of(elements, 1);
               Ints bucket_of(bytes.size());
               int number = 0;
               for (const Bucket& bucket :
                    make_buckets(layout, DType::fp32, static_cast<size_t>(bucket_bytes) * kBytes)) {
                 for (size_t u = 0; u < bytes.size(); ++u) {
                   const size_t offset = layout.unit(u).offset;
                   const bool is_in =
                       bucket.offset <= offset && offset < bucket.offset + bucket.num_elements;
                   if (is_in) bucket_of[u] = number;
                 }
                 ++number;
               }
               return bucket_of;
             },
             {[](const Ints& bytes, int) {  // a bucket for each unit
                Ints bucket(bytes.size());
                for (size_t u = 0; u < bytes.size(); ++u)
                  bucket[u] = static_cast<int>(bytes.size() - 1 - u);
                return bucket;
              },
              [](const Ints& bytes, int bucket_bytes) {  // unit 0 like all others
                Ints bucket(bytes.size());
                int number = 0, filled = 0;
                for (size_t u = bytes.size(); u-- > 0;) {
                  if (filled >= bucket_bytes) ++number, filled = 0;
                  bucket[u] = number;
                  filled += bytes[u];
                }
                return bucket;
              },
              [](const Ints& bytes, int bucket_bytes) {  // never more than bucket_bytes
                Ints bucket(bytes.size());
                int number = 0, filled = 0;
                for (size_t u = bytes.size(); u-- > 0;) {
                  if (filled > 0 && (u == 0 || filled + bytes[u] > bucket_bytes))
                    ++number, filled = 0;
                  bucket[u] = number;
                  filled += bytes[u];
                }
                return bucket;
              }});
}

TEST_CASE("03.1 is the layout's shards") {
  try_puzzle(check_03_1, ::owner,
             [](int element, int elements, int ranks) {
               const Layout layout = layout_of({elements, 1}, static_cast<size_t>(ranks));
               int rank = 0;
               while (static_cast<size_t>(element) >=
                      shard_begin(layout, 0, rank) + shard_elements(layout, 0)) {
                 ++rank;
               }
               return rank;
             },
             {[](int element, int elements, int ranks) { return element * ranks / elements; },
              [](int element, int elements, int ranks) {
                return element / ((elements + ranks - 1) / ranks);
              },
              [](int element, int elements, int ranks) {
                return std::min(element / std::max(16, elements / ranks / 16 * 16), ranks - 1);
              }});
}

TEST_CASE("04.1 is plan_buffers()") {
  try_puzzle(check_04_1, ::buffer_of,
             [](const std::vector<bool>& has_own, int turns) {
               const Layout layout = layout_of(Ints(has_own.size(), 16), 1);
               const BufferPlan plan = plan_buffers(layout, has_own, static_cast<size_t>(turns));
               return Ints(plan.buffer_of_unit.begin(), plan.buffer_of_unit.end());
             },
             {[](const std::vector<bool>& has_own, int turns) {  // counts those with their own, too
                Ints buffer;
                for (size_t u = 0; u < has_own.size(); ++u) {
                  buffer.push_back(static_cast<int>(has_own[u] ? turns + u : u % turns));
                }
                return buffer;
              },
              [](const std::vector<bool>& has_own, int) {  // a buffer for each
                Ints buffer;
                for (size_t u = 0; u < has_own.size(); ++u) buffer.push_back(static_cast<int>(u));
                return buffer;
              },
              [](const std::vector<bool>& has_own, int turns) {  // one for all that have their own
                Ints buffer;
                int next = 0;
                for (const bool own : has_own) buffer.push_back(own ? turns : next++ % turns);
                return buffer;
              },
              [](const std::vector<bool>& has_own, int turns) {  // not from 0
                Ints buffer;
                int next = 0, own_buffer = 0;
                for (const bool own : has_own)
                  buffer.push_back(own ? --own_buffer : next++ % turns);
                return buffer;
              }});
}

// What a card holds for each parameter that it has memory for, as the lesson's trainer predicts it.
double predicted_bytes(int stage, size_t cards) {
  RunConfig config;
  config.model = find_preset("nano").config;
  config.global_batch_size = cards;
  config.micro_batch_size = 1;
  const ProcessGrid grid = {.data_size = cards};
  const MemoryUse use = stage == 0   ? predict<DdpTrainer>(config, grid, {}).device
                        : stage == 1 ? predict<Zero1Trainer>(config, grid, {}).device
                        : stage == 2 ? predict<Zero2Trainer>(config, grid, {}).device
                                     : predict<Zero3Trainer>(config, grid, {}).device;
  const size_t bytes =
      use[Category::parameters] + use[Category::gradients] + use[Category::optimizer];
  return static_cast<double>(bytes) /
         static_cast<double>(Layout(config.model, cards).num_elements());
}

TEST_CASE("05.1 is what the trainers of lessons 02 to 05 predict") {
  try_puzzle(
      check_05_1, ::fewest_cards,
      [](int stage, double parameters, double card_bytes) {
        static std::map<std::pair<int, size_t>, double> known;
        for (size_t n = 1; n <= 48; ++n) {
          const auto [need, is_new] = known.try_emplace({stage, n});
          if (is_new) need->second = predicted_bytes(stage, n);
          if (need->second * parameters <= card_bytes) return static_cast<int>(n);
        }
        return 0;
      },
      {[](int, double parameters, double card_bytes) {  // everything is divided
         return static_cast<int>(std::ceil(16 * parameters / card_bytes));
       },
       [](int stage, double parameters, double card_bytes) {  // moments are one number
         const double whole = stage == 0 ? 12 : stage == 1 ? 8 : stage == 2 ? 4 : 0;
         const double left = card_bytes / parameters - whole;
         return left <= 0 ? 0 : static_cast<int>(std::ceil((12 - whole) / left));
       },
       [](int stage, double parameters, double card_bytes) {  // rounded down
         const double whole = stage == 0 ? 16 : stage == 1 ? 8 : stage == 2 ? 4 : 0;
         const double left = card_bytes / parameters - whole;
         return left < 0 ? 0 : std::max(1, static_cast<int>((16 - whole) / left));
       }},
      "stage = 1, parameters = 10, card_bytes = 100");
}

TEST_CASE("06.1 is the simulation of three stages") {
  try_puzzle(
      check_06_1, ::end_of_copies,
      [](int units, int buffers, int backward, int sum, int copy) {
        return static_cast<int>(
            time_through({Ints(units, backward), Ints(units, sum), Ints(units, copy)}, buffers));
      },
      {[](int units, int, int backward, int sum, int copy) {  // as if there were always a buffer
         return backward + sum + copy + (units - 1) * std::max({backward, sum, copy});
       },
       [](int units, int, int backward, int sum, int copy) {
         return units * (backward + sum + copy);
       },
       [](int units, int buffers, int backward, int sum, int copy) {
         return (units + buffers - 1) / buffers * (backward + sum + copy);
       }});
}

}  // namespace
}  // namespace ladder::puzzles
