// The puzzles of lessons 07 to 13.
#include <bit>
#include <cmath>
#include <numeric>

#include "common/grid/process_grid.h"
#include "common/model/layout.h"
#include "common/model/recompute.h"
#include "common/model/row_split.h"
#include "common/schedule/balance.h"
#include "kernels/codec.h"
#include "lessons/08_pipeline_parallel/schedules.h"
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
#pragma GCC diagnostic pop
// NOLINTEND(bugprone-suspicious-include)

namespace ladder::puzzles {
namespace {
using testing::Array;

TEST_CASE("07.1 is the layout's slice of qkv") {
  try_puzzle(check_07_1, ::column,
             [](int i, int rank, int ranks, int hidden) {
               ModelConfig config = find_preset("nano").config;
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
  try_puzzle(
      check_08_1, ::warm_up,
      [](int stage, int stages, int micro_batches) {
        const StageSchedule actions =
            make_schedule(ScheduleKind::one_f_one_b, stages, micro_batches)[stage];
        int forwards = 0;
        for (const Action& action : actions) {
          if (action.kind == ActionKind::backward) break;
          if (action.kind == ActionKind::forward) ++forwards;
        }
        return forwards - 1;  // the last one takes its turn with the first backward
      },
      {[](int, int, int micro_batches) { return micro_batches - 1; },
       [](int, int stages, int micro_batches) { return std::min(stages, micro_batches) - 1; },
       [](int stage, int stages, int) { return stages - 1 - stage; },
       [](int stage, int stages, int micro_batches) {
         return std::min(std::max(0, stages - 2 - stage), micro_batches - 1);
       }},
      "stages = 2, micro_batches = 4");
}

TEST_CASE("08.2 is cut_line()") {
  try_puzzle(
      check_08_2, ::cheapest_cut,
      [](const Ints& costs, int stages) {
        std::vector<size_t> first =
            cut_line(Doubles(costs.begin(), costs.end()), static_cast<size_t>(stages));
        first.push_back(costs.size());
        size_t most = 0;
        for (size_t s = 0; s + 1 < first.size(); ++s) {
          most =
              std::max(most, sum_of({costs.begin() + static_cast<std::ptrdiff_t>(first[s]),
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
       }},
      "costs = {2, 1, 1, 3}, stages = 2");
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

}  // namespace
}  // namespace ladder::puzzles
