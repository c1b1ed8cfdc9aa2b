// Ranks that were not started alike: status 2 and one line that says who differs in what, before
// anything is done together, on whichever rank it is.
#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kNano = {
    "--model", "nano", "--steps", "2", "--threads", "1", "--sample", "0", "--global-batch-size",
    "6"};

// One rank of a run: a program and its flags.
Flags rank(const std::string& program, const Flags& flags) {
  return Flags{program} + kNano + flags;
}

void check_refused_run(const std::vector<Flags>& ranks, const std::vector<std::string>& mentions,
                       const Scratch& folder) {
  const ProcessResult result =
      run_each(ranks, {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
  CAPTURE(ranks);
  check_user_error(result, mentions);
  CHECK(result.out.empty());
}

// Three ranks, each in a folder of its own, 0, 1 and 2, with `text` in the file `name`; `odd` has
// `other` there, or no such file where that is empty.
void check_refused_folders(size_t odd, const std::string& name, const std::string& text,
                           const std::string& other, const std::string& lesson, const Flags& flags,
                           std::vector<std::string> mentions) {
  const Scratch folder;
  for (size_t r = 0; r < 3; ++r) {
    const std::string own = std::to_string(r);
    fs::create_directory(folder.path() / own);
    const std::string& content = r == odd ? other : text;
    if (!content.empty()) folder.write(own + "/" + name, content);
  }
  INFO("rank " << odd << " is another");
  // Rank 0 is what the others are compared with.
  mentions.push_back(concat("rank ", odd == 0 ? 1 : odd, " on "));
  const Flags in_own_folder = {"sh", "-c", "cd $OMPI_COMM_WORLD_RANK && exec \"$@\"", "sh"};
  const Flags own = in_own_folder + rank(lesson_path(lesson), flags);
  check_refused_run({own, own, own}, mentions, folder);
}

TEST_CASE("02: ranks with different flags") {
  const Scratch folder;
  const std::string program = lesson_path("02_ddp");
  const Flags outputs = {"--dump", "dump", "--metrics", "metrics.jsonl"};
  const auto check = [&](const Flags& a, const Flags& b, const std::vector<std::string>& mentions) {
    check_refused_run({rank(program, a + outputs), rank(program, b + outputs)}, mentions, folder);
  };
  check({"--seed", "3"}, {"--seed", "4"}, {"--seed: 4 on rank 1 on ", ", 3 on rank 0 on "});
  check({}, {"--naive"}, {"--naive: true on rank 1"});
  check({"--no-shared-memory"}, {}, {"--no-shared-memory: not given on rank 1"});
  check({}, {"--help"}, {"--help: asked for on rank 1"});
  check({"--help"}, {}, {"--help: not asked for on rank 1"});
  check({}, {"--version"}, {"--version: asked for on rank 1"});
  CHECK(folder.files() == std::vector<std::string>{});
}

TEST_CASE("02: ranks of different lessons and builds") {
  const Scratch folder;
  const std::string ours = lesson_path("02_ddp"), other = lesson_path("05_zero3");
  check_refused_run({rank(ours, {}), rank(other, {})},
                    {"the lesson: 05_zero3 on rank 1", "02_ddp on rank 0"}, folder);
  check_refused_run({rank(ours, {}), rank(lesson_path("01_single_gpu"), {})},
                    {"01_single_gpu runs on one rank"}, folder);
  // The same program with a byte behind its end.
  const std::string copy = folder.write("copy", read_text(ours) + "x");
  fs::permissions(copy, fs::perms::owner_all);
  check_refused_run({rank(ours, {}), rank(copy, {})},
                    {"the build of 02_ddp: ", " on rank 1 on ", " on rank 0 on "}, folder);
}

TEST_CASE("02, 05: one name, other flags in the file of --config on every rank in turn") {
  for (size_t odd : {0, 1, 2}) {
    check_refused_folders(odd, "flags.ini", "seed = 1", "seed = 2", "05_zero3",
                          {"--config", "flags.ini"}, {"--seed: "});
  }
  // These sums would be of other lengths.
  check_refused_folders(1, "flags.ini", "hidden = 32", "hidden = 64", "02_ddp",
                        {"--config", "flags.ini", "--no-shared-memory"},
                        {"--hidden: 64 on rank 1"});
  check_refused_folders(2, "flags.ini", "seed = 1", "", "02_ddp", {"--config", "flags.ini"},
                        {"flags.ini"});
}

TEST_CASE("02: one name, other data on one rank") {
  // Of the same length, with one byte in the middle that differs.
  std::string text(200'000, 'a'), other = text;
  other[100'001] = 'b';
  check_refused_folders(2, "text", text, other, "02_ddp", {"--data", "text"},
                        {"--data text: 200000 bytes with hash "});
  check_refused_folders(1, "text", text, text + "a", "02_ddp", {"--data", "text"},
                        {"--data text: 200001 bytes", "200000 bytes"});
  check_refused_folders(1, "text", text, "", "02_ddp", {"--data", "text"}, {"--data", "text"});
}

TEST_CASE("02: one name, other weights on one rank") {
  const ModelSize nano = {
      .layers = 2, .heads = 2, .hidden = 32, .sequence_length = 32, .vocab = 256};
  const std::string text = zero_weights(nano).text();
  std::string other = text;
  other[other.size() / 2] = 1;  // a number of some tensor, next to nothing
  check_refused_folders(1, "weights", text, other, "02_ddp", {"--init", "weights"},
                        {"--init weights: ", " bytes with hash "});
  check_refused_folders(2, "model.safetensors", text, other, "02_ddp", {"--init", "."},
                        {"--init ./model.safetensors: ", " bytes with hash "});
}

}  // namespace
}  // namespace ladder
