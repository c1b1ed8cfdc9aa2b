#include "common/data/batch.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/runtime/random.h"
#include "tests/catch.h"
#include "tests/common/data/files.h"

namespace ladder {
namespace {

// Tokens and targets of `num_rows` rows of T tokens.
struct Batch {
  Batch(size_t num_rows, size_t sequence_length)
      : tokens(memory, Category::workspace, DType::int32, {num_rows, sequence_length}),
        targets(memory, Category::workspace, DType::int32, {num_rows, sequence_length}) {}

  static std::vector<int32_t> values(const Tensor& tensor) {
    const int32_t* data = tensor.view().as<int32_t>();
    return {data, data + tensor.view().num_elements()};
  }

  Memory memory{DeviceType::cpu, "host", 0};
  Tensor tokens, targets;
};

// `count` tokens 0, 1, 2, ...: the first token of a row is the place where its window starts.
Corpus counting_corpus(const TestFolder& folder, size_t count) {
  return Corpus::open(folder.write("counting.bin", shard_bytes(counting(0, count))));
}

// Where the windows of rows 0 .. num_rows - 1 of a counting corpus start.
std::vector<int32_t> starts(const Corpus& corpus, Split split, uint64_t seed, uint64_t step,
                            size_t num_rows, size_t sequence_length) {
  Batch batch(num_rows, sequence_length);
  fill_batch(corpus, split, seed, step, 0, batch.tokens, batch.targets);
  std::vector<int32_t> result;
  for (size_t row = 0; row < num_rows; ++row) {
    result.push_back(batch.tokens.view().as<int32_t>()[row * sequence_length]);
  }
  return result;
}

TEST_CASE("targets are the tokens one place further") {
  const TestFolder folder;
  const size_t sequence_length = GENERATE(1, 2, 17, 64);
  const Corpus corpus = counting_corpus(folder, 2000);
  const Split split = GENERATE(Split::train, Split::validation);
  Batch batch(9, sequence_length);
  fill_batch(corpus, split, 5, 3, 0, batch.tokens, batch.targets);
  const std::vector<int32_t> tokens = Batch::values(batch.tokens);
  const std::vector<int32_t> targets = Batch::values(batch.targets);
  for (size_t i = 0; i < tokens.size(); ++i) {
    REQUIRE(targets[i] == tokens[i] + 1);
    if (i % sequence_length > 0) REQUIRE(tokens[i] == tokens[i - 1] + 1);
  }
}

TEST_CASE("a window may span shards") {
  const TestFolder folder;
  folder.write("a.bin", shard_bytes(counting(0, 3)));
  folder.write("b.bin", shard_bytes(counting(3, 20)));
  const Corpus corpus = Corpus::open(folder.path());
  Batch batch(1, 18);
  // Training has floor(0.9 * 23) = 20 tokens, so a window of 19 starts at 0 or 1.
  fill_batch(corpus, Split::train, 0, 0, 0, batch.tokens, batch.targets);
  const std::vector<int32_t> tokens = Batch::values(batch.tokens);
  for (size_t t = 1; t < tokens.size(); ++t) CHECK(tokens[t] == tokens[0] + static_cast<int>(t));
}

TEST_CASE("a row is a function of seed, split, step and global row") {
  const TestFolder folder;
  const Corpus corpus = counting_corpus(folder, 20000);
  const uint64_t seed = 1337, step = 12;
  const std::vector<int32_t> train = starts(corpus, Split::train, seed, step, 8, 16);
  const std::vector<int32_t> validation = starts(corpus, Split::validation, seed, step, 8, 16);
  for (size_t row = 0; row < 8; ++row) {
    const uint64_t train_word = random_word(random_key(seed, "data.train"), step, row);
    const uint64_t validation_word = random_word(random_key(seed, "data.validation"), step, row);
    CHECK(train[row] == static_cast<int32_t>(random_below(18000 - 16, train_word)));
    CHECK(validation[row] ==
          static_cast<int32_t>(18000 + random_below(2000 - 16, validation_word)));
  }
  CHECK(train == starts(corpus, Split::train, seed, step, 8, 16));
  CHECK(train != starts(corpus, Split::train, seed + 1, step, 8, 16));
  CHECK(train != starts(corpus, Split::train, seed, step + 1, 8, 16));
  CHECK(std::set<int32_t>(train.begin(), train.end()).size() > 1);
}

TEST_CASE("micro-batches are parts of the global batch") {
  const TestFolder folder;
  const Corpus corpus = counting_corpus(folder, 20000);
  Batch whole(8, 16), parts(8, 16);
  fill_batch(corpus, Split::train, 7, 2, 0, whole.tokens, whole.targets);
  const size_t size = GENERATE(1, 2, 4);
  for (size_t row = 0; row < 8; row += size) {
    fill_batch(corpus, Split::train, 7, 2, row, parts.tokens.view().rows(row, size),
               parts.targets.view().rows(row, size));
  }
  CHECK(Batch::values(whole.tokens) == Batch::values(parts.tokens));
  CHECK(Batch::values(whole.targets) == Batch::values(parts.targets));
}

TEST_CASE("rows reach every window of their split and no token of the other") {
  const TestFolder folder;
  // T = 4 and 101 tokens: 90 for training (86 windows), 11 for validation (7 windows).
  const Corpus corpus = counting_corpus(folder, 101);
  const auto distinct = [&](Split split) {
    // A window is missed by 4,000 uniform draws with probability (1 - 1/86)^4000 < 1e-20.
    const std::vector<int32_t> all = starts(corpus, split, 3, 0, 4000, 4);
    return std::set<int32_t>(all.begin(), all.end());
  };
  const std::set<int32_t> train = distinct(Split::train);
  CHECK(train.size() == 86);
  CHECK(*train.begin() == 0);
  CHECK(*train.rbegin() + 4 == 89);
  const std::set<int32_t> validation = distinct(Split::validation);
  CHECK(validation.size() == 7);
  CHECK(*validation.begin() == 90);
  CHECK(*validation.rbegin() + 4 == 100);
}

TEST_CASE("a split of T + 1 tokens has one window") {
  const TestFolder folder;
  const Corpus corpus = counting_corpus(folder, 41);  // 36 for training, 5 for validation
  for (const int32_t start : starts(corpus, Split::validation, 1, 1, 100, 4)) CHECK(start == 36);
  for (const int32_t start : starts(corpus, Split::train, 1, 1, 100, 35)) CHECK(start == 0);
}

TEST_CASE("starts are uniform") {
  const TestFolder folder;
  // 17,783 tokens: 16,004 for training, 16,000 windows of 5 tokens, 16 bins of 1,000.
  const Corpus corpus = counting_corpus(folder, 17783);
  std::vector<double> bins(16);
  const size_t num_steps = 100, num_rows = 160;
  for (size_t step = 0; step < num_steps; ++step) {
    for (const int32_t start : starts(corpus, Split::train, 42, step, num_rows, 4)) {
      bins.at(static_cast<size_t>(start) / 1000) += 1;
    }
  }
  // A bin's count is binomial: 16,000 draws, p = 1/16. Six standard deviations are exceeded by one
  // of 16 bins with probability below 16 * 2e-9.
  const double mean = 1000, deviation = std::sqrt(16000 * (1.0 / 16) * (15.0 / 16));
  for (const double bin : bins) CHECK(std::abs(bin - mean) <= 6 * deviation);
}

// Example i has i % 3 + 1 tokens i, of which the last counts: its target is 100 + i.
Corpus numbered_examples(size_t count) {
  Examples examples;
  for (size_t i = 0; i < count; ++i) {
    std::vector<int32_t> tokens(i % 3 + 1, static_cast<int32_t>(i)), targets(i % 3 + 1, kIgnored);
    targets.back() = static_cast<int32_t>(100 + i);
    examples.add(tokens, targets);
  }
  return Corpus::of_examples("examples", std::move(examples), false);
}

TEST_CASE(
    "a row of a corpus of examples is one of its split, padded with tokens that do not count") {
  const Corpus corpus = numbered_examples(25);
  CHECK(corpus.num_examples(Split::train) == 23);
  CHECK(corpus.num_examples(Split::validation) == 2);
  CHECK(corpus.num_tokens() == 8 * (1 + 2 + 3) + 1);
  for (const Split split : {Split::train, Split::validation}) {
    std::set<int32_t> seen;
    for (uint64_t step = 0; step < 10; ++step) {
      Batch batch(40, 4);
      fill_batch(corpus, split, 7, step, 0, batch.tokens, batch.targets);
      const std::vector<int32_t> tokens = Batch::values(batch.tokens);
      const std::vector<int32_t> targets = Batch::values(batch.targets);
      for (size_t row = 0; row < 40; ++row) {
        const int32_t number = tokens[row * 4];
        const auto length = static_cast<size_t>(number % 3 + 1);
        seen.insert(number);
        for (size_t t = 0; t < 4; ++t) {
          CHECK(tokens[row * 4 + t] == (t < length ? number : 0));
          CHECK(targets[row * 4 + t] == (t + 1 == length ? 100 + number : kIgnored));
        }
      }
      CHECK(counted_targets(corpus, split, 7, step, 40, 4) == 40);
      // A row is the same whichever part of the batch is filled.
      Batch part(1, 4);
      fill_batch(corpus, split, 7, step, 17, part.tokens, part.targets);
      CHECK(Batch::values(part.tokens)[0] == tokens[17 * 4]);
    }
    CHECK(seen.size() == corpus.num_examples(split));
    for (const int32_t number : seen) {
      CHECK((number % 10 == 9) == (split == Split::validation));
    }
  }
}

TEST_CASE("of a line of tokens all count") {
  CHECK(counted_targets(Corpus::king_james(), Split::train, 1, 2, 5, 7) == 35);
}

TEST_CASE("arguments of the wrong shape, dtype or length are refused") {
  const TestFolder folder;
  const Corpus corpus = counting_corpus(folder, 41);
  Batch batch(2, 4), other(2, 3), longer(2, 5);
  Memory memory(DeviceType::cpu, "host", 0);
  const Tensor floats(memory, Category::workspace, DType::fp32, {2, 4});
  const auto fill = [&](TensorView tokens, TensorView targets) {
    fill_batch(corpus, Split::validation, 0, 0, 0, tokens, targets);
  };
  CHECK_THROWS_AS(fill(batch.tokens.view().reshape({8}), batch.targets), Error);
  CHECK_THROWS_AS(fill(batch.tokens, other.targets), Error);
  CHECK_THROWS_AS(fill(floats, batch.targets), Error);
  CHECK_THROWS_AS(fill(batch.tokens, floats), Error);
  CHECK_THROWS_AS(fill(batch.tokens, TensorView()), Error);
  CHECK_THROWS_AS(fill(longer.tokens, longer.targets), Error);
  CHECK_NOTHROW(fill(batch.tokens, batch.targets));
}

}  // namespace
}  // namespace ladder
