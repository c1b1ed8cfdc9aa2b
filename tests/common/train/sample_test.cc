// Sampling: one token, and a whole text.
#include "common/train/program/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "common/io/printable.h"
#include "common/model/weights.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

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

// A model's tensors in memory.
struct Model {
  explicit Model(const RunConfig& config)
      : description(describe(config.model)),
        layout(description, 1),
        flat(memory, Category::parameters, config.dtype, {layout.num_elements()}) {}
  TensorView tensor(const Unit& unit, const Parameter& p) const {
    return flat.view().elements(unit.offset + p.offset, p.shape);
  }
  void visit(const TensorSink& sink) const {
    for (size_t u = 0; u < layout.units().size(); ++u) {
      const Unit& unit = layout.unit(u);
      for (size_t i = 0; i < unit.parameters.size(); ++i) {
        sink(description.units[u].parameters[i], tensor(unit, unit.parameters[i]));
      }
    }
  }

  ModelDescription description;
  Layout layout;
  Memory memory{DeviceType::cpu, "host", 0};
  Tensor flat;  // zeros
};

void initialize(const Model& model) {
  Stream stream(DeviceType::cpu);
  initialize_parameters(stream, model.layout, 1, 0, model.flat);
}

using Visit = std::function<void(const TensorSink&)>;

// It continues token 10, a line break, or the last if there are fewer.
std::string sample(const RunConfig& config, bool is_text, const Visit& visit,
                   const Tokenizer* tokenizer = nullptr) {
  Memory memory(DeviceType::cpu, "host", 0);
  const Vocabulary vocabulary = {
      .is_text = is_text,
      .tokenizer = tokenizer != nullptr ? std::optional(*tokenizer) : std::nullopt,
      .end_of_text = {}};
  const auto first = static_cast<int32_t>(std::min<size_t>(config.model.vocab_size - 1, 10));
  const std::string text = sample_text(config, vocabulary, first, memory, visit);
  CHECK(memory.current().total() == 0);
  return text;
}
std::string sample(const RunConfig& config, bool is_text, const Model& model) {
  return sample(config, is_text, [&](const TensorSink& sink) { model.visit(sink); });
}
// Of the model with its initial weights.
std::string sample(const RunConfig& config, bool is_text = true) {
  const Model model(config);
  initialize(model);
  return sample(config, is_text, model);
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

TEST_CASE("a tokenizer makes text of the same tokens") {
  RunConfig config = small_run();
  config.sample_tokens = 20;
  config.top_k = 0;
  const Model zeros(config);  // every token is as likely as any other
  const Visit visit = [&](const TensorSink& sink) { zeros.visit(sink); };
  const TestFolder folder;
  // Token 244 has no text of its own, and the one byte of 82 is no UTF-8.
  std::string vocabulary;
  for (int token = 0; token < 256; ++token) {
    if (token == 244) continue;
    const std::string text = token == 82 ? "\u00ff" : concat("\u0120<", token, ">");
    vocabulary += concat(vocabulary.empty() ? "" : ",", "\"", text, "\":", token);
  }
  const Tokenizer tokenizer(folder.write(
      "tokenizer.json",
      concat(R"({"decoder":{"type":"ByteLevel"},"model":{"vocab":{)", vocabulary, "}}}")));
  std::istringstream numbers(sample(config, false, visit));
  std::string expected;
  for (int token = 0; numbers >> token;) {
    expected += token == 244 ? "[244]" : token == 82 ? "?" : concat(" <", token, ">");
  }
  CHECK_THAT(expected, ContainsSubstring("[244]") && ContainsSubstring("?"));
  CHECK(sample(config, false, visit, &tokenizer) == expected);
}

TEST_CASE("tensors are placed by name, whatever their order") {
  const RunConfig config = small_run();
  const Model model(config);
  initialize(model);
  const std::string expected = sample(config, true, model);
  std::vector<std::pair<ParameterSpec, ConstTensorView>> tensors;
  model.visit([&](const ParameterSpec& parameter, ConstTensorView value) {
    tensors.emplace_back(parameter, value);
  });
  const auto visit = [&](const TensorSink& sink) {
    for (const auto& [parameter, value] : tensors) sink(parameter, value);
  };
  std::ranges::reverse(tensors);
  CHECK(sample(config, true, visit) == expected);
  tensors.push_back(tensors.back());
  CHECK_THROWS_WITH(sample(config, true, visit), ContainsSubstring("wte.weight came twice"));
  tensors.resize(tensors.size() - 2);
  CHECK_THROWS_WITH(sample(config, true, visit), ContainsSubstring("wte.weight did not come"));
}

// Makes a model that repeats the token that it sees: token i is the i-th unit vector, everything
// else but the last norm's weight is zero, and a norm leaves the largest element the largest.
void make_echo(const Model& model) {
  const ModelConfig& config = model.layout.config();
  const Unit &tokens = model.layout.units().front(), &norm = model.layout.units().back();
  float* const rows = model.tensor(tokens, tokens.parameters[0]).as<float>();
  for (size_t i = 0; i < config.vocab_size; ++i) rows[i * config.hidden + i] = 1;
  std::fill_n(model.tensor(norm, norm.parameters[0]).as<float>(), config.hidden, 1.0f);
}

TEST_CASE("a sample goes on after its first token") {
  RunConfig config = small_run();
  config.temperature = 0;
  config.sample_tokens = 3;
  const auto sampled = [&](size_t vocab, bool is_text) {
    config.model.vocab_size = vocab;
    const Model model(config);
    make_echo(model);
    return sample(config, is_text, model);
  };
  CHECK(sampled(16, true) == "\n\n\n");
  CHECK(sampled(11, true) == "\n\n\n");
  CHECK(sampled(10, true) == "\t\t\t");  // 9, the last
  CHECK(sampled(10, false) == "9 9 9");
  CHECK(sampled(16, false) == "10 10 10");
  CHECK(sampled(1, true) == "???");
}

TEST_CASE("tokens of a text that are no bytes come as question marks") {
  RunConfig config = small_run();
  config.model.vocab_size = 1000;
  config.top_k = 0;
  config.sample_tokens = 200;
  const Model zeros(config);  // every token is as likely as any other, whatever came before
  std::istringstream numbers(sample(config, false, zeros));
  std::string bytes;
  for (int token = 0; numbers >> token;) bytes += token < 256 ? static_cast<char>(token) : '?';
  REQUIRE(std::count(bytes.begin(), bytes.end(), '?') > 100);
  CHECK(sample(config, true, zeros) == printable(bytes));
}

}  // namespace
}  // namespace ladder
