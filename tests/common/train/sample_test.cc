// Sampling: one token, and a whole text.
#include "common/train/sample.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "common/io/printable.h"
#include "common/model/weights.h"

namespace ladder {
namespace {

constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();

TEST_CASE("temperature 0 and top_k 1 take the likeliest token, of equals the first") {
  const std::vector<double> logits = {-1, 3, 2, 3, 0};
  for (uint64_t word : {uint64_t{0}, uint64_t{1} << 63, kLargest}) {
    CHECK(draw_token(logits, 0, 0, word) == 1);
    CHECK(draw_token(logits, 0, 3, word) == 1);
    CHECK(draw_token(logits, 1, 1, word) == 1);
    CHECK(draw_token(std::vector<double>(4, 7.0), 0, 0, word) == 0);
    CHECK(draw_token(std::vector<double>{-1e300}, 1, 40, word) == 0);
  }
}

// How often each token comes where the words are spread evenly over all 64-bit numbers.
std::vector<double> frequencies(const std::vector<double>& logits, double temperature, size_t top_k,
                                size_t draws) {
  std::vector<double> counts(logits.size());
  const uint64_t step = kLargest / draws;
  for (size_t i = 0; i < draws; ++i) {
    ++counts[static_cast<size_t>(draw_token(logits, temperature, top_k, step * i + step / 2))];
  }
  for (double& count : counts) count /= static_cast<double>(draws);
  return counts;
}

TEST_CASE("tokens come as often as softmax says") {
  constexpr size_t kDraws = 10'000;
  // Every token has one interval of the words, and an interval of length p holds p * kDraws evenly
  // spread points, give or take one.
  constexpr double kBound = 1.0 / kDraws + 1e-12;
  const std::vector<double> logits = {0.5, -2, 1.5, 0.5, -0.25};
  const double temperature = GENERATE(0.5, 1.0, 3.0);
  const size_t top_k = GENERATE(0, 2, 3, 5, 99);
  CAPTURE(temperature, top_k);
  // By likelihood: 2, 0, 3 (as likely as 0, but later), 4, 1.
  const std::vector<size_t> order = {2, 0, 3, 4, 1};
  std::vector<double> expected(5);
  double total = 0;
  for (size_t i = 0; i < 5; ++i) {
    if (top_k != 0 && i >= top_k) continue;
    total += expected[order[i]] = std::exp(logits[order[i]] / temperature);
  }
  const std::vector<double> got = frequencies(logits, temperature, top_k, kDraws);
  for (size_t i = 0; i < 5; ++i) CHECK(std::abs(got[i] - expected[i] / total) <= kBound);
}

TEST_CASE("the extreme words take the first and the last that are kept") {
  const std::vector<double> logits = {0, 1, 2, 3};
  CHECK(draw_token(logits, 1, 0, 0) == 3);
  CHECK(draw_token(logits, 1, 0, kLargest) == 0);
  CHECK(draw_token(logits, 1, 3, kLargest) == 1);
  CHECK(draw_token(logits, 1, 99, kLargest) == 0);
  // A token that is never drawn: its share of the words rounds to nothing.
  CHECK(draw_token(std::vector<double>{0, -1e6}, 1, 0, kLargest - (uint64_t{1} << 20)) == 0);
}

TEST_CASE("large logits do not overflow") {
  const std::vector<double> got = frequencies({1e4, 1e4 - 1, -1e4}, 1, 0, 1000);
  const double first = 1 / (1 + std::exp(-1.0));
  CHECK(std::abs(got[0] - first) <= 1e-3 + 1e-12);
  CHECK(std::abs(got[1] - (1 - first)) <= 1e-3 + 1e-12);
  CHECK(got[2] == 0);
}

RunConfig small_run() {
  RunConfig config;
  config.model = {
      .num_layers = 1, .num_heads = 2, .hidden = 16, .vocab_size = 256, .sequence_length = 8};
  config.sample_tokens = 20;
  return config;
}

// A sample of the model with its initial weights.
std::string sample(const RunConfig& config, bool is_text = true) {
  const Layout layout(config.model, 1);
  Memory memory(DeviceType::cpu, "host", 0);
  Stream stream(DeviceType::cpu);
  const Tensor flat(memory, Category::parameters, config.dtype, {layout.num_elements()});
  initialize_parameters(stream, layout, 1, 0, flat);
  const auto visit = [&](TensorKind kind, const TensorSink& sink) {
    CHECK(kind == TensorKind::param);
    for (const Unit& unit : layout.units()) {
      for (const Parameter& p : unit.parameters) {
        sink(p, flat.view().elements(unit.offset + p.offset, p.shape));
      }
    }
  };
  Memory sampling(DeviceType::cpu, "host", 0);
  const std::string text = sample_text(config, is_text, sampling, visit);
  CHECK(sampling.current().total() == 0);
  return text;
}

TEST_CASE("a sample is as long as asked, the same for the same seed, another for another") {
  RunConfig config = small_run();
  const std::string text = sample(config);
  CHECK(text.size() == 20);
  CHECK(sample(config) == text);
  config.seed = 2;
  CHECK(sample(config) != text);
  config.temperature = 0;
  const std::string greedy = sample(config);
  config.seed = 3;
  CHECK(sample(config) == greedy);
}

TEST_CASE("a sample does not depend on its length: it goes on where the shorter one ends") {
  RunConfig config = small_run();
  config.dtype = DType::fp64;
  const std::string longer = sample(config);
  config.sample_tokens = 12;
  CHECK(longer.substr(0, 12) == sample(config));
  config.sample_tokens = 1;
  CHECK(longer.substr(0, 1) == sample(config));
}

TEST_CASE("a sample prints, whatever the model draws") {
  RunConfig config = small_run();
  config.temperature = 100;  // any byte
  config.top_k = 0;
  config.sample_tokens = 200;
  const std::string text = sample(config);
  CHECK(printable(text) == text);
  CHECK(std::count(text.begin(), text.end(), '?') > 20);
}

TEST_CASE("tokens that are no bytes are printed as numbers") {
  RunConfig config = small_run();
  config.sample_tokens = 3;
  const std::string text = sample(config, false);
  CHECK(std::count(text.begin(), text.end(), ' ') == 2);
  CHECK(text.find_first_not_of("0123456789 ") == std::string::npos);
}

}  // namespace
}  // namespace ladder
