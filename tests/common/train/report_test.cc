// What a run says.
#include "common/train/report/report.h"

#include "common/model/train_choice.h"
#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("numbers have commas") {
  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(123456) == "123,456");
  CHECK(with_commas(1234567) == "1,234,567");
  CHECK(with_commas(18446744073709551615U) == "18,446,744,073,709,551,615");
}

TEST_CASE("times are minutes and seconds, with hours where there are some") {
  CHECK(clock_text(0) == "0:00");
  CHECK(clock_text(0.4) == "0:00");
  CHECK(clock_text(42.4) == "0:42");
  CHECK(clock_text(59.6) == "1:00");
  CHECK(clock_text(3599.4) == "59:59");
  CHECK(clock_text(3599.5) == "1:00:00");
  CHECK(clock_text(4023) == "1:07:03");
  CHECK(clock_text(360000) == "100:00:00");
}

TEST_CASE("format writes as printf does, and refuses what is too long") {
  CHECK(format("%3d|%s|%.2f", 7, "x", 0.125) == "  7|x|0.12");
  CHECK_THROWS_AS(format("%600d", 1), Error);
}

// The line of a table that has all these words.
std::string line_with(const std::string& text, const std::vector<std::string>& words) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    bool all = true;
    for (const std::string& word : words) all = all && line.find(word) != std::string::npos;
    if (all) return line;
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  return "none";
}

TEST_CASE("the memory table marks what differs from its prediction") {
  Memory device(DeviceType::cpu, "device", 0), host(DeviceType::cpu, "host", 0);
  const Tensor parameters(device, Category::parameters, DType::fp64, {1000});
  { const Tensor gone(device, Category::workspace, DType::fp32, {25}); }  // the peak counts
  const Tensor staging(host, Category::workspace, DType::fp32, {10});
  Prediction prediction;
  prediction.device[Category::parameters] = 8000;
  prediction.device[Category::workspace] = 99;
  prediction.device[Category::activations] = 5;
  prediction.host[Category::workspace] = 40;

  const std::string text = memory_table(prediction, device, host);
  const std::string same = line_with(text, {"device", "parameters"});
  CHECK_THAT(same, ContainsSubstring("8,000") && !ContainsSubstring("differs"));
  const std::string other = line_with(text, {"device", "workspace"});
  CHECK_THAT(other, ContainsSubstring(" 99 ") && ContainsSubstring(" 100 ") &&
                        ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"device", "activations"}), ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"host", "workspace"}),
             ContainsSubstring(" 40") && !ContainsSubstring("differs"));
  CHECK(line_with(text, {"gradients"}) == "none");  // neither predicted nor used
}

TEST_CASE("the communication table has a line for each axis, with the bytes of its size") {
  const TrafficKey gradient = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey tensor = {Purpose::activation, Collective::all_reduce, Axis::tensor};
  const TrafficKey sent = {Purpose::activation, Collective::send, Axis::pipeline};
  const TrafficKey tied = {Purpose::gradient, Collective::all_reduce, Axis::embedding};
  const ProcessGrid grid = {2, 1, 1, 4};
  Prediction prediction;
  prediction.step[gradient] = {1, 8000};
  prediction.step[tensor] = {2, 4000};
  prediction.step[sent] = {1, 500};
  // Moved by all ranks of a collective's group: 2 (N-1) times the payload; by this one's sends.
  const TrafficEntries communicated = {{gradient, {10, 80'000, 0, 0.01, 0.01, {14 * 80'000}}},
                                       {tensor, {20, 40'000, 0, 0.02, 0.02, {6 * 40'000}}},
                                       {sent, {10, 6000, 0, 0.03, 0.03, {6000}}},
                                       {tied, {10, 1000, 0, 0.04, 0.04, {2 * 1000}}}};
  const auto table = [&](const TrafficEntries& entries) {
    return communication_table(prediction, entries, grid, 10, 1, {8});
  };
  const std::string text = table(communicated);
  CHECK_THAT(text, !ContainsSubstring("hidden time is no gain"));
  CHECK_THAT(line_with(text, {"  gradient all_reduce "}),
             ContainsSubstring(" 14,000 ") && !ContainsSubstring("-") &&
                 ContainsSubstring(" 1.00 "));  // 2 x 7/8
  CHECK_THAT(line_with(text, {"  tensor activation all_reduce "}),
             ContainsSubstring(" 6,000 ") && !ContainsSubstring("differs"));  // 2 x 3/4
  CHECK_THAT(line_with(text, {"  pipeline activation send "}), ContainsSubstring(" 500 ") &&
                                                                   ContainsSubstring(" 600 ") &&
                                                                   ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"  embedding gradient all_reduce "}),
             ContainsSubstring(" - ") && ContainsSubstring(" 100 ") &&
                 ContainsSubstring("differs"));  // 2 x 1/2
  // Columns stay columns, however long a name.
  const auto end_of = [&](const char* word) {
    const std::string line = line_with(text, {word});
    return line.size();
  };
  CHECK(end_of("communication, a step") == end_of("tensor activation"));

  const TrafficEntries hidden = {{gradient, {10, 80'000, 0, 0.05, 0.01, {14 * 80'000}}}};
  CHECK_THAT(line_with(table(hidden), {"gradient all_reduce"}),
             ContainsSubstring(" 1.00 ") && ContainsSubstring(" 4.00"));
  // What was predicted and never came has a line too; control traffic nobody predicts.
  CHECK_THAT(
      line_with(table(hidden), {"  tensor activation all_reduce "}),
      ContainsSubstring(" 6,000 ") && ContainsSubstring(" 0 ") && ContainsSubstring("differs"));
  const TrafficEntries control = {{{Purpose::control, Collective::all_reduce}, {20, 160}}};
  CHECK_THAT(line_with(table(control), {"control all_reduce"}), !ContainsSubstring("differs"));
  CHECK_THAT(communication_table(prediction, hidden, {}, 10, 1, {1}),
             ContainsSubstring("none, one rank"));
  CHECK_THAT(communication_table(prediction, hidden, grid, 10, 100'000, {8}),
             ContainsSubstring("hidden time is no gain"));
}

TEST_CASE("the communication table says what went between machines, if anything did") {
  const TrafficKey gradient = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey weights = {Purpose::parameter, Collective::all_gather};
  const ProcessGrid grid = {.data_size = 4};
  Prediction prediction;
  prediction.step[gradient] = {1, 8000};
  prediction.step[weights] = {1, 4000};
  const Traffic summed = {.calls = 10, .payload_bytes = 80'000, .moved = {6 * 80'000, 160'000}};
  const Traffic gathered = {.calls = 10, .payload_bytes = 40'000, .moved = {3 * 40'000}};
  const std::string text =
      communication_table(prediction, {{gradient, summed}, {weights, gathered}}, grid, 10, 1, {2});
  CHECK_THAT(line_with(text, {"communication, a step"}), ContainsSubstring("measured between"));
  CHECK_THAT(line_with(text, {"gradient all_reduce"}),  // 2 (M - 1) / M of two ranks' 8,000
             ContainsSubstring(" 12,000 ") && ContainsSubstring(" 4,000 ") &&
                 !ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"parameter all_gather"}),
             ContainsSubstring(" 3,000 ") && ContainsSubstring(" 0 "));
  CHECK_THAT(communication_table(prediction, {{weights, gathered}}, grid, 10, 1, {2}),
             !ContainsSubstring("measured between"));
}

// Two ranks on each of two machines, in a grid of two pipeline stages. Two buffers of 4,000 bytes:
// of one the machines add up all that they have, of the other each pair of ranks exchanges a part.
TEST_CASE("the communication table predicts what goes between machines, if it knows how") {
  const TrafficKey gradient = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey tied = {Purpose::gradient, Collective::all_reduce, Axis::embedding};
  const TrafficKey sent = {Purpose::activation, Collective::send, Axis::pipeline};
  const ProcessGrid grid = {.pipeline_size = 2, .data_size = 2};
  Prediction prediction;
  for (const TrafficKey& key : {gradient, tied, sent}) prediction.step[key] = {1, 4000};
  const auto table = [&](const std::vector<size_t>& machine_of, size_t between, bool encoded) {
    const Traffic summed = {
        .calls = 1, .payload_bytes = 4000, .moved = {24'000, between}, .encoded = encoded};
    const Traffic of_two = {.calls = 1, .payload_bytes = 4000, .moved = {8000, 8000}};
    const Traffic of_one = {.calls = 1, .payload_bytes = 4000, .moved = {4000, 4000}};
    return communication_table(prediction, {{gradient, summed}, {tied, of_two}, {sent, of_one}},
                               grid, 1, 1, {2, machine_of});
  };
  const std::string text = table({0, 0, 1, 1}, 8000, false);
  CHECK_THAT(line_with(text, {"communication, a step"}), ContainsSubstring("predicted between"));
  CHECK_THAT(line_with(text, {"  gradient all_reduce", " 2,000            2,000 "}),
             !ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"embedding gradient", " 4,000            4,000 "}),
             !ContainsSubstring("differs"));
  CHECK_THAT(line_with(text, {"activation send", " 4,000            4,000 "}),
             !ContainsSubstring("differs"));
  // 8 of 16 pairs exchange a quarter, and then each machine gets the other's half.
  CHECK_THAT(line_with(table({0, 0, 1, 1}, 12'000, true), {"  gradient all_reduce"}),
             ContainsSubstring(" 3,000            3,000 ") && !ContainsSubstring("differs"));
  CHECK_THAT(line_with(table({0, 0, 1, 1}, 12'000, false), {"  gradient all_reduce"}),
             ContainsSubstring(" 2,000            3,000 ") && ContainsSubstring("differs"));
  // The stages of a pipeline are on one machine, so nothing should have left it.
  CHECK_THAT(line_with(table({0, 1, 0, 1}, 8000, false), {"activation send"}),
             ContainsSubstring(" 0            4,000 ") && ContainsSubstring("differs"));
  CHECK_THAT(line_with(table({}, 8000, false), {"  gradient all_reduce"}),
             ContainsSubstring(" -            2,000 ") && !ContainsSubstring("differs"));
}

// The first stage of three sends to its own machine and to another one.
TEST_CASE("the communication table predicts no sends that may go either way") {
  const TrafficKey sent = {Purpose::activation, Collective::send, Axis::pipeline};
  Prediction prediction;
  prediction.step[sent] = {1, 4000};
  const TrafficEntries entries = {{sent, {.calls = 1, .payload_bytes = 4000, .moved = {4000, 10}}}};
  const std::string text =
      communication_table(prediction, entries, {.pipeline_size = 3}, 1, 1, {2, {0, 0, 1}});
  CHECK_THAT(line_with(text, {"activation send"}),
             ContainsSubstring(" -               10 ") && !ContainsSubstring("differs"));
}

// The calls are as predicted; the bytes that have moved are not.
TEST_CASE("the communication table shows what has moved, not what the calls say") {
  const TrafficKey gradient = {Purpose::gradient, Collective::all_reduce};
  const TrafficKey sent = {Purpose::activation, Collective::send, Axis::pipeline};
  const ProcessGrid grid = {.pipeline_size = 3};
  Prediction prediction;
  prediction.step[gradient] = {1, 1000};
  prediction.step[sent] = {2, 500};
  const auto table = [&](size_t moved_by_all, size_t moved_by_this_rank, bool by_formula = false) {
    return communication_table(prediction,
                               {{gradient, {10, 10'000, 0, 0, 0, {moved_by_all}, by_formula}},
                                {sent, {20, 5000, 0, 0, 0, {moved_by_this_rank}, by_formula}}},
                               grid, 10, 1, {3});
  };
  // 2 x 2/3 of 1000 bytes, which is no whole number.
  const std::string good = table(40'000, 5000);
  CHECK_THAT(line_with(good, {"gradient all_reduce", " 1,333            1,333 "}),
             !ContainsSubstring("differs") && !ContainsSubstring("none"));
  CHECK_THAT(line_with(good, {"pipeline activation send", " 500              500 "}),
             !ContainsSubstring("differs") && !ContainsSubstring("none"));
  const std::string repeated = table(80'000, 10'000);
  CHECK_THAT(line_with(repeated, {"gradient all_reduce"}),
             ContainsSubstring(" 1,333            2,667 ") && ContainsSubstring("differs"));
  CHECK_THAT(line_with(repeated, {"pipeline activation send"}),
             ContainsSubstring(" 500            1,000 ") && ContainsSubstring("differs"));
  // By a single element on a single rank in a single step.
  CHECK_THAT(line_with(table(40'004, 5000), {"gradient all_reduce"}), ContainsSubstring("differs"));
  const std::string nccl = table(0, 0, true);
  CHECK_THAT(line_with(nccl, {"gradient all_reduce"}), ContainsSubstring(" 1,333 ") &&
                                                           ContainsSubstring("by formula") &&
                                                           !ContainsSubstring("differs"));
}

RunConfig nano_run() {
  RunConfig config;
  config.model_name = "nano";
  config.model = find_preset("nano").config;
  config.micro_batch_size = 4;
  config.threads = 1;
  return config;
}

TEST_CASE("out of memory: all categories, who asked, what to try") {
  Memory device(DeviceType::cpu, "device", 7 << 20);
  const Tensor parameters(device, Category::parameters, DType::fp32, {1 << 18});
  Prediction prediction;
  prediction.device[Category::parameters] = 1 << 20;
  prediction.device[Category::optimizer] = 5 << 20;
  RunConfig config = nano_run();
  std::string text;
  try {
    const Tensor moments(device, Category::optimizer, DType::fp64, {1 << 20});  // 8 MiB
  } catch (const OutOfMemory& error) {
    text = out_of_memory_text(error, config, prediction);
    config.dtype = DType::fp64;
    config.micro_batch_size = 1;
    const std::string small = out_of_memory_text(error, config, prediction);
    CHECK_THAT(small,
               ContainsSubstring("--dtype fp32") && !ContainsSubstring("--micro-batch-size"));
    // Activations aside, it does not fit either: their size is not to blame.
    config.micro_batch_size = 4;
    prediction.device[Category::gradients] = 1 << 20;
    prediction.device[Category::activations] = 1 << 20;
    CHECK_THAT(out_of_memory_text(error, config, prediction),
               !ContainsSubstring("--micro-batch-size"));
    CHECK_THAT(out_of_memory_text(error, config, prediction), !ContainsSubstring("--recompute"));
    // Activations are most of it, and are not computed again yet.
    prediction.device[Category::activations] = 64 << 20;
    CHECK_THAT(out_of_memory_text(error, config, prediction),
               ContainsSubstring("--recompute block"));
    config.recompute = parse_recompute("mlp");
    CHECK_THAT(out_of_memory_text(error, config, prediction), !ContainsSubstring("--recompute"));
  }
  REQUIRE_FALSE(text.empty());
  for (Category category : kCategories) {
    const std::string line = line_with(text, {std::string(name_of(category))});
    CAPTURE(line);
    CHECK(line != "none");
    CHECK((line.find("no room") != std::string::npos) == (category == Category::optimizer));
  }
  CHECK_THAT(line_with(text, {"parameters"}), ContainsSubstring(human_bytes(1 << 20)));
  CHECK_THAT(line_with(text, {"optimizer"}), ContainsSubstring(human_bytes(5 << 20)));
  CHECK_THAT(line_with(text, {"total"}), ContainsSubstring(human_bytes(1 << 20)) &&
                                             ContainsSubstring(human_bytes(6 << 20)) &&
                                             ContainsSubstring("of " + human_bytes(7 << 20)));
  for (const char* hint : {"--micro-batch-size than 4", "--model", "--device-memory", "ranks"}) {
    CHECK_THAT(text, ContainsSubstring(hint));
  }
  CHECK_THAT(text, !ContainsSubstring("--dtype"));  // it is fp32 already
}

TEST_CASE("the header says what will run and what it needs") {
  NeededMemory needed;
  needed.device[Category::parameters] = 3 << 20;
  needed.device[Category::gradients] = 1 << 20;
  RunConfig config = nano_run();
  const Corpus corpus = Corpus::king_james();
  const std::string text = header_text({"00_test", "Tests."}, config, {}, corpus, needed, "");
  CHECK_THAT(text, ContainsSubstring("00_test: Tests."));
  CHECK_THAT(
      line_with(text, {"model"}),
      ContainsSubstring("nano: 2 layers, 2 heads, hidden 32, vocabulary 256, sequence length 32") &&
          ContainsSubstring(with_commas(describe(config.model).num_parameters()) + " parameters"));
  CHECK_THAT(line_with(text, {"batch"}),
             ContainsSubstring("16 sequences a step, 4 micro-batches of 4; 512 tokens"));
  CHECK_THAT(line_with(text, {"device"}), ContainsSubstring("cpu, fp32, 1 thread"));
  CHECK_THAT(line_with(text, {"data"}), ContainsSubstring(corpus.name()));
  CHECK_THAT(line_with(text, {"memory"}),
             ContainsSubstring(human_bytes(4 << 20) + " predicted: parameters " +
                               human_bytes(3 << 20) + ", gradients " + human_bytes(1 << 20)) &&
                 !ContainsSubstring("workspace"));
  CHECK(line_with(text, {"  host  "}) == "none");

  CHECK(line_with(text, {"family"}) == "none");
  RunConfig llama = config;
  llama.model = find_preset("llama-3.2-1b").config;
  CHECK_THAT(
      line_with(header_text({"00_test", "Tests."}, llama, {}, corpus, needed, ""), {"family"}),
      ContainsSubstring("key-value-heads 8, norm rmsnorm, positions rotary, rope-theta "
                        "5e+05, rope-scaling llama3:32,1,4,8192, mlp swiglu, biases none"));

  CHECK(line_with(text, {"trained"}) == "none");
  RunConfig frozen = config;  // a block of C = 32 has 12 C^2 + 13 C, and the final norm 2 C
  frozen.model.frozen = frozen_names(config.model, "last-1");
  CHECK(
      line_with(header_text({"00_test", "Tests."}, frozen, {}, corpus, needed, ""), {"trained"}) ==
      "  trained  --train last-1: 12,768 of 34,688 parameters (36.8 %)");

  RunConfig least = config;
  least.model.num_layers = least.model.num_heads = least.model.sequence_length = 1;
  least.global_batch_size = least.micro_batch_size = 1;
  const std::string ones = header_text({"00_test", "Tests."}, least, {}, corpus, needed, "");
  CHECK_THAT(line_with(ones, {"model"}), ContainsSubstring(": 1 layer, 1 head, hidden"));
  CHECK_THAT(line_with(ones, {"batch"}),
             ContainsSubstring("1 sequence a step, 1 micro-batch of 1; 1 token a step"));

  needed.device[Category::parameters] = 0;
  needed.host[Category::optimizer] = 2 << 20;
  needed.host[Category::workspace] = 1 << 20;
  const std::string offloaded = header_text({"00_test", "Tests."}, config, {}, corpus, needed, "");
  CHECK_THAT(
      line_with(offloaded, {"  memory "}),
      ContainsSubstring(human_bytes(1 << 20) + " predicted: gradients " + human_bytes(1 << 20)));
  CHECK_THAT(line_with(offloaded, {"  host  "}),
             ContainsSubstring(human_bytes(3 << 20) + " predicted: optimizer " +
                               human_bytes(2 << 20) + ", workspace " + human_bytes(1 << 20)));

  needed.device_rank = 3;
  CHECK_THAT(
      line_with(header_text({"00_test", "Tests."}, config, {}, corpus, needed, ""), {"  memory "}),
      ContainsSubstring(
          human_bytes(1 << 20) +
          " predicted for rank 3 (ranks differ, and this one needs the most): gradients "));
}

}  // namespace
}  // namespace ladder
