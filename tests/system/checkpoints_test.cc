// Checkpoints of whole runs: what resumes goes on as if it had never stopped, on any layout; a run
// that dies leaves only complete checkpoints; bad ones are refused.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>
#include <utility>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/indexes.h"
#include "tests/sample.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kShort = {"--model",
                      "nano",
                      "--layers",
                      "4",
                      "--heads",
                      "4",
                      "--evaluate-every",
                      "2",
                      "--sample",
                      "0",
                      "--threads",
                      "1",
                      "--evaluate-batches",
                      "1",
                      "--global-batch-size",
                      "12"};

struct Layout {
  std::string lesson;
  size_t num_ranks;
  Flags flags = {};

  ProcessResult run(const Flags& more, const ProcessOptions& options) const {
    const Flags argv = Flags{lesson_path(lesson)} + kShort + flags + more;
    return num_ranks == 1 ? run_process(argv, options) : run_ranks(num_ranks, argv, options);
  }
};

const Layout kSingle = {"01_single_gpu", 1};
const Layout kThreeD = {
    "09_3d_parallel", 8, {"--tensor-parallel-size", "2", "--pipeline-parallel-size", "2"}};

std::string bytes_of(const fs::path& path) {
  REQUIRE(fs::exists(path));
  return read_text(path);
}

std::string padded(int step, size_t digits) {
  const std::string number = std::to_string(step);
  return std::string(digits - number.size(), '0') + number;
}
std::string dump(int step) { return concat("step_", padded(step, 6), ".safetensors"); }
std::string checkpoint(int step) { return concat("c/step_", padded(step, 8)); }

// Runs five steps with a checkpoint after each, goes back to the one after step 2, and goes on.
// Fails the test unless steps 3 to 5 have the same bits.
void check_resumes_bitwise(const Layout& layout, const Flags& flags = {}) {
  CAPTURE(layout.lesson, layout.flags, flags);
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = flags + Flags{"--steps", "5", "--checkpoint", "c"};
  require_success(layout.run(run + Flags{"--checkpoint-every", "1", "--dump", "whole"}, options));
  for (int step : {3, 4, 5}) fs::remove_all(folder.path() / checkpoint(step));
  const ProcessResult resumed = layout.run(run + Flags{"--resume", "--dump", "resumed"}, options);
  require_success(resumed);
  CHECK_THAT(resumed.out, ContainsSubstring("resumed  after step 2 from c/step_00000002"));
  CHECK_THAT(resumed.out, !ContainsSubstring("changed"));
  CHECK_THAT(resumed.out, !ContainsSubstring("differs"));
  CHECK_FALSE(fs::exists(folder.path() / "resumed" / dump(2)));
  for (int step : {3, 4, 5}) {
    INFO("step " << step);
    CHECK(bytes_of(folder.path() / "resumed" / dump(step)) ==
          bytes_of(folder.path() / "whole" / dump(step)));
  }
}

TEST_CASE("every lesson resumes with the bits of the run that never stopped") {
  testing::Sample sample(2);
  check_resumes_bitwise(kSingle);
  for (const char* lesson :
       {"02_ddp", "03_zero1", "04_zero2", "05_zero3", "06_offload", "07_tensor_parallel",
        "08_pipeline_parallel", "10_mixed_precision", "13_sequence_parallel", "14_context_parallel",
        "16_pipeline_schedules"}) {
    if (sample.takes()) check_resumes_bitwise({lesson, 2});
  }
  check_resumes_bitwise(kThreeD);
  check_resumes_bitwise({"09_3d_parallel", 4, {"--pipeline-parallel-size", "2"}},
                        {"--zero-stage", "1"});
  check_resumes_bitwise({"06_offload", 2},
                        {"--zero-stage", "3", "--offload", "optimizer,parameters"});
}

TEST_CASE("every dtype resumes with the same bits, fp16 with its loss scale in motion") {
  check_resumes_bitwise({"05_zero3", 3}, {"--dtype", "fp64"});
  check_resumes_bitwise({"05_zero3", 3}, {"--dtype", "bf16"});
  check_resumes_bitwise(kThreeD, {"--dtype", "bf16"});
  check_resumes_bitwise({"10_mixed_precision", 2}, {"--dtype", "bf16", "--no-master-weights"});
  // It overflows in the first steps, and doubles after two good ones.
  const Flags fp16 = {"--dtype",      "fp16", "--initial-scale",     "16777216",
                      "--hysteresis", "2",    "--loss-scale-window", "2"};
  check_resumes_bitwise({"10_mixed_precision", 2}, fp16);
}

TEST_CASE("on a device, and while training goes on") {
  const std::string device = device_name();
  if (!device.empty()) {
    check_resumes_bitwise({"05_zero3", 2}, {"--device", device});
    check_resumes_bitwise({"06_offload", 2}, {"--device", device, "--checkpoint-async"});
  }
  check_resumes_bitwise({"05_zero3", 2}, {"--checkpoint-async"});
  check_resumes_bitwise(kThreeD, {"--checkpoint-async"});
}

TEST_CASE("writing checkpoints changes no bit of the run") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--steps", "3", "--dump", "without"}, options));
  require_success(kSingle.run(
      {"--steps", "3", "--dump", "with", "--checkpoint", "c", "--checkpoint-every", "1"}, options));
  for (int step : {1, 2, 3}) {
    CHECK(bytes_of(folder.path() / "with" / dump(step)) ==
          bytes_of(folder.path() / "without" / dump(step)));
  }
}

// Each takes two steps and goes on with the next; lesson 01 takes all steps without a stop. In fp64
// nothing but the order of sums differs, so the last dump agrees as those of all layouts do.
TEST_CASE("any layout goes on with the checkpoint of any other") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const std::vector<Layout> layouts = {{"02_ddp", 4},
                                       {"05_zero3", 3},
                                       kThreeD,
                                       {"06_offload", 2},
                                       {"08_pipeline_parallel", 3},
                                       {"07_tensor_parallel", 4},
                                       {"13_sequence_parallel", 2},
                                       {"14_context_parallel", 4, {"--context-parallel-size", "2"}},
                                       {"16_pipeline_schedules", 2, {"--schedule", "zb-v"}},
                                       kSingle,
                                       {"10_mixed_precision", 2, {"--zero-stage", "1"}}};
  // The learning rate is the same in all steps, so --steps decides nothing else.
  const Flags run = {
      "--dtype",        "fp64", "--learning-rate", "1e-3", "--min-learning-rate", "1e-3",
      "--warmup-steps", "0"};
  int step = 0;
  for (const Layout& layout : layouts) {
    step += 1;
    const std::string steps = std::to_string(step);
    const ProcessResult result =
        layout.run(run + Flags{"--steps", steps, "--checkpoint", "c", "--resume", "--keep", "2",
                               "--dump", "chain"},
                   options);
    require_success(result);
    if (step == 1) continue;
    CHECK_THAT(result.out, ContainsSubstring(concat("resumed  after step ", step - 1)));
    CHECK_THAT(result.out, ContainsSubstring("changed  layout"));
  }
  require_success(
      kSingle.run(run + Flags{"--steps", std::to_string(step), "--dump", "whole"}, options));
  for (int s = 1; s <= step; ++s) {
    check_equal_dumps("chain/" + dump(s), "whole/" + dump(s), "1e-11", options);
  }
  CHECK(fs::exists(folder.path() / checkpoint(step - 1)));
  CHECK_FALSE(fs::exists(folder.path() / checkpoint(step - 2)));  // --keep 2
}

TEST_CASE("metrics go on where the checkpoint was made, each step once") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = {"--steps",   "5",       "--checkpoint",  "c",    "--resume",
                     "--metrics", "m.jsonl", "--tensorboard", "board"};
  require_success(kSingle.run(run + Flags{"--checkpoint-every", "2"}, options));
  const auto losses = [&] {
    std::vector<std::pair<int, double>> found;
    std::istringstream lines(read_text(folder.path() / "m.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      found.emplace_back(json["step"], json["loss"]);
    }
    return found;
  };
  const auto whole = losses();
  REQUIRE(whole.size() == 5);
  fs::remove_all(folder.path() / checkpoint(4));
  fs::remove_all(folder.path() / checkpoint(5));
  require_success(kSingle.run(run, options));
  CHECK(losses() == whole);
  // A fresh run would mix its curve with this one.
  const ProcessResult fresh = kSingle.run({"--steps", "1", "--tensorboard", "board"}, options);
  check_user_error(fresh, {"--tensorboard board", "has the event file"});
}

TEST_CASE("a mistyped --checkpoint leaves the curves, and a run killed early begins them anew") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = {"--resume", "--metrics", "m", "--tensorboard", "board", "--checkpoint"};
  require_success(kSingle.run(run + Flags{"c", "--steps", "2"}, options));
  const std::vector<std::string> files = folder.files();
  const std::string metrics = read_text(folder.path() / "m");
  check_user_error(kSingle.run(run + Flags{"typo", "--steps", "3"}, options),
                   {"--metrics m", "curves of an earlier run", "--checkpoint typo"});
  CHECK(folder.files() == files);
  CHECK(read_text(folder.path() / "m") == metrics);
  // The disk is full when the first checkpoint is due; the next run has nothing to resume from.
  const Flags again = {"--resume", "--metrics", "m2", "--tensorboard", "board2", "--checkpoint",
                       "c2",       "--steps",   "2"};
  const ProcessResult full =
      kSingle.run(again, {.folder = folder.path(), .file_size_limit = size_t{100'000}});
  CHECK(full.status == 1);
  const std::string early = read_text(folder.path() / "m2");
  CHECK(std::ranges::count(early, '\n') == 2);
  require_success(kSingle.run(again, options));
  CHECK(std::ranges::count(read_text(folder.path() / "m2"), '\n') == 2);
}

TEST_CASE("a --checkpoint that names another run's checkpoints leaves this run's curves") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto curves = [](const std::string& name) {
    return Flags{"--resume", "--metrics", "m" + name, "--tensorboard", "board" + name};
  };
  // The two differ in nothing but their files.
  for (const std::string name : {"1", "2"}) {
    require_success(kSingle.run(
        curves(name) + Flags{"--checkpoint", "c" + name, "--steps", "2", "--checkpoint-every", "1"},
        options));
  }
  fs::remove_all(folder.path() / "c1/step_00000002");
  const std::vector<std::string> files = folder.files();
  const std::string metrics = read_text(folder.path() / "m2");
  const Flags wrong = {"--resume", "--checkpoint", "c1", "--steps", "3"};
  const std::string why = "the curves of another run than the one that wrote the checkpoint";
  check_user_error(kSingle.run(wrong + Flags{"--metrics", "m2"}, options), {"--metrics m2", why});
  check_user_error(kSingle.run(wrong + Flags{"--tensorboard", "board2"}, options),
                   {"--tensorboard board2", why});
  CHECK(folder.files() == files);
  CHECK(read_text(folder.path() / "m2") == metrics);
  require_success(kSingle.run(wrong + curves("1"), options));
  const Flags anew = curves("3") + Flags{"--checkpoint", "c1", "--steps", "4"};
  require_success(kSingle.run(anew, options));
}

TEST_CASE("a checkpoint that cannot be removed is named, and the run goes on") {
  const Scratch folder;
  const Flags run = {"--checkpoint", "c", "--checkpoint-every", "1", "--resume"};
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run(run + Flags{"--steps", "2"}, options));
  folder.write(checkpoint(1) + "/notes", "precious");
  fs::create_directory(folder.path() / "c/step_00000001_backup");
  for (const Flags& way : {Flags{"--steps", "3"}, Flags{"--steps", "4", "--checkpoint-async"}}) {
    const ProcessResult result = kSingle.run(run + way + Flags{"--keep", "1"}, options);
    require_success(result);
    CHECK_THAT(result.out, ContainsSubstring(concat("  --keep 1: stays: ", checkpoint(1),
                                                    ": \"notes\" in it is no part of a")));
  }
  CHECK(fs::exists(folder.path() / checkpoint(1) / "notes"));
  CHECK_FALSE(fs::exists(folder.path() / checkpoint(3)));
  CHECK(fs::exists(folder.path() / checkpoint(4)));
  CHECK(fs::exists(folder.path() / "c/step_00000001_backup"));
}

TEST_CASE("an output that lies in the checkpoint that is resumed from is refused") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(kSingle.run({"--checkpoint", "c", "--steps", "2"}, options));
  const std::string file = checkpoint(2) + "/rank_0000.safetensors",
                    before = bytes_of(folder.path() / file);
  check_user_error(
      kSingle.run({"--checkpoint", "c", "--resume", "--steps", "3", "--trace", file}, options),
      {"--trace " + file, "lies in the checkpoint"});
  CHECK(bytes_of(folder.path() / file) == before);
  check_user_error(
      kSingle.run({"--checkpoint", checkpoint(2), "--resume", "--steps", "3"}, options),
      {"--checkpoint " + checkpoint(2), "is a checkpoint"});
}

TEST_CASE("a loss scale that cannot be is refused") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags run = {"--dtype", "fp16", "--checkpoint", "c", "--resume", "--steps"};
  const Layout mixed = {"10_mixed_precision", 1};
  require_success(mixed.run(run + Flags{"1"}, options));
  const fs::path index = folder.path() / checkpoint(1) / "checkpoint.json";
  const auto whole = nlohmann::json::parse(read_text(index));
  const std::pair<const char*, nlohmann::json> bad[] = {{"loss_scale.scale", -1.0},
                                                        {"loss_scale.scale", 1e300},
                                                        {"loss_scale.scale", 1},
                                                        {"loss_scale.good_steps", -1},
                                                        {"loss_scale.skips_at_minimum", 20},
                                                        {"loss_scale.overflows_left", INT64_MIN}};
  for (const auto& [name, value] : bad) {
    CAPTURE(name, value);
    nlohmann::json json = whole;
    REQUIRE(json["scalars"].contains(name));
    json["scalars"][name] = value;
    std::ofstream(index) << sealed(json);
    check_user_error(mixed.run(run + Flags{"2"}, options),
                     {"--checkpoint " + checkpoint(1), concat("scalar ", name, " has another")});
  }
  std::ofstream(index) << sealed(whole);
  require_success(mixed.run(run + Flags{"2"}, options));
}

// A token shard of zeros, in llm.c's format.
std::string token_shard(uint16_t num_tokens) {
  std::string shard(256 * sizeof(int32_t) + num_tokens * sizeof(uint16_t), '\0');
  const int32_t begin[] = {20240520, 1, num_tokens};
  std::memcpy(shard.data(), begin, sizeof begin);
  return shard;
}

TEST_CASE("what differs from the run that wrote the checkpoint is said, a line each") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const Flags to = {"--checkpoint", "c", "--resume"};
  const ProcessResult first = kSingle.run(to + Flags{"--steps", "1"}, options);
  require_success(first);
  CHECK_THAT(first.out, ContainsSubstring("resumed  nothing: the folder has no checkpoint yet\n"));
  const ProcessResult same = kSingle.run(to + Flags{"--steps", "1"}, options);
  require_success(same);
  CHECK_THAT(same.out, ContainsSubstring("resumed  nothing is left to train\n"));
  const ProcessResult changed =
      kSingle.run(to + Flags{"--steps", "2", "--learning-rate", "0.25", "--seed", "7", "--dtype",
                             "bf16", "--data", folder.write("other.bin", token_shard(9000))},
                  options);
  require_success(changed);
  for (const char* line : {"changed  --learning-rate 0.25, was 0.002\n",
                           "changed  --seed 7, was 1\n", "changed  --dtype bf16, was fp32\n",
                           "changed  --steps 2, was 1: another learning rate from here\n",
                           "changed  --data 9000 tokens with hash ",
                           "changed  vocabulary a tokenizer's, was bytes\n"}) {
    CHECK_THAT(changed.out, ContainsSubstring(line));
  }
}

TEST_CASE("flags that only one lesson has are compared, too") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto resume = [&](const std::string& lesson, const Flags& flags) {
    const ProcessResult result = Layout{lesson, 1}.run(
        Flags{"--steps", "1", "--checkpoint", "c", "--resume"} + flags, options);
    require_success(result);
    return result.out;
  };
  const std::string lesson = "12_gradient_compression";
  resume(lesson, {"--compression", "int8", "--block-size", "64"});
  CHECK_THAT(resume(lesson, {"--compression", "int8", "--block-size=64"}),
             !ContainsSubstring("changed"));
  CHECK_THAT(resume(lesson, {"--compression", "powersgd", "--no-overlap", "--keep", "5"}),
             ContainsSubstring("changed  --block-size not given, was 64\n"
                               "  changed  --compression powersgd, was int8\n"
                               "  changed  --no-overlap true, was not given\n") &&
                 !ContainsSubstring("--keep"));
  CHECK_THAT(resume("01_single_gpu", {}),
             ContainsSubstring("changed  --compression (no flag of 01_single_gpu), was int8\n"));
  CHECK_THAT(resume("10_mixed_precision", {"--loss-scale", "8", "--reduce-dtype", "bf16"}),
             ContainsSubstring("changed  --loss-scale 8, was not given\n"
                               "  changed  --reduce-dtype bf16, was not given\n"));
}

// Fails the test unless resuming is refused in one line with these words, and the folder stays as
// it is.
void check_resume_refused(const Scratch& folder, const std::vector<std::string>& mentions,
                          const Flags& flags = {}, const std::string& steps = "3") {
  const std::vector<std::string> before = folder.files();
  const Layout ddp = {"02_ddp", 2};
  const ProcessResult result =
      ddp.run(Flags{"--steps", steps, "--checkpoint", "c", "--resume"} + flags,
              {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
  check_user_error(result, mentions);
  CHECK(folder.files() == before);
}

TEST_CASE("a damaged checkpoint is refused by the name of the file, and nothing is lost") {
  const Scratch folder;
  const Layout ddp = {"02_ddp", 2};
  require_success(ddp.run({"--steps", "2", "--checkpoint", "c"}, {.folder = folder.path()}));
  const fs::path whole = folder.path() / checkpoint(2);
  const auto text_of = [&](const char* name) { return read_text(whole / name); };
  const std::string rank = text_of("rank_0001.safetensors"), index = text_of("checkpoint.json");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(whole / name, std::ios::binary) << text;
  };
  const auto refuse = [&](const std::string& file, const std::string& why) {
    check_resume_refused(folder, {"--checkpoint c/step_00000002/" + file, why});
  };

  std::string flipped = rank;
  flipped[flipped.size() - 5] ^= 4;
  write("rank_0001.safetensors", flipped);
  refuse("rank_0001.safetensors", "checksum");
  write("rank_0001.safetensors", rank.substr(0, rank.size() - 100));
  refuse("rank_0001.safetensors", "");
  write("rank_0001.safetensors", "");
  refuse("rank_0001.safetensors", "");
  fs::remove(whole / "rank_0001.safetensors");
  refuse("rank_0001.safetensors", "No such file");
  write("rank_0001.safetensors", rank);
  write("rank_0002.safetensors", rank);
  refuse("rank_0002.safetensors", "does not belong to this checkpoint of 2 ranks");
  fs::remove(whole / "rank_0002.safetensors");

  std::string other = index;
  other[other.find("\"updates\":2") + 10] = '3';
  write("checkpoint.json", other);
  refuse("checkpoint.json", "damaged");
  write("checkpoint.json", index.substr(0, index.size() / 2));
  refuse("checkpoint.json", "JSON");
  other = index;
  other[other.find("\"version\": 1") + 11] = '2';
  write("checkpoint.json", other);
  refuse("checkpoint.json", "version 2 of the format");
  fs::remove(whole / "checkpoint.json");
  refuse("checkpoint.json", "No such file");
  write("checkpoint.json", index);

  check_resume_refused(folder, {"another model", "--vocab 256", "--vocab 300"}, {"--vocab", "300"});
  check_resume_refused(folder, {"beyond --steps 1"}, {}, "1");
  fs::rename(whole, folder.path() / checkpoint(3));
  check_resume_refused(folder, {checkpoint(3), "the index says step 2"});
  fs::rename(folder.path() / checkpoint(3), folder.path() / "elsewhere");
  fs::create_directory_symlink(folder.path() / "elsewhere", whole);
  check_resume_refused(folder, {checkpoint(2), "is a link"});
  fs::remove(whole);
  fs::rename(folder.path() / "elsewhere", whole);
  require_success(
      ddp.run({"--steps", "3", "--checkpoint", "c", "--resume"}, {.folder = folder.path()}));
}

TEST_CASE("a folder that cannot take checkpoints is refused before training") {
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  const auto refuse = [&](const Flags& flags, const std::vector<std::string>& mentions) {
    check_user_error(kSingle.run(Flags{"--steps", "1"} + flags, options), mentions);
  };
  folder.write("file", "");
  refuse({"--checkpoint", "file"}, {"--checkpoint file", "is a file"});
  fs::create_directory_symlink("nowhere", folder.path() / "link");
  refuse({"--checkpoint", "link"}, {"--checkpoint link", "is a link"});
  refuse({"--checkpoint", "link/"}, {"--checkpoint link", "is a link"});
  refuse({"--checkpoint", "file/c"}, {"--checkpoint file/c"});
  refuse({"--checkpoint", ""}, {"--checkpoint"});
  refuse({"--resume"}, {"--resume", "--checkpoint"});
  refuse({"--checkpoint-every", "2"}, {"--checkpoint-every", "--checkpoint"});
  require_success(kSingle.run({"--steps", "1", "--checkpoint", "c"}, options));
  refuse({"--checkpoint", "c"}, {"--checkpoint c", "has checkpoints", "--resume"});
}

TEST_CASE("a full disk ends the run, and the checkpoints before it stay") {
  const Scratch folder;
  const Flags run = {"--checkpoint", "c", "--resume"};
  require_success(kSingle.run(run + Flags{"--steps", "1"}, {.folder = folder.path()}));
  // After the last step nobody looks back at what is written in the background but its end.
  for (const Flags& way :
       {Flags{"--checkpoint-every", "1"}, Flags{"--checkpoint-every", "1", "--checkpoint-async"},
        Flags{"--checkpoint-async"}}) {
    const ProcessResult full =
        kSingle.run(run + way + Flags{"--steps", "3"},
                    {.folder = folder.path(), .file_size_limit = size_t{100'000}});
    CAPTURE(full.out, full.err);
    CHECK(full.status == 1);
    CHECK_THAT(full.err, StartsWith("error: --checkpoint c/.unfinished.partial-") &&
                             ContainsSubstring("write failed"));
    CHECK(fs::exists(folder.path() / checkpoint(1)));
    CHECK_FALSE(fs::exists(folder.path() / checkpoint(2)));
    CHECK_FALSE(fs::exists(folder.path() / checkpoint(3)));
  }
  require_success(kSingle.run(run + Flags{"--steps", "3"}, {.folder = folder.path()}));
  CHECK(fs::exists(folder.path() / checkpoint(3)));
}

// How many runs the test kills. The whole proof, 200 of them, takes minutes: set LADDER_KILLS=200.
int num_kills() {
  const char* const kills = std::getenv("LADDER_KILLS");
  return kills == nullptr ? 6 : std::atoi(kills);
}

// Whether the newest checkpoint in the folder is another one than `before`, which it then becomes.
bool is_newer(const fs::path& checkpoints, std::string& before) {
  std::string newest;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(checkpoints, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step_")) newest = std::max(newest, name);
  }
  return std::exchange(before, newest) != newest;
}

// Runs `layout` and kills all of its processes at the same time, so many milliseconds after the
// start or, if `waits`, after it has written a checkpoint. They are found by the path of the
// folder, which is in their flags.
ProcessResult run_and_kill(const Layout& layout, const Flags& flags, const Scratch& folder,
                           std::chrono::milliseconds moment, bool waits) {
  std::string newest;
  is_newer(folder.path() / "c", newest);
  std::atomic<bool> has_ended = false;
  std::thread killer([&] {
    while (waits && !has_ended && !is_newer(folder.path() / "c", newest)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(moment);
    run_process({"pkill", "-KILL", "-f", folder.path().string()});
  });
  const ProcessResult result = layout.run(flags, {.folder = folder.path()});
  has_ended = true;
  killer.join();
  // Rank 0 keeps the folder locked until it is gone.
  const fs::path checkpoints = folder.path() / "c";
  if (fs::exists(checkpoints)) run_process({"flock", "--timeout", "30", checkpoints, "true"});
  return result;
}

TEST_CASE("killed at any moment, a run leaves complete checkpoints and goes on to the same bits") {
  const Layout zero = {"05_zero3", 2};
  const Scratch folder;
  const std::string path = folder.path() / "c";
  const Flags run = {"--steps", "40", "--dump", "dump"};
  require_success(zero.run(run, {.folder = folder.path()}));
  const fs::path last = folder.path() / "dump/step_000040.safetensors";
  const std::string expected = bytes_of(last);
  fs::remove(last);
  std::mt19937 random(1);
  const Flags safe =
      run + Flags{"--checkpoint", path, "--checkpoint-every", "1", "--resume", "--keep", "3"};
  // A run that ends before it would be killed counts as ended only.
  int num_killed = 0, num_resumed = 0, num_ended = 0;
  while (num_killed < num_kills() || num_ended == 0) {
    const Flags way = random() % 2 == 0 ? Flags{} : Flags{"--checkpoint-async"};
    // However slow the machine is, the last run that is killed has left a checkpoint.
    const bool is_last = num_killed >= num_kills();
    const bool waits = random() % 3 != 0 || num_killed + 1 == num_kills();
    const std::chrono::milliseconds moment(random() % (waits ? 200 : 1200));
    INFO("run " << num_killed + num_ended << ", killed after " << moment.count() << " ms"
                << (waits ? " and a checkpoint" : ""));
    const ProcessResult result = is_last ? zero.run(safe + way, {.folder = folder.path()})
                                         : run_and_kill(zero, safe + way, folder, moment, waits);
    CAPTURE(result.out, result.err);
    num_resumed += result.out.find("resumed  after step") != std::string::npos;
    CHECK(result.status != 2);  // nothing was found damaged
    REQUIRE((result.status == 0 || !is_last));
    ++(result.status == 0 ? num_ended : num_killed);
    if (result.status != 0) continue;
    CHECK(bytes_of(last) == expected);
    fs::remove(last);
    fs::remove_all(path);
  }
  INFO(num_killed << " killed, " << num_resumed << " resumed, " << num_ended << " ended");
  CHECK(num_resumed > 0);
}

TEST_CASE("two runs cannot write to one folder") {
  const Scratch folder;
  const std::string program =
      lesson_path("01_single_gpu") + " --model nano --checkpoint c --steps ";
  // The first run trains for much longer than the second takes to start.
  const std::string both =
      concat(program, "100000 > out & while [ ! -s out ]; do sleep 0.05; done; ", program,
             "1; status=$?; kill $!; wait $!; exit $status");
  check_user_error(run_process({"bash", "-c", both}, {.folder = folder.path()}),
                   {"--checkpoint c", "another run is writing there"});
}

}  // namespace
}  // namespace ladder
