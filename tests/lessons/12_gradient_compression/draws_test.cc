// The random numbers of compression: no rank, step or sum draws the ones that another one has
// drawn.

#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lessons/12_gradient_compression/compressed_sync.h"
#include "lessons/12_gradient_compression/power_sgd.h"
#include "lessons/12_gradient_compression/trainer.h"
#include "tests/catch.h"
#include "tests/lessons/session.h"

namespace ladder {
namespace {

using namespace testing;

constexpr size_t kRanks = 3;
constexpr Codec kCodec = {Format::int8, 32};
constexpr size_t kWords = 1 + 32 / 4;  // of a block: its scale, and four codes a word

// One of three ranks whose peers are made up. It keeps what the rank sends.
class AloneOfThree final : public Transport {
 public:
  using Sent = std::vector<std::vector<int32_t>>;

  AloneOfThree(size_t rank, Sent& sent) : Transport(rank, kRanks), sent_(sent) {}
  Moved execute(const Request& request) override {
    const auto* const words = static_cast<const int32_t*>(request.in.data());
    sent_.emplace_back(words, words + request.in.num_bytes() / sizeof(int32_t));
    if (request.collective == Collective::all_to_all) make_up(request.out);
    return {};
  }
  std::unique_ptr<Transport> split(size_t) override { fail("it has no groups"); }

 private:
  // Of each block rank 0 has sent 127 and zeros, rank 1 halves, and rank 2 zeros. In the sum an
  // element but the first is nearly halfway between two codes.
  void make_up(const TensorView& out) const {
    int32_t* const words = out.as<int32_t>();
    const size_t count = out.num_elements() / kRanks;
    std::fill_n(words, out.num_elements(), 0);
    for (size_t w = 0; w < count; w += kWords) {
      words[w] = std::bit_cast<int32_t>(1.0F);
      words[w + 1] = 127;
      words[count + w] = std::bit_cast<int32_t>(0.5F);
      std::fill_n(words + count + w + 1, kWords - 1, 0x01010101);
    }
  }

  Sent& sent_;
};

RunConfig small_config(uint64_t seed) {
  RunConfig config;
  config.model = {
      .num_layers = 1, .num_heads = 2, .hidden = 16, .vocab_size = 256, .sequence_length = 16};
  config.global_batch_size = 3;
  config.micro_batch_size = 1;
  config.seed = seed;
  return config;
}

// A rank with a state of lesson 12, whose gradients the test sets.
struct Rank {
  Rank(size_t rank, uint64_t seed)
      : group(std::make_unique<AloneOfThree>(rank, sent)),
        session(small_config(seed), group, nullptr) {}
  ModelState& state() { return session.trainer->state(); }
  TrainerContext context() {
    return {.config = session.config,
            .corpus = session.corpus(),
            .device_memory = session.device,
            .host_memory = session.host,
            .stream = session.stream,
            .ranks = &*session.rank_context};
  }
  std::vector<Bucket> buckets() { return make_buckets(state().layout(), DType::fp32, 4000); }

  AloneOfThree::Sent sent;
  Communicator group;
  Session<CompressionTrainer> session;
};

// Which draws there were: windows of 64 of them, each rounded up or down.
class Draws {
 public:
  // Adds those that `count` encoded elements have taken; the first of each block takes none.
  void add(const int32_t* words, size_t count) {
    uint64_t window = 0;
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) {
      if (i % 32 == 0) continue;
      const int32_t word = words[i / 32 * kWords + 1 + i % 32 / 4];
      const int code = word >> i % 4 * 8 & 0xFF;
      if (code > 1) FAIL("element " << i << " has code " << code);
      window = window << 1 | static_cast<uint64_t>(code);
      if (++length < 64) continue;
      if (!seen_.insert(window).second)
        FAIL("the 64 draws before element " << i << " repeat others");
    }
  }
  size_t num_windows() const { return seen_.size(); }

 private:
  std::unordered_set<uint64_t> seen_;
};

// Gradients are halves but for one element of each block, 127, which makes the scale 1.
TEST_CASE(
    "stochastic rounding: ranks, steps, buckets, slices, sums and seeds have their own draws") {
  Draws draws;
  for (uint64_t seed : {1, 2}) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      Rank own(rank, seed);
      ModelState& state = own.state();
      const std::vector<Bucket> buckets = own.buckets();
      REQUIRE(buckets.size() > 2);
      CompressedSync sync(own.context(), state, buckets,
                          {.codec = kCodec,
                           .error_feedback = false,
                           .stochastic_rounding = true,
                           .overlap = false});
      for (state.step = 1; state.step <= 3; ++state.step) {
        INFO("seed " << seed << ", rank " << rank << ", step " << state.step);
        float* const gradients = state.gradients.view().as<float>();
        for (const Bucket& bucket : buckets) {
          for (size_t i = 0; i < bucket.num_elements; ++i) {
            gradients[bucket.offset + i] = i % 32 == 0 ? 127.0F : 0.5F;
          }
        }
        own.sent.clear();
        sync.hooks();
        sync.wait();
        REQUIRE(own.sent.size() == 2 * buckets.size());
        for (size_t b = 0; b < buckets.size(); ++b) {
          const auto elements = [&](size_t slice) {
            return CompressedSum::own_elements(kCodec, buckets[b].num_elements, kRanks, slice);
          };
          const auto& scattered = own.sent[2 * b];
          for (size_t slice = 0; slice < kRanks; ++slice) {
            draws.add(scattered.data() + slice * scattered.size() / kRanks, elements(slice));
          }
          draws.add(own.sent[2 * b + 1].data(), elements(rank));
        }
      }
    }
  }
  CHECK(draws.num_windows() > 100'000);
}

// All ranks must draw the same numbers here, and others in each step. Gradients are ones, so that
// nothing is held back, and what a rank sends first is nothing but sums of draws.
TEST_CASE("PowerSGD: the same draws on all ranks, others in each step, and with another seed") {
  const auto first_sums = [](size_t rank, uint64_t seed, int64_t step) {
    Rank own(rank, seed);
    ModelState& state = own.state();
    state.step = step;
    state.optimizer.num_updates = 1;
    const auto set_to_one = [](TensorView buffer) {
      std::fill_n(buffer.as<float>(), buffer.num_elements(), 1.0F);
    };
    set_to_one(state.gradients);
    set_to_one(state.optimizer.buffer(kExpAvg));
    PowerSgdSync sync(own.context(), state, own.buckets(), 2, false);
    sync.hooks();
    sync.wait();
    return own.sent;
  };
  const AloneOfThree::Sent sums = first_sums(0, 1, 2);
  REQUIRE(sums.size() > 2);
  const bool as_another_rank = first_sums(2, 1, 2) == sums;
  const bool as_another_step = first_sums(0, 1, 3)[0] == sums[0];
  const bool as_another_seed = first_sums(0, 2, 2)[0] == sums[0];
  CHECK(as_another_rank);
  CHECK_FALSE(as_another_step);
  CHECK_FALSE(as_another_seed);
}

}  // namespace
}  // namespace ladder
