// Samples without training: from a folder of transformers and from a checkpoint, with a prompt.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

// A model that no preset has, trained for some steps, exported and in a checkpoint.
class Trained {
 public:
  Trained() {
    sample = sample_of(run(Flags{"--layers", "3", "--hidden", "24", "--heads", "3", "--vocab",
                                 "260", "--ffn", "40", "--sequence-length", "16", "--steps", "20",
                                 "--export", "out", "--checkpoint", "c"} +
                           kPrompt)
                           .out);
  }
  ProcessResult run(const Flags& flags) const {
    const ProcessResult result = run_single_gpu(flags + kSmall, options);
    require_success(result);
    return result;
  }
  ProcessResult refused(const Flags& flags) const {
    return run_single_gpu(flags + kSmall, options);
  }

  inline static const Flags kSmall = {"--sample", "40", "--threads", "1"};
  inline static const Flags kPrompt = {"--prompt", "In the beginning"};
  Scratch folder;
  ProcessOptions options = {.folder = folder.path()};
  std::string sample;
};

TEST_CASE("a model samples the same after training, from its export and from its checkpoint") {
  const Trained trained;
  CHECK_THAT(trained.sample, StartsWith("In the beginning"));
  CHECK(trained.sample.size() == 16 + 40 + 1);  // with the line's end
  const std::vector<std::string> files = trained.folder.files();
  const Flags from_export = Flags{"--init", "out", "--steps", "0"} + Trained::kPrompt;
  const ProcessResult result = trained.run(from_export);
  CHECK(sample_of(result.out) == trained.sample);
  CHECK_THAT(result.out, ContainsSubstring("3 layers, 3 heads, hidden 24, inner layer 40, "
                                           "vocabulary 260, sequence length 16"));
  const Flags from_checkpoint =
      Flags{"--layers", "3",  "--hidden",          "24", "--heads",      "3", "--vocab",  "260",
            "--ffn",    "40", "--sequence-length", "16", "--checkpoint", "c", "--resume", "--steps",
            "0"} +
      Trained::kPrompt;
  CHECK(sample_of(trained.run(from_checkpoint).out) == trained.sample);
  for (const Flags& flags : {from_export, from_checkpoint}) {
    const ProcessResult ranks =
        run_ranks(2, Flags{lesson_path("05_zero3")} + flags + Trained::kSmall, trained.options);
    require_success(ranks);
    CHECK(sample_of(ranks.out) == trained.sample);
    const ProcessResult elastic = run_process(
        Flags{lesson_path("17_elastic"), "--mpirun", mpirun_command()[0], "--ranks", "2"} + flags +
            Trained::kSmall,
        trained.options);
    require_success(elastic);
    CHECK(sample_of(elastic.out) == trained.sample);
  }
  CHECK(trained.folder.files() == files);  // nothing was written
  // Another prompt, other words; a run that trains from here has the sizes, too.
  CHECK(sample_of(trained.run({"--init", "out", "--steps", "0", "--prompt", "And"}).out) !=
        trained.sample);
  CHECK_THAT(trained.run({"--init", "out", "--steps", "1"}).out, ContainsSubstring("hidden 24"));
}

TEST_CASE("a run with the flags that another one has saved is the same run") {
  const Trained trained;
  trained.run(Flags{"--init", "out", "--steps", "0", "--save-config", "saved"} + Trained::kPrompt);
  const ProcessResult again =
      run_single_gpu({"--config", "saved", "--save-config", "again"}, trained.options);
  require_success(again);
  CHECK(sample_of(again.out) == trained.sample);
  CHECK_THAT(again.out, ContainsSubstring("\n  flags    from saved: "));
  CHECK(read_text(trained.folder.path() / "again") == read_text(trained.folder.path() / "saved"));
  check_user_error(run_single_gpu({"--config", "saved", "--save-config", "saved"}, trained.options),
                   {"--save-config saved and --config saved are the same file"});
  check_user_error(
      run_single_gpu({"--config", "saved", "--save-config", "no/such"}, trained.options),
      {"--save-config no/such"});
}

TEST_CASE("flags that disagree with the folder of --init are refused by name") {
  const Trained trained;
  const auto check_refused = [&](const Flags& flags, const std::vector<std::string>& mentions) {
    check_user_error(trained.refused(Flags{"--init", "out", "--steps", "0"} + flags), mentions);
  };
  check_refused({"--layers", "2"}, {"--init out/config.json: n_layer is 3", "--layers 2"});
  check_refused({"--ffn", "50"}, {"n_inner is 40", "--ffn 50"});
  check_refused({"--vocab", "256"}, {"vocab_size is 260", "--vocab 256"});
  check_refused({"--model", "tiny"}, {"--model tiny", "n_layer is 3"});
  check_refused({"--untied"}, {"--untied"});
  trained.run({"--init", "out", "--steps", "0", "--layers", "3", "--sequence-length", "8"});
}

TEST_CASE("what a run without steps cannot do is refused by name") {
  const Trained trained;
  for (const std::string flag :
       {"--dump", "--metrics", "--tensorboard", "--trace", "--checkpoint"}) {
    check_user_error(trained.refused({"--init", "out", "--steps", "0", flag, "new"}),
                     {flag + ": with --steps 0"});
  }
  check_user_error(trained.refused({"--steps", "0", "--checkpoint", "new", "--resume"}),
                   {"--checkpoint new: has no checkpoint"});
  check_user_error(run_single_gpu({"--prompt", "a", "--sample", "0"}, trained.options),
                   {"--prompt: --sample 0"});
  check_user_error(trained.refused({"--prompt", ""}), {"--prompt: its value is empty"});
  check_user_error(trained.refused({"--model", "nano", "--vocab", "190", "--steps", "0", "--prompt",
                                    "caf\u00e9"}),
                   {"--prompt: byte 195"});
}

TEST_CASE("a prompt for tokens that are not bytes needs their tokenizer, or has their numbers") {
  const Trained trained;
  const std::string path = trained.folder.path() / "out/tokenizer.json";
  // As if the model had been trained on tokens of a BPE.
  nlohmann::json json = nlohmann::json::parse(read_text(path));
  json["pre_tokenizer"]["use_regex"] = true;
  json["model"]["vocab"]["In"] = 256;
  json["model"]["merges"].push_back("I n");
  const std::string tokenizer = trained.folder.write("out/tokenizer.json", json.dump());
  const Flags from_export = {"--init", "out", "--steps", "0"};
  check_user_error(trained.refused(from_export + Trained::kPrompt),
                   {"--init out: its tokens are not bytes; add --tokenizer"});
  check_user_error(trained.refused(from_export), {"--init out: its tokens are not bytes"});
  const Flags with_tokenizer = from_export + Flags{"--tokenizer", tokenizer};
  const std::string text = sample_of(trained.run(with_tokenizer + Trained::kPrompt).out);
  CHECK_THAT(text, StartsWith("In the beginning"));
  CHECK(text != trained.sample);  // it begins with another token
  check_user_error(trained.refused(with_tokenizer + Flags{"--prompt", "caf\u00e9"}),
                   {"--prompt: --tokenizer", "beyond ASCII"});
  const std::string shard =
      trained.folder.write("a.bin", token_shard(std::vector<uint16_t>(1000, 7)));
  const Flags with_shards = from_export + Flags{"--data", shard};
  CHECK_THAT(sample_of(trained.run(with_shards + Flags{"--prompt", "256 32 116"}).out),
             StartsWith("256 32 116 "));
  for (const std::string prompt : {"In", "260", "-1", "1.5"}) {
    check_user_error(trained.refused(with_shards + Flags{"--prompt", prompt}),
                     {"--prompt: '" + prompt + "' is no token from 0 to 259"});
  }
}

TEST_CASE("without steps a checkpoint says what its tokens are") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  folder.write("a.bin", token_shard(std::vector<uint16_t>(1000, 7)));
  const Flags model = {"--model", "nano", "--vocab", "300", "--checkpoint", "c"};
  require_success(
      run_single_gpu(model + Flags{"--data", "a.bin", "--steps", "2", "--sample", "0"}, options));
  const ProcessResult result = run_single_gpu(
      model + Flags{"--resume", "--steps", "0", "--sample", "5", "--export", "out"}, options);
  require_success(result);
  CHECK_THAT(sample_of(result.out), Matches("([0-9]+ ){4}[0-9]+\n"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out/tokenizer.json"));
}

TEST_CASE("--save-config replaces nothing that it has not written") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  folder.write("book", "In the beginning");
  folder.write("flags", "# Flags of mine\n");
  const Flags elastic = {lesson_path("17_elastic"), "--mpirun", "false"};
  for (const Flags& program : {Flags{lesson_path("01_single_gpu"), "--steps", "1"}, elastic,
                               Flags{lesson_path("00_collectives"), "--show", "ring"},
                               Flags{lesson_path("19_planning")}}) {
    CAPTURE(program);
    check_user_error(run_process(program + Flags{"--save-config", "book"}, options),
                     {"--save-config book: is there"});
    check_user_error(
        run_process(program + Flags{"--config", "flags", "--save-config", "flags"}, options),
        {"--save-config", "flags"});
  }
  CHECK(read_text(folder.path() / "book") == "In the beginning");
  CHECK(read_text(folder.path() / "flags") == "# Flags of mine\n");
}

}  // namespace
}  // namespace ladder
