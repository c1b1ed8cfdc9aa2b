// The puzzles of lessons 14 to 21.
#include <cmath>
#include <numeric>

#include "common/checkpoint/overlap.h"
#include "common/grid/process_grid.h"
#include "common/model/lora.h"
#include "common/model/muon.h"
#include "kernels/attention_merge.h"
#include "lessons/14_context_parallel/slices.h"
#include "lessons/15_expert_parallel/routing.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "lessons/17_elastic/layout_choice.h"
#include "lessons/19_planning/choose.h"
#include "lessons/21_hybrid_shard/shard_groups.h"
#include "tests/kernels/arrays.h"
#include "tests/tools/course/puzzles/puzzle_test.h"
#include "tools/course/puzzles/14_1.h"
#include "tools/course/puzzles/14_2.h"
#include "tools/course/puzzles/15_1.h"
#include "tools/course/puzzles/15_2.h"
#include "tools/course/puzzles/16_1.h"
#include "tools/course/puzzles/16_2.h"
#include "tools/course/puzzles/17_1.h"
#include "tools/course/puzzles/17_2.h"
#include "tools/course/puzzles/18_1.h"
#include "tools/course/puzzles/18_2.h"
#include "tools/course/puzzles/19_1.h"
#include "tools/course/puzzles/20_1.h"
#include "tools/course/puzzles/21_1.h"
#include "tools/state/checkpoints/merge.h"

// NOLINTBEGIN(bugprone-suspicious-include)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // nothing is written yet
#include "lessons/14_context_parallel/puzzles/1.cc"
#include "lessons/14_context_parallel/puzzles/2.cc"
#include "lessons/15_expert_parallel/puzzles/1.cc"
#include "lessons/15_expert_parallel/puzzles/2.cc"
#include "lessons/16_pipeline_schedules/puzzles/1.cc"
#include "lessons/16_pipeline_schedules/puzzles/2.cc"
#include "lessons/17_elastic/puzzles/1.cc"
#include "lessons/17_elastic/puzzles/2.cc"
#include "lessons/18_fine_tuning/puzzles/1.cc"
#include "lessons/18_fine_tuning/puzzles/2.cc"
#include "lessons/19_planning/puzzles/1.cc"
#include "lessons/20_muon/puzzles/1.cc"
#include "lessons/21_hybrid_shard/puzzles/1.cc"
#pragma GCC diagnostic pop
// NOLINTEND(bugprone-suspicious-include)

namespace ladder::puzzles {
namespace {
using testing::Array;

TEST_CASE("14.1 is attention_merge()") {
  try_puzzle(
      check_14_1, ::merge_results,
      [](double& result, double& logsum, double other_result, double other_logsum) {
        const auto one = [](double value) { return Array(DType::fp64, {1, 1, 1}, {value}); };
        const Array out = one(result), out_logsum = one(logsum);
        attention_merge(testing::stream(), out, out_logsum, one(other_result), one(other_logsum), 0,
                        1);
        result = out.values()[0];
        logsum = out_logsum.values()[0];
      },
      {[](double& result, double& logsum, double other_result, double other_logsum) {  // overflows
         const double a = std::exp(logsum), b = std::exp(other_logsum);
         result = (a * result + b * other_result) / (a + b);
         logsum = std::log(a + b);
       },
       [](double& result, double& logsum, double other_result, double other_logsum) {
         const double most = std::max(logsum, other_logsum);
         const double a = std::exp(logsum - most), b = std::exp(other_logsum - most);
         result = (a * result + b * other_result) / (a + b);
         logsum = std::log(a + b);
       },
       [](double& result, double& logsum, double other_result, double other_logsum) {
         result = (result + other_result) / 2;
         logsum = std::log(std::exp(logsum) + std::exp(other_logsum));
       },
       [](double& result, double& logsum, double other_result, double other_logsum) {
         const double middle = (logsum + other_logsum) / 2;  // the larger one may be far above it
         const double a = std::exp(logsum - middle), b = std::exp(other_logsum - middle);
         result = (a * result + b * other_result) / (a + b);
         logsum = middle + std::log(a + b);
       }});
}

TEST_CASE("14.2 is the zigzag") {
  try_puzzle(
      check_14_2, ::rank_of,
      [](int token, int tokens, int ranks) {
        const SlicePlan plan(Slicing::zigzag, static_cast<size_t>(tokens),
                             static_cast<size_t>(ranks));
        int rank = 0;
        while (std::ranges::count(plan.positions(static_cast<size_t>(rank)), token) == 0) ++rank;
        return rank;
      },
      {[](int token, int tokens, int ranks) { return token * ranks / tokens; },
       [](int token, int tokens, int ranks) { return token / (tokens / (2 * ranks)) % ranks; },
       [](int token, int, int ranks) { return token % ranks; }});
}

TEST_CASE("15.1 is assign_tokens(), if nobody is dropped") {
  try_puzzle(check_15_1, ::offsets,
             [](const Ints& expert, int experts) {
               const size_t n = expert.size(), e = static_cast<size_t>(experts);
               Ints assignments(n), rows(n);
               Doubles fractions(e);
               const TensorView view(fractions.data(), DType::fp64, DeviceType::cpu, {1, e});
               assign_tokens(assignments, rows, view, expert, {1, n, 1, e}, 0);
               return assignments;
             },
             {[](const Ints& expert, int experts) {  // from the last choice to the first
                Ints next(experts + 1), offsets;
                for (const int e : expert) ++next[e];
                std::partial_sum(next.begin(), next.end(), next.begin());
                for (const int e : expert) offsets.push_back(--next[e]);
                return offsets;
              },
              [](const Ints& expert, int experts) {  // as if experts had equally many
                Ints taken(experts), offsets;
                const int each = (static_cast<int>(expert.size()) + experts - 1) / experts;
                for (const int e : expert) offsets.push_back(e * each + taken[e]++);
                return offsets;
              },
              [](const Ints& expert, int) {  // the reverse: which choice is at each offset
                Ints choices(expert.size());
                std::iota(choices.begin(), choices.end(), 0);
                std::ranges::stable_sort(choices, {}, [&](int choice) { return expert[choice]; });
                return choices;
              }});
}

TEST_CASE("15.2 is order_arrivals()") {
  try_puzzle(check_15_2, ::by_expert,
             [](const std::vector<Ints>& counts) {
               const size_t n = counts.size(), held = counts[0].size();
               Ints all;  // of all experts, of which rank 0 has the first ones
               size_t num_arrivals = 0;
               for (const Ints& of_sender : counts) {
                 all.insert(all.end(), of_sender.begin(), of_sender.end());
                 all.resize(all.size() + (n - 1) * held);
                 num_arrivals += sum_of(of_sender);
               }
               Ints grouped(num_arrivals), arrived(num_arrivals);
               order_arrivals(grouped, arrived, all, n, 0);
               return arrived;
             },
             {[](const std::vector<Ints>& counts) {  // as they come
                size_t num_arrivals = 0;
                for (const Ints& of_sender : counts) num_arrivals += sum_of(of_sender);
                Ints offsets(num_arrivals);
                std::iota(offsets.begin(), offsets.end(), 0);
                return offsets;
              },
              [](const std::vector<Ints>& counts) {  // the reverse: which arrival is at each offset
                Ints arrivals;
                for (size_t e = 0; e < counts[0].size(); ++e) {
                  int at = 0;
                  for (const Ints& of_sender : counts) {
                    for (size_t x = 0; x < of_sender.size(); ++x) {
                      for (int i = 0; i < of_sender[x]; ++i, ++at) {
                        if (x == e) arrivals.push_back(at);
                      }
                    }
                  }
                }
                return arrivals;
              }});
}

TEST_CASE("16.1 is the placement in a V") {
  try_puzzle(check_16_1, ::virtual_stage,
             [](int stage, int chunk, int stages) {
               const ChunkPlacement placement = {static_cast<size_t>(stages),
                                                 static_cast<size_t>(chunk + 1), true};
               return static_cast<int>(placement.virtual_stage_at(stage, chunk));
             },
             {[](int stage, int chunk, int stages) { return chunk * stages + stage; },
              [](int stage, int chunk, int stages) {
                return chunk == 0 ? stage : (chunk + 1) * stages - 1 - stage;
              },
              [](int stage, int chunk, int stages) {
                return chunk * stages + (chunk % 2 == 1 ? stages - stage : stage);
              }});
}

TEST_CASE("16.2 is interleaved 1F1B") {
  try_puzzle(
      check_16_2, ::ith_forward,
      [](int i, int stages, int chunks) {
        const ChunkPlacement placement = placement_of(
            Order::interleaved, static_cast<size_t>(stages), static_cast<size_t>(chunks));
        const Schedule work = make_work(Order::interleaved, placement, 3 * placement.num_stages);
        int forwards = 0;
        for (const Action& action : work[0]) {
          if (action.kind != ActionKind::forward || forwards++ < i) continue;
          return std::pair(static_cast<int>(action.micro_batch), static_cast<int>(action.chunk));
        }
        return std::pair(-1, -1);
      },
      {[](int i, int, int chunks) { return std::pair(i / chunks, i % chunks); },
       [](int i, int stages, int chunks) { return std::pair(i % stages, i / stages % chunks); },
       [](int i, int stages, int chunks) {
         return std::pair(i / (stages * chunks) * stages + i % stages, i % chunks);
       }});
}

TEST_CASE("17.1 is overlaps() of slices without gaps") {
  try_puzzle(check_17_1, ::overlap,
             [](int stored_first, int stored_count, int wanted_first, int wanted_count) {
               const auto elements = [](int first, int count) {
                 return PlacedElements{
                     {0, 1000, 1000}, static_cast<size_t>(first), static_cast<size_t>(count)};
               };
               const std::vector<Overlap> found = overlaps(elements(stored_first, stored_count),
                                                           elements(wanted_first, wanted_count));
               const Overlap both = found.empty() ? Overlap() : found.at(0);
               return std::array{static_cast<int>(both.from), static_cast<int>(both.to),
                                 static_cast<int>(both.count)};
             },
             {[](int stored_first, int stored_count, int wanted_first, int wanted_count) {
                const int first = std::max(stored_first, wanted_first);
                const int end = std::min(stored_first + stored_count, wanted_first + wanted_count);
                return std::array{first - stored_first, first - wanted_first, end - first};
              },
              [](int stored_first, int stored_count, int wanted_first, int wanted_count) {
                const int first = std::max(stored_first, wanted_first);
                const int count = std::min(stored_count, wanted_count);
                if (first >= std::min(stored_first + stored_count, wanted_first + wanted_count)) {
                  return std::array{0, 0, 0};
                }
                return std::array{first - stored_first, first - wanted_first, count};
              },
              [](int stored_first, int stored_count, int wanted_first, int wanted_count) {
                const int first = std::max(stored_first, wanted_first);
                const int end = std::min(stored_first + stored_count, wanted_first + wanted_count);
                if (first >= end) return std::array{0, 0, 0};
                return std::array{first, first - wanted_first, end - first};
              }});
}

TEST_CASE("17.2 is choose_layout() without a pipeline") {
  try_puzzle(
      check_17_2, ::grid,
      [](int ranks, int sequences, int wished) {
        RunConfig config;
        config.model = find_preset("nano").config;
        config.model.num_heads = static_cast<size_t>(wished);
        config.model.hidden = 4 * config.model.num_heads;
        config.global_batch_size = static_cast<size_t>(sequences);
        const ProcessGrid best = choose_layout(config, {.tensor_size = static_cast<size_t>(wished)},
                                               static_cast<size_t>(ranks));
        return std::pair(static_cast<int>(best.data_size), static_cast<int>(best.tensor_size));
      },
      {[](int ranks, int, int wished) {  // whatever data divides
         return std::pair(std::max(1, ranks / wished), std::min(ranks, wished));
       },
       [](int ranks, int sequences, int wished) {  // tensor before ranks
         int tensor = std::min(ranks, wished);
         while (wished % tensor != 0) --tensor;
         int data = ranks / tensor;
         while (sequences % data != 0) --data;
         return std::pair(data, tensor);
       },
       [](int ranks, int sequences, int) {  // the largest data
         int data = ranks;
         while (sequences % data != 0) --data;
         return std::pair(data, 1);
       }});
}

TEST_CASE("18.1 is merge_adapter()") {
  static const auto add = [](Ints& w, const Ints& a, const Ints& b, int in, int out, int r,
                             int from, int to) {
    for (int i = 0; i < in; ++i) {
      for (int o = 0; o < out; ++o) {
        for (int k = 0; k < r; ++k) {
          w[static_cast<size_t>(i * from + o * to)] +=
              a[static_cast<size_t>(k * in + i)] * b[static_cast<size_t>(o * r + k)];
        }
      }
    }
  };
  try_puzzle(
      check_18_1, ::merge,
      [](Ints& w, const Ints& a, const Ints& b, int in, int out, int r, int scale) {
        const auto size = [](int number) { return static_cast<size_t>(number); };
        const auto array = [](const Ints& numbers, const Shape& shape) {
          return Array(DType::fp64, shape, Doubles(numbers.begin(), numbers.end()));
        };
        const Array weight = array(w, {size(in), size(out)}), thin = array(a, {size(r), size(in)});
        merge_adapter(testing::stream(), weight, thin, array(b, {size(out), size(r)}), scale,
                      false);
        for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<int>(weight.values()[i]);
      },
      {[](Ints& w, const Ints& a, const Ints& b, int in, int out, int r, int) {  // no scale
         add(w, a, b, in, out, r, out, 1);
       },
       [](Ints& w, const Ints& a, const Ints& b, int in, int out, int r, int scale) {  // twice
         for (int i = 0; i < scale * scale; ++i) add(w, a, b, in, out, r, out, 1);
       },
       [](Ints& w, const Ints& a, const Ints& b, int in, int out, int r, int scale) {  // transposed
         for (int i = 0; i < scale; ++i) add(w, a, b, in, out, r, 1, in);
       },
       [](Ints& w, const Ints& a, const Ints& b, int in, int out, int r, int scale) {  // w, too
         add(w, a, b, in, out, r, out, 1);
         for (int& number : w) number *= scale;
       }});
}

TEST_CASE("18.2 is what the layout says of an adapter's copies") {
  try_puzzle(
      check_18_2, ::copied_numbers,
      [](int in, int out, int r, int ranks, bool split_outputs) {
        // A GPT-2's c_fc splits outputs, and the MLP's c_proj inputs.
        ModelConfig model = {.num_layers = 1, .vocab_size = 8, .sequence_length = 4};
        model.num_heads = static_cast<size_t>(ranks);
        model.hidden = static_cast<size_t>(split_outputs ? in : out);
        model.ffn = static_cast<size_t>(split_outputs ? out : in);
        model.lora = {.rank = static_cast<size_t>(r),
                      .targets = {split_outputs ? "mlp.c_fc" : "mlp.c_proj"}};
        int copied = 0;
        const Layout layout(model, 1, {.tensor_size = static_cast<size_t>(ranks)});
        for (const Unit& unit : layout.units()) {
          for (const Parameter& parameter : unit.parameters) {
            if (!is_adapter(parameter.name) || parameter.copies < 2) continue;
            copied += static_cast<int>(parameter.shape.num_elements());
          }
        }
        return copied;
      },
      {[](int in, int, int r, int ranks, bool) { return ranks == 1 ? 0 : r * in; },  // always A
       [](int, int out, int r, int ranks, bool) { return ranks == 1 ? 0 : r * out; },
       [](int in, int out, int r, int ranks, bool) { return ranks == 1 ? 0 : r * (in + out); },
       [](int in, int out, int r, int, bool split) { return r * (split ? in : out); },  // one rank
       [](int in, int out, int r, int ranks, bool split) {
         return ranks == 1 ? 0 : r * (split ? out : in);
       }},
      "in = 4, out = 6, r = 1, ranks = 2, split outputs");
}

// Of the offers that are not late the cheapest, and the quickest of those.
template <class IsLate, class Price>
int cheapest(const Ints& gpus, const Ints& seconds, IsLate is_late, Price price) {
  size_t best = gpus.size();
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (is_late(i)) continue;
    if (best == gpus.size() ||
        std::pair(price(i), seconds[i]) < std::pair(price(best), seconds[best])) {
      best = i;
    }
  }
  return best == gpus.size() ? 0 : gpus[best];
}

TEST_CASE("19.1 is choose() without a limit of GPU-hours") {
  try_puzzle(
      check_19_1, ::gpus_to_rent,
      [](const Ints& gpus, const Ints& seconds, int steps, int hours) {
        std::vector<Offer> offers;
        for (size_t i = 0; i < gpus.size(); ++i) {
          offers.push_back({.name = "",
                            .num_devices = static_cast<size_t>(gpus[i]),
                            .step_seconds = static_cast<double>(seconds[i])});
        }
        const Choice choice =
            choose(offers, {.tokens = static_cast<double>(steps), .days = hours / 24.});
        return choice.best.empty() ? 0 : gpus[choice.best[0]];
      },
      {[](const Ints& gpus, const Ints& seconds, int steps, int hours) {  // the quickest
         const size_t i = static_cast<size_t>(std::ranges::min_element(seconds) - seconds.begin());
         return seconds[i] * steps <= hours * 3600 ? gpus[i] : 0;
       },
       [](const Ints& gpus, const Ints& seconds, int steps, int hours) {  // the fewest in time
         int fewest = 0;
         for (size_t i = 0; i < gpus.size(); ++i) {
           const bool is_late = static_cast<int64_t>(seconds[i]) * steps > int64_t{3600} * hours;
           if (!is_late && (fewest == 0 || gpus[i] < fewest)) fewest = gpus[i];
         }
         return fewest;
       },
       [](const Ints& gpus, const Ints& seconds, int, int) {  // the cheapest, whenever it ends
         size_t best = 0;
         for (size_t i = 0; i < gpus.size(); ++i) {
           if (gpus[i] * seconds[i] < gpus[best] * seconds[best]) best = i;
         }
         return gpus[best];
       },
       [](const Ints& gpus, const Ints& seconds, int steps,
          int hours) {  // late by less than an hour
         return cheapest(
             gpus, seconds, [&](size_t i) { return seconds[i] * steps / 3600 > hours; },
             [&](size_t i) { return gpus[i] * seconds[i]; });
       },
       [](const Ints& gpus, const Ints& seconds, int steps, int hours) {  // paid by whole hours
         return cheapest(
             gpus, seconds, [&](size_t i) { return seconds[i] * steps > hours * 3600; },
             [&](size_t i) { return gpus[i] * (seconds[i] * steps / 3600); });
       }});
}

// Newton-Schulz on two rows. With `cross` 0 neither row sees the other; with `last` 0 the third
// term is missing.
void iterate(Doubles& a, Doubles& b, int iterations, double cross, double last) {
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const auto dot = [](const Doubles& x, const Doubles& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    const double aa = dot(a, a), ab = cross * dot(a, b), bb = dot(b, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = aa * a[i] + ab * b[i], y = ab * a[i] + bb * b[i];
      a[i] = 3.4445 * a[i] - 4.7750 * x + last * (aa * x + ab * y);
      b[i] = 3.4445 * b[i] - 4.7750 * y + last * (ab * x + bb * y);
    }
  }
}

TEST_CASE("20.1 is Muon::orthogonalize()") {
  try_puzzle(check_20_1, ::make_orthogonal,
             [](Doubles& a, Doubles& b) {
               const size_t n = a.size();
               const Parameter parameter = {.name = "w",
                                            .shape = {2, n},
                                            .full_shape = {2, n},
                                            .ranges = {},
                                            .matrix = {.count = 1}};
               Memory memory(DeviceType::cpu, "host", 0);
               Muon muon(memory, {.name = "muon"}, DType::fp64, {&parameter});
               Doubles rows = a;
               rows.insert(rows.end(), b.begin(), b.end());
               const Array matrix(DType::fp64, {2, n}, rows);
               const TensorView result = muon.orthogonalize(testing::stream(), matrix);
               copy(testing::stream(), matrix, result);
               const Doubles values = matrix.values();
               std::copy_n(values.begin(), n, a.begin());
               std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(n), n, b.begin());
             },
             {[](Doubles& a, Doubles& b) { iterate(a, b, 1, 1, 2.0315); },
              [](Doubles& a, Doubles& b) { iterate(a, b, 5, 0, 2.0315); },  // each alone
              [](Doubles& a, Doubles& b) { iterate(a, b, 5, 1, 0); },
              [](Doubles& a, Doubles& b) {  // b sees the new a
                for (int iteration = 0; iteration < 5; ++iteration) {
                  Doubles old = b;
                  iterate(a, old, 1, 1, 2.0315);
                  old = a;
                  iterate(old, b, 1, 1, 2.0315);
                }
              }});
}

std::vector<int> every(int first, int end, int step) {
  std::vector<int> ranks;
  for (int rank = first; rank < end; rank += step) ranks.push_back(rank);
  return ranks;
}

TEST_CASE("21.1 is the replica group") {
  try_puzzle(check_21_1, ::replicas_of,
             [](int rank, int ranks, int shard_size) {
               const auto number = [](int n) { return static_cast<size_t>(n); };
               std::vector<int> all;
               for (size_t other : ShardFlags{.shard_size = number(shard_size)}
                                       .arrange(number(ranks), number(rank))
                                       .ranks_of_group(Axis::replica)) {
                 all.push_back(static_cast<int>(other));
               }
               return all;
             },
             {[](int rank, int, int shard_size) {  // the ranks of the copy
                const int first = rank / shard_size * shard_size;
                return every(first, first + shard_size, 1);
              },
              [](int rank, int ranks, int shard_size) { return every(rank, ranks, shard_size); },
              [](int rank, int ranks, int shard_size) {  // as if shards were consecutive
                const int copies = ranks / shard_size, first = rank / copies * copies;
                return every(first, first + copies, 1);
              },
              [](int rank, int ranks, int shard_size) {
                return every(rank % (ranks / shard_size), ranks, ranks / shard_size);
              }});
}

}  // namespace
}  // namespace ladder::puzzles
