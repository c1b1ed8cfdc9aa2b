// Which layouts ranks choose: by examples, and compared with what the trainers accept.
#include "lessons/17_elastic/layout_choice.h"

#include <CLI/CLI.hpp>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "lessons/07_tensor_parallel/slices.h"
#include "lessons/08_pipeline_parallel/plan.h"
#include "lessons/17_elastic/trainer.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// Nano has two heads; here are six heads and three blocks, which divide in several ways.
RunConfig config_of(size_t global_batch_size, size_t micro_batch_size = 0) {
  RunConfig config;
  config.model = {
      .num_layers = 3, .num_heads = 6, .hidden = 24, .vocab_size = 256, .sequence_length = 8};
  config.global_batch_size = global_batch_size;
  config.micro_batch_size = micro_batch_size;
  return config;
}

TEST_CASE("as many ranks as possible train, and split the model as was asked for if they can") {
  const auto chosen = [](size_t num_ranks, size_t tensor, size_t pipeline, size_t batch = 24,
                         size_t micro_batch = 0) {
    const ProcessGrid wished = {.pipeline_size = pipeline, .tensor_size = tensor};
    return layout_text(choose_layout(config_of(batch, micro_batch), wished, num_ranks));
  };
  CHECK(chosen(4, 1, 1) == "data=4");
  CHECK(chosen(3, 1, 1) == "data=3");
  CHECK(chosen(5, 1, 1) == "data=4");  // 24 sequences do not divide among 5: one rank is idle
  CHECK(chosen(7, 1, 1) == "data=6");
  CHECK(chosen(1, 1, 1) == "data=1");
  CHECK(chosen(3, 1, 1, 16) == "data=2");
  CHECK(chosen(4, 1, 1, 24, 8) == "data=3");  // micro-batches of 8 sequences are three
  CHECK(chosen(8, 2, 2) == "data=2,pipeline=2,tensor=2");
  CHECK(chosen(7, 2, 2) == "data=3,tensor=2");  // six ranks; pipeline=2 alone would also make six
  CHECK(chosen(5, 2, 2) == "pipeline=2,tensor=2");  // of those with four ranks
  CHECK(chosen(4, 2, 1) == "data=2,tensor=2");
  CHECK(chosen(3, 2, 1) == "data=3");  // tensor=2 would leave one idle
  CHECK(chosen(2, 2, 1) == "tensor=2");
  CHECK(chosen(3, 6, 1) == "tensor=3");  // a divisor of what was asked for
  CHECK(chosen(1, 6, 2) == "data=1");
}

TEST_CASE("a layout can train exactly if the flags and both trainers accept it") {
  const size_t micro_batch = GENERATE(0, 1, 4);
  const RunConfig config = config_of(24, micro_batch);
  Options options(ElasticTrainer::kLesson.info, [](FlagTable&) {});
  std::vector<const char*> argv = {
      "17_elastic",          "--model", "nano", "--layers", "3", "--heads", "6", "--hidden", "24",
      "--global-batch-size", "24"};
  const std::string size = concat(micro_batch);
  if (micro_batch > 0) argv.insert(argv.end(), {"--micro-batch-size", size.c_str()});
  REQUIRE(options.parse(static_cast<int>(argv.size()), argv.data()).empty());
  size_t num_accepted = 0, num_refused = 0;
  for (size_t tensor = 1; tensor <= 7; ++tensor) {
    for (size_t pipeline = 1; pipeline <= 7; ++pipeline) {
      for (size_t data = 1; data <= 25; ++data) {
        const ProcessGrid layout = {
            .pipeline_size = pipeline, .data_size = data, .tensor_size = tensor};
        CAPTURE(layout_text(layout));
        bool accepted = true;
        try {
          const RunConfig resolved = options.resolve(layout);
          ThreeDTrainer::plan({}, resolved, layout);
        } catch (const UserError&) {
          accepted = false;
        }
        CHECK(can_train(config, layout) == accepted);
        ++(accepted ? num_accepted : num_refused);
      }
    }
  }
  CHECK(num_accepted > 40);
  CHECK(num_refused > 400);
}

TEST_CASE("planted failures are read from text and written as text") {
  const auto parsed = [](const std::string& text) {
    CLI::App app;
    FlagTable flags(app);
    std::vector<Failure> failures;
    add_failures(flags, failures);
    app.parse("--fail " + text);
    return failures;
  };
  CHECK(parsed("2@30") == std::vector<Failure>{{2, 30}});
  CHECK(parsed("0@1,13@200") == std::vector<Failure>{{0, 1}, {13, 200}});
  CHECK(to_text(parsed("0@1,13@200")) == "0@1,13@200");
  CHECK(to_text(std::vector<Failure>()).empty());
  for (const char* const bad : {"2", "2@", "@3", "2@0", "-1@2", "2@30,", ",2@30", "2@3@4", "2 @3",
                                "9999999999@1", "1@9999999999"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parsed(std::string("'") + bad + "'"), CLI::ValidationError);
  }
}

}  // namespace
}  // namespace ladder
