// The files of runs with checkpoints: curves go on where the checkpoint was made; what is damaged,
// full or in use is refused, and nothing is lost.
#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/common/checkpoint/indexes.h"
#include "tests/system/checkpoints.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

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
  const LessonRun mixed = {"10_mixed_precision", 1};
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

// Fails the test unless resuming is refused in one line with these words, and the folder stays as
// it is.
void check_resume_refused(const Scratch& folder, const std::vector<std::string>& mentions,
                          const Flags& flags = {}, const std::string& steps = "3") {
  const std::vector<std::string> before = folder.files();
  const LessonRun ddp = {"02_ddp", 2};
  const ProcessResult result =
      ddp.run(Flags{"--steps", steps, "--checkpoint", "c", "--resume"} + flags,
              {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
  check_user_error(result, mentions);
  CHECK(folder.files() == before);
}

TEST_CASE("a damaged checkpoint is refused by the name of the file, and nothing is lost") {
  const Scratch folder;
  const LessonRun ddp = {"02_ddp", 2};
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
  check_resume_refused(folder, {"was trained with --train all, this run has --train last-3"},
                       {"--train", "last-3"});
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
