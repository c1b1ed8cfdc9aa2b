// The puzzles of lessons 07 to 19.
#include <bit>
#include <cmath>
#include <numeric>

#include "common/checkpoint/overlap.h"
#include "common/grid/process_grid.h"
#include "common/model/layout.h"
#include "common/model/row_split.h"
#include "common/schedule/balance.h"
#include "kernels/attention_merge.h"
#include "kernels/codec.h"
#include "lessons/08_pipeline_parallel/schedules.h"
#include "lessons/14_context_parallel/slices.h"
#include "lessons/15_expert_parallel/routing.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "lessons/17_elastic/layout_choice.h"
#include "lessons/19_planning/choose.h"
#include "tests/kernels/arrays.h"
#include "tests/tools/course/puzzles/puzzle_test.h"
#include "tools/course/puzzles/07_1.h"
#include "tools/course/puzzles/08_1.h"
#include "tools/course/puzzles/08_2.h"
#include "tools/course/puzzles/09_1.h"
#include "tools/course/puzzles/10_1.h"
#include "tools/course/puzzles/11_1.h"
#include "tools/course/puzzles/12_1.h"
#include "tools/course/puzzles/13_1.h"
#include "tools/course/puzzles/14_1.h"
#include "tools/course/puzzles/14_2.h"
#include "tools/course/puzzles/15_1.h"
#include "tools/course/puzzles/15_2.h"
#include "tools/course/puzzles/16_1.h"
#include "tools/course/puzzles/16_2.h"
#include "tools/course/puzzles/17_1.h"
#include "tools/course/puzzles/17_2.h"
#include "tools/course/puzzles/19_1.h"

// NOLINTBEGIN(bugprone-suspicious-include)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"  // nothing is written yet
#include "lessons/07_tensor_parallel/puzzles/1.cc"
#include "lessons/08_pipeline_parallel/puzzles/1.cc"
#include "lessons/08_pipeline_parallel/puzzles/2.cc"
#include "lessons/09_3d_parallel/puzzles/1.cc"
#include "lessons/10_mixed_precision/puzzles/1.cc"
#include "lessons/11_activation_checkpointing/puzzles/1.cc"
#include "lessons/12_gradient_compression/puzzles/1.cc"
#include "lessons/13_sequence_parallel/puzzles/1.cc"
#include "lessons/14_context_parallel/puzzles/1.cc"
#include "lessons/14_context_parallel/puzzles/2.cc"
#include "lessons/15_expert_parallel/puzzles/1.cc"
#include "lessons/15_expert_parallel/puzzles/2.cc"
#include "lessons/16_pipeline_schedules/puzzles/1.cc"
#include "lessons/16_pipeline_schedules/puzzles/2.cc"
#include "lessons/17_elastic/puzzles/1.cc"
#include "lessons/17_elastic/puzzles/2.cc"
#include "lessons/19_planning/puzzles/1.cc"
#pragma GCC diagnostic pop
// NOLINTEND(bugprone-suspicious-include)

namespace ladder::puzzles {
namespace {
using testing::Array;

using Ints = std::vector<int>;
using Doubles = std::vector<double>;

size_t sum_of(const Ints& numbers) {
  return static_cast<size_t>(std::accumulate(numbers.begin(), numbers.end(), 0));
}

TEST_CASE("07.1 is the layout's slice of qkv") {
  try_puzzle(check_07_1, ::column,
             [](int i, int rank, int ranks, int hidden) {
               Gpt2Config config = find_preset("nano").config;
               config.hidden = static_cast<size_t>(hidden);
               config.num_heads = static_cast<size_t>(ranks);
               const Layout layout(config, 1,
                                   {.tensor_rank = static_cast<size_t>(rank),
                                    .tensor_size = static_cast<size_t>(ranks)});
               for (const Parameter& parameter : layout.unit(2).parameters) {
                 if (parameter.name != "h.0.attn.c_attn.bias") continue;
                 int column = -1;
                 for_ranges_in(parameter, i, i + 1,
                               [&](size_t, size_t at, size_t) { column = static_cast<int>(at); });
                 return column;
               }
               return -1;
             },
             {[](int i, int rank, int ranks, int hidden) { return rank * 3 * hidden / ranks + i; },
              [](int i, int rank, int ranks, int) { return i * ranks + rank; },
              [](int i, int rank, int ranks, int hidden) {
                return i / ranks * hidden + rank + i % ranks;
              }});
}

TEST_CASE("08.1 is 1F1B") {
  try_puzzle(check_08_1, ::forwards_first,
             [](int stage, int stages, int micro_batches) {
               const StageSchedule actions =
                   make_schedule(ScheduleKind::one_f_one_b, stages, micro_batches)[stage];
               int forwards = 0;
               for (const Action& action : actions) {
                 if (action.kind == ActionKind::backward) break;
                 if (action.kind == ActionKind::forward) ++forwards;
               }
               return forwards;
             },
             {[](int, int, int micro_batches) { return micro_batches; },
              [](int, int stages, int micro_batches) { return std::min(stages, micro_batches); },
              [](int stage, int stages, int) { return stages - stage; },
              [](int stage, int stages, int micro_batches) {
                return std::min(std::max(1, stages - 1 - stage), micro_batches);
              }});
}

TEST_CASE("08.2 is cut_line()") {
  try_puzzle(check_08_2, ::cheapest_cut,
             [](const Ints& costs, int stages) {
               std::vector<size_t> first =
                   cut_line(Doubles(costs.begin(), costs.end()), static_cast<size_t>(stages));
               first.push_back(costs.size());
               size_t most = 0;
               for (size_t s = 0; s + 1 < first.size(); ++s) {
                 most = std::max(
                     most, sum_of({costs.begin() + static_cast<std::ptrdiff_t>(first[s]),
                                   costs.begin() + static_cast<std::ptrdiff_t>(first[s + 1])}));
               }
               return static_cast<int>(most);
             },
             {[](const Ints& costs, int stages) {  // a perfect cut
                const int sum = static_cast<int>(sum_of(costs));
                return std::max((sum + stages - 1) / stages, *std::ranges::max_element(costs));
              },
              [](const Ints& costs, int stages) {  // equally many layers
                const int n = static_cast<int>(costs.size());
                int most = 0;
                for (int s = 0; s < stages; ++s) {
                  int cost = 0;
                  for (int i = n * s / stages; i < n * (s + 1) / stages; ++i) cost += costs[i];
                  most = std::max(most, cost);
                }
                return most;
              },
              [](const Ints& costs, int stages) {  // fills each up to the mean
                const int mean = static_cast<int>(sum_of(costs)) / stages;
                int most = 0, cost = 0, cuts = 0;
                for (const int c : costs) {
                  if (cost > 0 && cost + c > mean && cuts + 1 < stages) cost = 0, ++cuts;
                  cost += c;
                  most = std::max(most, cost);
                }
                return most;
              }});
}

TEST_CASE("09.1 is ProcessGrid's group") {
  try_puzzle(check_09_1, ::data_group,
             [](int rank, int stages, int data, int tensor) {
               const ProcessGrid grid = {.pipeline_size = static_cast<size_t>(stages),
                                         .data_size = static_cast<size_t>(data),
                                         .tensor_size = static_cast<size_t>(tensor),
                                         .rank = static_cast<size_t>(rank)};
               const std::vector<size_t> ranks = grid.ranks_of_group(Axis::data);
               return Ints(ranks.begin(), ranks.end());
             },
             {[](int rank, int, int data, int) {  // neighbours
                Ints group;
                for (int d = 0; d < data; ++d) group.push_back(rank / data * data + d);
                return group;
              },
              [](int rank, int, int data, int tensor) {  // of stage 0
                Ints group;
                for (int d = 0; d < data; ++d) group.push_back(d * tensor + rank % tensor);
                return group;
              },
              [](int rank, int stages, int data, int) {  // the data number changes last
                Ints group;
                for (int d = 0; d < data; ++d) group.push_back(rank % stages + d * stages);
                return group;
              }});
}

TEST_CASE("10.1 is bfloat16") {
  try_puzzle(
      check_10_1, ::to_bf16, [](float x) { return static_cast<float>(bfloat16(x)); },
      {[](float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xFFFF0000u); },
       [](float x) {  // half up
         return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x8000u) & 0xFFFF0000u);
       },
       [](float x) {  // without the carry
         const uint32_t bits = std::bit_cast<uint32_t>(x);
         return std::bit_cast<float>((bits & 0xFFFF0000u) | (bits & 0x8000u) << 1);
       }});
}

TEST_CASE("11.1 is the tensors that a plan of recomputation keeps, and the sets that it shares") {
  try_puzzle(check_11_1, ::best_group,
             [](int blocks) {
               int best = 1, least = 1 << 20;
               for (int k = 1; k <= blocks; ++k) {
                 const size_t n = static_cast<size_t>(blocks);
                 const RecomputePlan plan =
                     plan_recompute(parse_recompute(concat("every-", k)), n, 1);
                 // The output of a group's last block is kept; all else of a block is its set's.
                 int kept = 0;
                 for (size_t b = 0; b < n; ++b) kept += plan.drops(b, kBlockOutput) ? 0 : 1;
                 const int memory = kept + 16 * static_cast<int>(plan.sets().size());
                 if (memory < least) best = k, least = memory;
               }
               return best;
             },
             {[](int) { return 1; },
              [](int blocks) { return static_cast<int>(std::lround(std::sqrt(blocks))); },
              [](int blocks) {
                return std::max(1, static_cast<int>(std::lround(std::sqrt(blocks / 16.))));
              }});
}

TEST_CASE("12.1 is the codec of signs with error feedback") {
  try_puzzle(
      check_12_1, ::send_signs,
      [](const Doubles& gradients, Doubles& held) {
        const Codec codec = {Format::sign, Codec::kBlockMultiple};
        const size_t n = gradients.size(), words = encoded_words(codec, n);
        const Array encoded(DType::int32, {words}), sent(DType::fp64, {n}),
            kept(DType::fp64, {n}, held);
        encode(testing::stream(), encoded, kept, Array(DType::fp64, {n}, gradients), codec);
        decode_sum(testing::stream(), sent, encoded.view().reshape({1, words}), codec);
        held = kept.values();
        return sent.values();
      },
      {[](const Doubles& gradients, Doubles& held) {  // forgets
         double scale = 0;
         for (const double g : gradients)
           scale += std::abs(g) / static_cast<double>(gradients.size());
         Doubles sent;
         for (size_t i = 0; i < gradients.size(); ++i) {
           sent.push_back(std::copysign(scale, gradients[i]));
           held[i] = gradients[i] - sent[i];
         }
         return sent;
       },
       [](const Doubles& gradients, Doubles& held) {  // the scale is that of the gradients
         double scale = 0;
         for (const double g : gradients)
           scale += std::abs(g) / static_cast<double>(gradients.size());
         Doubles sent;
         for (size_t i = 0; i < gradients.size(); ++i) {
           held[i] += gradients[i];
           sent.push_back(std::copysign(scale, held[i]));
           held[i] -= sent[i];
         }
         return sent;
       },
       [](const Doubles& gradients, Doubles& held) {  // holds back nothing, sends nothing twice
         held = Doubles(gradients.size());
         return gradients;
       }});
}

TEST_CASE("13.1 is RowSplit") {
  try_puzzle(check_13_1, ::rows_of,
             [](const std::vector<Ints>& terms, int rank) {
               const RowSplit split = {static_cast<size_t>(rank), terms.size()};
               const size_t rows = terms[0].size();
               Ints sums;
               for (size_t i = 0; i < split.count(rows); ++i) {
                 sums.push_back(0);
                 for (const Ints& of_rank : terms) sums.back() += of_rank[split.first(rows) + i];
               }
               return sums;
             },
             {[](const std::vector<Ints>& terms, int rank) {  // as evenly as possible
                const size_t rows = terms[0].size(), r = static_cast<size_t>(rank);
                Ints sums;
                for (size_t i = rows * r / terms.size(); i < rows * (r + 1) / terms.size(); ++i) {
                  sums.push_back(0);
                  for (const Ints& of_rank : terms) sums.back() += of_rank[i];
                }
                return sums;
              },
              [](const std::vector<Ints>& terms, int) {  // an all_reduce
                Ints sums(terms[0].size());
                for (const Ints& of_rank : terms) {
                  for (size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
                }
                return sums;
              },
              [](const std::vector<Ints>& terms, int rank) {  // its own terms
                const RowSplit split = {static_cast<size_t>(rank), terms.size()};
                const size_t rows = terms[0].size();
                const auto first =
                    terms[rank].begin() + static_cast<std::ptrdiff_t>(split.first(rows));
                return Ints(first, first + static_cast<std::ptrdiff_t>(split.count(rows)));
              }});
}

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
               assign_tokens(assignments, rows, view, expert, {1, n, 1, e}, n);
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

}  // namespace
}  // namespace ladder::puzzles
