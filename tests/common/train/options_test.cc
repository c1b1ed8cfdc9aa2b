// The command line of every lesson.
#include "common/train/flags/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "common/io/text.h"
#include "common/model/published_config.h"
#include "common/train/flags/flag_table.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/threads.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

constexpr LessonInfo kLesson = {
    .name = "00_test", .description = "Tests flags.", .is_distributed = false};

// What Options::parse() returns for the flags of `line`.
std::string parse_line(Options& options, const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  std::vector<const char*> argv = {"00_test"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return options.parse(static_cast<int>(argv.size()), argv.data());
}

// The flags that `line` gives, on so many ranks.
RunConfig parse_with(
    const std::string& line, const ProcessGrid& grid,
    const std::function<void(FlagTable&)>& add_flags = [](FlagTable&) {}) {
  Options options(kLesson, add_flags);
  const std::string asked =
      parse_line(options, line);  // outside of CHECK, which keeps what it throws
  CHECK(asked.empty());
  return options.resolve(grid);
}

RunConfig parse(const std::string& line, size_t data_size = 1) {
  return parse_with(line, {.data_size = data_size});
}

// The default micro-batch of a pipeline of `num_stages` stages.
size_t pipeline_micro_batch(size_t global_batch_size, size_t num_stages) {
  const std::string line = concat("--global-batch-size ", global_batch_size);
  return parse_with(line, {.pipeline_size = num_stages}).micro_batch_size;
}

TEST_CASE("a pipeline's default micro-batch makes about four micro-batches a stage") {
  CHECK(pipeline_micro_batch(16, 1) == 16);
  CHECK(pipeline_micro_batch(16, 2) == 2);
  CHECK(pipeline_micro_batch(16, 4) == 1);
  CHECK(pipeline_micro_batch(4, 8) == 1);
  CHECK(pipeline_micro_batch(96, 4) == 6);
  CHECK(pipeline_micro_batch(60, 4) == 3);
  CHECK(pipeline_micro_batch(58, 4) == 2);  // 3 does not divide
}

// What is said to the user; it must be one line.
std::string fault(const std::string& line, size_t data_size = 1) {
  try {
    parse(line, data_size);
  } catch (const UserError& error) {
    const std::string text = error.what();
    CHECK(text.find('\n') == std::string::npos);
    return text;
  }
  return "nothing";
}

TEST_CASE("--round-logits wants 16 bits, and a rank with the whole vocabulary") {
  CHECK(parse("--dtype bf16 --round-logits").round_logits);
  CHECK_FALSE(parse("--dtype bf16").round_logits);
  CHECK_THROWS_WITH(parse("--round-logits"), ContainsSubstring("only --dtype bf16 and fp16"));
  CHECK_THROWS_WITH(parse_with("--dtype bf16 --round-logits", {.tensor_size = 2}),
                    ContainsSubstring("--round-logits: with tensor parallelism"));
}

TEST_CASE("--train freezes what it does not name, of the model that the other flags give") {
  using Names = std::vector<std::string>;
  CHECK(parse("").model.frozen.empty());
  CHECK(parse("--train all").model == parse("").model);
  CHECK(parse("--train last-1").model.frozen == Names{"wte", "wpe", "h.0", "h.1", "h.2"});
  CHECK(parse("--train last-4 --layers 5").model.frozen == Names{"wte", "wpe", "h.0"});
  CHECK(parse("--model nano-llama --train last-1 --untied").model.frozen ==
        Names{"embed_tokens", "layers.0", "lm_head"});
  CHECK(parse("--model nano --train bias").model.frozen.size() == 2 + 2 * 6 + 1);
  CHECK(fault("--train last-5") == "--train last-5: the model has 4 blocks; take last-1 to last-4");
  CHECK_THAT(fault("--model tiny-llama --train bias"), StartsWith("--train bias: "));
  CHECK_THAT(fault("--train lor"),
             StartsWith("--train lor: expected all, bias, head, lora or last-K"));
  CHECK_THAT(fault("--train"), StartsWith("--train"));
}

TEST_CASE("--train lora adds adapters as the other flags say, and trains them alone") {
  const ModelConfig usual = parse("--train lora").model;
  CHECK(usual.lora == LoraConfig{.rank = 8, .alpha = 16, .targets = {"attn.c_attn"}});
  CHECK(usual.frozen.size() == 2 + 4 * 12 + 1);
  CHECK(parse("--model nano-llama --train lora --lora-rank 2 --lora-alpha 0.5 --lora-targets "
              "v_proj,down --lora-scale rslora")
            .model.lora == LoraConfig{.rank = 2,
                                      .alpha = 0.5,
                                      .scale = LoraScale::rslora,
                                      .targets = {"self_attn.v_proj", "mlp.down_proj"}});
  for (const std::string flag :
       {"--lora-rank 8", "--lora-alpha 16", "--lora-targets qkv", "--lora-scale standard"}) {
    const std::string name = flag.substr(0, flag.find(' '));
    CHECK(fault(flag) == name + ": goes with --train lora");
    CHECK(fault("--train last-1 " + flag) == name + ": goes with --train lora");
  }
  CHECK_THAT(fault("--train lora --lora-rank 0"), StartsWith("--lora-rank: '0' is not"));
  CHECK_THAT(fault("--train lora --lora-rank 129"), StartsWith("--lora-rank 129: attn.c_attn has"));
  CHECK_THAT(fault("--train lora --lora-alpha -1"), StartsWith("--lora-alpha: "));
  CHECK_THAT(fault("--train lora --lora-targets gate"), StartsWith("--lora-targets gate: 'gate'"));
  CHECK_THAT(fault("--train lora --lora-scale half"), StartsWith("--lora-scale"));
}

TEST_CASE("--objective masked samples nothing, and wants whole sequences and our own attention") {
  CHECK(parse("").model.objective == Objective::causal);
  CHECK(parse("--objective causal").model == parse("").model);
  CHECK_FALSE(parse("").masking());
  const RunConfig masked = parse("--objective masked --vocab 300");
  CHECK(masked.model.objective == Objective::masked);
  CHECK(masked.masking()->mask_token() == 299);
  CHECK(masked.sample_tokens == 0);
  CHECK_THAT(fault("--objective bidirectional"), StartsWith("--objective"));
  CHECK_THAT(fault("--objective masked --sample 10"),
             StartsWith("--sample: a model of --objective"));
  CHECK_THAT(fault("--objective masked --prompt In"),
             StartsWith("--prompt: a model of --objective"));
  CHECK(parse("--objective masked --sample 0").sample_tokens == 0);
  CHECK_THROWS_WITH(parse_with("--objective masked", {.context_size = 2}),
                    StartsWith("--objective masked: ranks that share sequences"));
  CHECK_THROWS_WITH(parse("--objective masked --attention-kernel cudnn --dtype bf16"),
                    ContainsSubstring("--attention-kernel cudnn: with --objective masked nobody"));
}

TEST_CASE("--attention-kernel cudnn wants a GPU, whole sequences and a real clock") {
  CHECK(parse("--attention-kernel own").attention_kernel == AttentionKernel::own);
  CHECK_THROWS_WITH(parse("--attention-kernel flash"),
                    ContainsSubstring("--attention-kernel flash: expected own or cudnn"));
  const std::string cudnn = "--attention-kernel cudnn --dtype bf16 ";
  CHECK_THROWS_WITH(parse(cudnn + "--device cpu"), ContainsSubstring("--attention-kernel cudnn: "));
  CHECK_THROWS_WITH(parse_with(cudnn, {.context_size = 2}),
                    ContainsSubstring("--attention-kernel cudnn: cuDNN has no attention of some"));
  CHECK_THROWS_WITH(parse(cudnn + "--device virtual --cluster h100"),
                    ContainsSubstring("--attention-kernel cudnn: nobody has measured"));
}

std::string config_file(const std::string& content) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/options_test.ini";
  std::ofstream(path) << content;
  return path;
}

TEST_CASE("the defaults are a tiny model, 200 steps of 16 sequences") {
  const RunConfig config = parse("");
  CHECK(config.model_name == "tiny");
  CHECK(config.model.num_layers == 4);
  CHECK(config.model.num_heads == 4);
  CHECK(config.model.hidden == 128);
  CHECK(config.model.vocab_size == 256);
  CHECK(config.model.sequence_length == 128);
  CHECK(config.data.empty());
  CHECK(config.init.empty());
  CHECK(config.global_batch_size == 16);
  CHECK(config.micro_batch_size == 16);
  CHECK(config.num_micro_batches(1) == 1);
  CHECK(config.tokens_per_step() == 16 * 128);
  CHECK(config.seed == 1);
  CHECK(config.optimizer.num_steps == 200);
  CHECK(config.optimizer.warmup_steps == 10);
  CHECK(config.optimizer.learning_rate == 2e-3);
  CHECK(config.optimizer.min_learning_rate == 2e-4);
  CHECK(config.optimizer.beta1 == 0.9);
  CHECK(config.optimizer.beta2 == 0.95);
  CHECK(config.optimizer.epsilon == 1e-8);
  CHECK(config.optimizer.weight_decay == 0.1);
  CHECK(config.optimizer.clip_norm == 1);
  CHECK(config.evaluate_every == 50);
  CHECK(config.evaluate_batches == 4);
  CHECK(config.sample_tokens == 256);
  CHECK(config.temperature == 0.8);
  CHECK(config.top_k == 40);
  CHECK(config.dtype == DType::fp32);
  CHECK(config.device == DeviceType::cpu);
  CHECK(config.threads == default_num_threads(1));
  CHECK(config.device_memory == 0);
  CHECK(config.host_memory == 0);
  CHECK(config.dump.empty());
  CHECK(config.metrics.empty());
  CHECK(config.peak_flops == 0);
}

TEST_CASE("a preset brings shape, learning rate and sample; flags go before it") {
  const RunConfig preset = parse("--model gpt2-xl");
  CHECK(preset.model.num_layers == 48);
  CHECK(preset.model.vocab_size == 50257);
  CHECK(preset.optimizer.learning_rate == 2e-4);
  CHECK(preset.optimizer.min_learning_rate == 2e-5);
  CHECK(preset.sample_tokens == 32);

  const RunConfig config = parse(
      "--layers 3 --heads 5 --hidden 35 --vocab 999 --sequence-length 77 --model nano "
      "--learning-rate 0.5 --sample 9 --steps 40");
  CHECK(config.model.num_layers == 3);
  CHECK(config.model.num_heads == 5);
  CHECK(config.model.hidden == 35);
  CHECK(config.model.vocab_size == 999);
  CHECK(config.model.sequence_length == 77);
  CHECK(config.optimizer.learning_rate == 0.5);
  CHECK(config.optimizer.min_learning_rate == 0.05);
  CHECK(config.optimizer.warmup_steps == 2);
  CHECK(config.sample_tokens == 9);
}

TEST_CASE("a model of --init has the name of the preset with its blocks, or its own") {
  const TestFolder folder;
  const auto init_of = [&](const ModelConfig& model) {
    folder.write("config.json", published_config(model, {}));
    return "--sample 0 --init " + folder.path();
  };
  for (const char* name : {"nano", "gpt2", "llama-2-7b", "llama-3-8b", "llama-3-70b"}) {
    CHECK(parse(init_of(find_preset(name).config)).model_name == name);
  }
  ModelConfig other = find_preset("llama-3-8b").config;
  other.vocab_size = 256;
  CHECK(parse(init_of(other)).model_name == "llama-3-8b");
  other.rope_theta = 1e6;
  CHECK(parse(init_of(other)).model_name == "of --init");
  other.rope_theta = 5e5;
  other.experts = {.num_experts = 4, .per_token = 2, .every = 1};
  CHECK(fault(init_of(other)) ==
        concat("--init ", folder.path(), " has experts; take 15_expert_parallel"));
  CHECK(fault("--model mixtral-8x7b") ==
        "--model mixtral-8x7b has experts; take 15_expert_parallel");
}

TEST_CASE("OMP_NUM_THREADS is the default of --threads, and no more") {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const std::string before = given == nullptr ? "" : given;
  setenv("OMP_NUM_THREADS", "3", 1);
  CHECK(parse("").threads == 3);
  CHECK(parse("--threads 2").threads == 2);
  setenv("OMP_NUM_THREADS", "many", 1);
  CHECK_THROWS_AS(parse(""), UserError);
  CHECK(parse("--threads 2").threads == 2);
  given == nullptr ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", before.c_str(), 1);
}

TEST_CASE("every flag arrives") {
  const RunConfig config = parse(
      "--data a.txt --init b.safetensors --global-batch-size 24 --micro-batch-size 4 --seed 0 "
      "--min-learning-rate 0 --warmup-steps 0 --weight-decay 0 --beta1 0 --beta2 0.5 --epsilon 1 "
      "--clip-norm 0 --evaluate-every 0 --evaluate-batches 7 --temperature 0 --top-k 0 --dump d "
      "--metrics m --peak-flops 1e12 --dtype fp64 --device cpu --threads 3 --device-memory 64MiB "
      "--host-memory 1GiB");
  CHECK(config.data == "a.txt");
  CHECK(config.init == "b.safetensors");
  CHECK(config.global_batch_size == 24);
  CHECK(config.micro_batch_size == 4);
  CHECK(config.num_micro_batches(1) == 6);
  CHECK(config.num_micro_batches(3) == 2);
  CHECK(config.seed == 0);
  CHECK(config.optimizer.min_learning_rate == 0);
  CHECK(config.optimizer.warmup_steps == 0);
  CHECK(config.optimizer.weight_decay == 0);
  CHECK(config.optimizer.beta1 == 0);
  CHECK(config.optimizer.beta2 == 0.5);
  CHECK(config.optimizer.epsilon == 1);
  CHECK(config.optimizer.clip_norm == 0);
  CHECK(config.evaluate_every == 0);
  CHECK(config.evaluate_batches == 7);
  CHECK(config.temperature == 0);
  CHECK(config.top_k == 0);
  CHECK(config.dump == "d");
  CHECK(config.metrics == "m");
  CHECK(config.peak_flops == 1e12);
  CHECK(config.dtype == DType::fp64);
  CHECK(config.threads == 3);
  CHECK(config.device_memory == size_t{64} << 20);
  CHECK(config.host_memory == size_t{1} << 30);
}

TEST_CASE("a config file reads the same names; the command line goes before it") {
  const std::string path = config_file("model = nano\nsteps = 7\ndtype = \"fp64\"\n");
  const RunConfig config = parse("--steps 9 --config " + path);
  CHECK(config.model_name == "nano");
  CHECK(config.optimizer.num_steps == 9);
  CHECK(config.dtype == DType::fp64);

  const std::string unknown = fault("--config " + config_file("stepz = 7\n"));
  CHECK_THAT(unknown, ContainsSubstring("stepz"));
  const std::string bad = fault("--config " + config_file("steps = -7\n"));
  CHECK_THAT(bad, ContainsSubstring("steps") && ContainsSubstring("-7"));
  CHECK_THAT(fault("--config no/such/file.ini"), ContainsSubstring("no/such/file.ini"));
}

TEST_CASE("the global batch divides among ranks and micro-batches") {
  CHECK(parse("--global-batch-size 24", 3).micro_batch_size == 8);
  CHECK(parse("--global-batch-size 24 --micro-batch-size 2", 3).num_micro_batches(3) == 4);
  CHECK(fault("", 3) == "--global-batch-size 16 does not divide among 3 ranks");
  CHECK(parse("", 64).global_batch_size == 64);
  CHECK(parse("", 64).micro_batch_size == 1);
  CHECK(fault("--global-batch-size 16", 64) ==
        "--global-batch-size 16 does not divide among 64 ranks");
  CHECK(fault("--micro-batch-size 3") ==
        "--micro-batch-size 3 does not divide --global-batch-size 16");
  CHECK(fault("--global-batch-size 24 --micro-batch-size 12", 3) ==
        "--micro-batch-size 12 does not divide the 8 sequences of a rank (--global-batch-size 24 "
        "over 3 ranks)");
  CHECK(fault("--micro-batch-size 32") != "nothing");
  // Where ranks are arranged on several axes, not all of them share it.
  const auto on_axes = [](const std::string& line) {
    return parse_with(line, {.pipeline_size = 2, .data_size = 3});
  };
  CHECK_THROWS_WITH(on_axes(""),
                    "--global-batch-size 16 does not divide among 3 data-parallel ranks (of 6)");
  CHECK_THROWS_WITH(on_axes("--global-batch-size 24 --micro-batch-size 12"),
                    ContainsSubstring("over 3 data-parallel ranks (of 6))"));
}

TEST_CASE("a bad value is named with its flag") {
  const auto [flag, value] =
      GENERATE(table<std::string, std::string>({{"--layers", "0"},
                                                {"--layers", "-1"},
                                                {"--heads", "1.5"},
                                                {"--hidden", "x"},
                                                {"--vocab", "1e400"},
                                                {"--sequence-length", "0x10"},
                                                {"--global-batch-size", "0"},
                                                {"--micro-batch-size", "-4"},
                                                {"--steps", "99999999999999999999"},
                                                {"--seed", "-1"},
                                                {"--learning-rate", "0"},
                                                {"--learning-rate", "nan"},
                                                {"--learning-rate", "inf"},
                                                {"--min-learning-rate", "-1e-9"},
                                                {"--warmup-steps", "-1"},
                                                {"--weight-decay", "-0.1"},
                                                {"--beta1", "1"},
                                                {"--beta2", "1.5"},
                                                {"--epsilon", "0"},
                                                {"--clip-norm", "-1"},
                                                {"--clip-norm", "nan"},
                                                {"--evaluate-every", "-1"},
                                                {"--evaluate-batches", "0"},
                                                {"--sample", "-1"},
                                                {"--temperature", "-0.5"},
                                                {"--top-k", "-1"},
                                                {"--peak-flops", "0"},
                                                {"--dtype", "fp8"},
                                                {"--device", "tpu"},
                                                {"--threads", "0"},
                                                {"--device-memory", "0"},
                                                {"--device-memory", "-1MiB"},
                                                {"--device-memory", "lots"},
                                                {"--recompute", "every-0"},
                                                {"--host-memory", "1XiB"},
                                                {"--model", "gpt5"}}));
  const std::string text = fault(concat(flag, " ", value));
  CHECK_THAT(text, ContainsSubstring(flag) && ContainsSubstring(value));
}

TEST_CASE("--recompute takes the name of a mode") {
  CHECK(parse("").recompute.name == "none");
  CHECK(parse("").recompute.dropped.none());
  CHECK(parse("--recompute every-3").recompute.group_size == 3);
  CHECK(parse("--recompute=mlp").recompute.dropped == parse_recompute("mlp").dropped);
}

TEST_CASE("sizes have units") {
  const auto size = [](const std::string& text) {
    return parse("--device-memory " + text).device_memory;
  };
  CHECK(size("1") == 1);
  CHECK(size("4096") == 4096);
  CHECK(size("3KiB") == 3072);
  CHECK(size("2gib") == size_t{2} << 30);
  CHECK(size("4EiB") == size_t{1} << 62);
  for (const std::string wrong : {"0", "-1", "-18446744073709551000", "-1MiB", "1XiB", "5EiB",
                                  "99999999999999999999", "MiB", "1.5MiB"}) {
    CHECK(fault("--device-memory " + wrong) ==
          concat("--device-memory: '", wrong,
                 "' is not a size such as 64MiB, from 1 byte to 4 EiB; see --help"));
  }
}

TEST_CASE("what does not go together is named with both values") {
  CHECK(fault("--heads 3 --hidden 128") == "--heads 3 does not divide --hidden 128");
  CHECK(fault("--learning-rate 1e-3 --min-learning-rate 0.01") ==
        "--min-learning-rate 0.01 is above --learning-rate 0.001");
  CHECK(fault("--steps 10 --warmup-steps 11") == "--warmup-steps 11 is more than --steps 10");
  CHECK(parse("--steps 10 --warmup-steps 10").optimizer.warmup_steps == 10);
}

TEST_CASE("devices are those of the build") {
  CHECK(parse("--device cpu").device == DeviceType::cpu);
  const DeviceType other = cuda_device_of_build();
  const bool usable = num_devices(other) > 0;
  CHECK(parse("").device == (usable && other == DeviceType::cuda ? other : DeviceType::cpu));
  const std::string name(name_of(other));
  if (usable) {
    CHECK(parse("--device " + name).device == other);
    CHECK(parse("--dtype bf16 --device " + name).device == other);
  } else {
    CHECK_THAT(fault("--device " + name), ContainsSubstring("no usable GPU"));
  }
  const std::string missing = other == DeviceType::cuda ? "emulator" : "cuda";
  CHECK_THAT(fault("--device " + missing),
             ContainsSubstring("--device " + missing + ":") && ContainsSubstring("use"));
}

TEST_CASE("--communication is for several ranks and for devices") {
  const auto communication = [](std::vector<const char*> argv) {
    argv.insert(argv.begin(), "00_test");
    Options options({"00_test", "Tests flags."}, [](FlagTable&) {});
    options.parse(static_cast<int>(argv.size()), argv.data());
    options.resolve({});
    return options.connection().communication;
  };
  CHECK(communication({}) == "auto");
  CHECK(communication({"--communication", "auto"}) == "auto");
  CHECK_THROWS_WITH(communication({"--communication", "smoke"}),
                    ContainsSubstring("--communication smoke: expected auto, nccl or staged"));
  CHECK_THROWS_WITH(
      communication({"--communication", "nccl", "--device", "cpu"}),
      ContainsSubstring("--communication nccl") && ContainsSubstring("the device is the cpu"));
  CHECK_THAT(fault("--communication nccl"), ContainsSubstring("--communication"));
  if (cuda_device_of_build() != DeviceType::emulator) return;
  CHECK(communication({"--device", "emulator", "--communication", "nccl"}) == "nccl");
  CHECK(communication({"--device", "emulator", "--communication", "staged"}) == "staged");
}

TEST_CASE("unknown flags, missing values and stray words are errors") {
  CHECK_THAT(fault("--stepz 5"), ContainsSubstring("--stepz"));
  CHECK_THAT(fault("--steps"), ContainsSubstring("--steps"));
  CHECK_THAT(fault("nano"), ContainsSubstring("nano"));
  CHECK_THAT(fault("--steps 5 --steps 6"), ContainsSubstring("--steps"));
}

// What check_distinct() compares, so a file that is missing here may be written over.
TEST_CASE("a run knows the files that its flags name, in the order of the flags") {
  using Files = std::vector<std::pair<std::string, std::string>>;
  const auto files_of = [](const std::string& line) {
    Options options(kLesson, [](FlagTable&) {});
    parse_line(options, line);
    return std::pair(options.table().files(FileUse::read), options.table().files(FileUse::written));
  };
  const auto [inputs, outputs] = files_of(
      "--init i --init-adapter a --task t --data d,e --tokenizer k --cluster c --program p "
      "--dump d --metrics m --tensorboard b --trace t --draw w --export x --checkpoint c");
  CHECK(inputs == Files{{"--init", "i"},
                        {"--init-adapter", "a"},
                        {"--task", "t"},
                        {"--data", "d,e"},
                        {"--tokenizer", "k"},
                        {"--cluster", "c"},
                        {"--program", "p"}});
  CHECK(outputs == Files{{"--dump", "d"},
                         {"--metrics", "m"},
                         {"--tensorboard", "b"},
                         {"--trace", "t"},
                         {"--draw", "w"},
                         {"--export", "x"},
                         {"--checkpoint", "c"}});
  CHECK(parse("--trace t").outputs == Files{{"--trace", "t"}});
  CHECK(parse("--data " + config_file("x")).inputs.front().first == "--data");
}

TEST_CASE("a lesson adds its own flags; help names all and sets none") {
  size_t bytes = 0;
  const auto add = [&](FlagTable& flags) { flags.add("--bucket-bytes", bytes, "A bucket"); };
  parse_with("--bucket-bytes 77", {}, add);
  CHECK(bytes == 77);

  const auto asked = [&](const char* flag) {
    const char* const argv[] = {"00_test", flag};
    return Options(kLesson, add).parse(2, argv);
  };
  const std::string help = asked("--help");
  for (const char* part : {"Tests flags.", "--bucket-bytes", "--model", "--steps", "--version"}) {
    CHECK_THAT(help, ContainsSubstring(part));
  }
  // Tests are linked without the revision.
  CHECK_THAT(asked("--version"), StartsWith("00_test\nrevision  unknown\n"));
}

}  // namespace
}  // namespace ladder
