// What a run writes for TensorBoard.
#include "common/train/report/board.h"

#include <filesystem>

#include "tests/catch.h"
#include "tests/common/io/event_records.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// All events of a folder's event files, in the order in which TensorBoard reads the files.
std::vector<ReadEvent> events_in(const TestFolder& folder, const std::string& name) {
  std::vector<ReadEvent> events;
  for (const std::string& file : folder.list(name)) {
    for (const ReadEvent& event : events_of(folder / (name + "/" + file))) events.push_back(event);
  }
  return events;
}

MetricsFile::Step step_of(int64_t step, double loss) {
  return {step, {.loss = loss}, 1, 1, std::nullopt, std::nullopt};
}

TEST_CASE("a board has every number of a step under its tag") {
  const TestFolder folder;
  Memory memory(DeviceType::cpu, "device", 0);
  { const Tensor gone(memory, Category::activations, DType::fp32, {3 << 18}); }
  const Tensor kept(memory, Category::parameters, DType::fp64, {5 << 15});
  Board board(folder / "board");
  board.describe("  model  nano\n--steps 2\n");
  CHECK(folder.list("board").empty());
  board.write({.step = 1,
               .result = {.loss = 5.5, .grad_norm = 2, .learning_rate = 1e-3},
               .step_ms = 8,
               .tokens_per_second = 4096,
               .mfu = {},
               .validation_loss = {},
               .sequences_per_second = 64,
               .exposed_ms = 2},
              memory);
  CHECK(folder.list("board").size() == 1);
  CHECK(events_in(folder, "board").size() == 4);  // each is there as soon as it is written
  board.write({.step = 2,
               .result = {.loss = 5, .grad_norm = 1, .learning_rate = 2e-3, .loss_scale = 1024},
               .step_ms = 2,
               .tokens_per_second = 1,
               .mfu = 0.25,
               .validation_loss = 4.5,
               .sequences_per_second = 1,
               .exposed_ms = 2.5},
              memory);
  board.write_sample(2, "In the beginning\n  God");
  board.finish();

  const std::vector<ReadEvent> events = events_in(folder, "board");
  REQUIRE(events.size() == 6);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[1].session == 1);
  CHECK(events[1].step == 1);
  CHECK(events[2].step == 1);
  CHECK(events[2].texts ==
        std::map<std::string, std::string>{{"run", "      model  nano\n    --steps 2\n    "}});
  CHECK(events[3].step == 1);
  CHECK(events[3].scalars == std::map<std::string, float>{{"loss/train", 5.5f},
                                                          {"optimizer/grad_norm", 2},
                                                          {"optimizer/learning_rate", 1e-3f},
                                                          {"speed/tokens_per_second", 4096},
                                                          {"speed/samples_per_second", 64},
                                                          {"speed/device_busy", 0.75f},
                                                          {"speed/exposed_ms", 2},
                                                          {"memory_MiB/parameters", 1.25},
                                                          {"memory_MiB/gradients", 0},
                                                          {"memory_MiB/optimizer", 0},
                                                          {"memory_MiB/activations", 3},
                                                          {"memory_MiB/communication", 0},
                                                          {"memory_MiB/workspace", 0}});
  CHECK(events[4].step == 2);
  CHECK(events[4].scalars.size() == 16);
  CHECK(events[4].scalars.at("optimizer/loss_scale") == 1024);
  CHECK(events[4].scalars.at("speed/mfu") == 0.25);
  CHECK(events[4].scalars.at("loss/validation") == 4.5);
  CHECK(events[4].scalars.at("speed/device_busy") == 0);  // by two clocks it waited too long
  // TensorBoard sorts groups by name: it opens on the loss.
  CHECK(events[4].scalars.begin()->first == "loss/train");
  CHECK(events[5].step == 2);
  CHECK(events[5].texts ==
        std::map<std::string, std::string>{{"sample", "    In the beginning\n      God"}});
}

// Writes steps `first` to `last` of a run that was resumed after `resumed_step`.
void write_steps(const std::string& path, int64_t resumed_step, int64_t first, int64_t last,
                 double loss, const std::string& run = "") {
  const Memory memory(DeviceType::cpu, "device", 0);
  Board board(path, resumed_step, run);
  board.describe(concat("from ", resumed_step));
  for (int64_t step = first; step <= last; ++step) board.write(step_of(step, loss), memory);
  board.finish();
}

// The points "step:loss" that TensorBoard shows: at a session's start it forgets those of steps
// from that one on.
std::vector<std::string> points_in(const TestFolder& folder, const std::string& name) {
  std::map<uint64_t, float> points;
  for (const ReadEvent& event : events_in(folder, name)) {
    if (event.session == 1) points.erase(points.lower_bound(event.step), points.end());
    if (event.scalars.empty()) continue;
    CHECK(points.emplace(event.step, event.scalars.at("loss/train")).second);
  }
  std::vector<std::string> texts;
  for (const auto& [step, loss] : points) texts.push_back(concat(step, ":", loss));
  return texts;
}

// The texts about runs, by the step before which they come.
std::map<uint64_t, std::string> runs_in(const TestFolder& folder, const std::string& name) {
  std::map<uint64_t, std::string> runs;
  for (const ReadEvent& event : events_in(folder, name)) {
    if (event.texts.contains("run")) runs[event.step] = event.texts.at("run");
  }
  return runs;
}

TEST_CASE("a resumed run adds to a board with its mark, and without one to any") {
  const TestFolder folder;
  const std::string path = folder / "board";
  write_steps(path, 0, 1, 3, 0.5, "a1");
  CHECK_THROWS_WITH(Board(path, 1, "b2"), ContainsSubstring("has the curves of another run"));
  CHECK(points_in(folder, "board").size() == 3);
  write_steps(path, 2, 3, 3, 0.25, "a1");
  write_steps(path, 2, 3, 3, 0.125);  // the checkpoint is of an older version
  CHECK_NOTHROW(Board(path, 2, "a1"));
  CHECK(points_in(folder, "board") == std::vector<std::string>{"1:0.5", "2:0.5", "3:0.125"});
}

TEST_CASE("a resumed run's points follow those up to its checkpoint, and none is there twice") {
  const TestFolder folder;
  const std::string path = folder / "board";
  write_steps(path, 0, 1, 5, 0.5);
  { const Board board(path, 3); }  // a run without a step
  CHECK(points_in(folder, "board").size() == 5);
  write_steps(path, 3, 4, 6, 0.25);
  CHECK(points_in(folder, "board") ==
        std::vector<std::string>{"1:0.5", "2:0.5", "3:0.5", "4:0.25", "5:0.25", "6:0.25"});
  CHECK(runs_in(folder, "board") ==
        std::map<uint64_t, std::string>{{1, "    from 0"}, {4, "    from 3"}});
  write_steps(path, 2, 3, 3, 0.125);  // once more, from an earlier checkpoint
  CHECK(points_in(folder, "board") == std::vector<std::string>{"1:0.5", "2:0.5", "3:0.125"});
  CHECK(runs_in(folder, "board") ==
        std::map<uint64_t, std::string>{{1, "    from 0"}, {3, "    from 2"}, {4, "    from 3"}});
  write_steps(path, 0, 1, 1, 0.75);  // it resumes, but there is no checkpoint yet
  CHECK(points_in(folder, "board") == std::vector<std::string>{"1:0.75"});
  write_steps(folder / "other", 2, 3, 3, 0.5);  // the curve begins with the resumed run
  CHECK(points_in(folder, "other") == std::vector<std::string>{"3:0.5"});
}

// The message of the UserError that --tensorboard `path` is refused with; "" if it is not.
std::string refusal(const std::string& path, std::optional<int64_t> resumed_step = {}) {
  try {
    const Board board(path, resumed_step);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a new run refuses a folder that has an event file") {
  const TestFolder folder;
  const std::string path = folder / "board";
  write_steps(path, 0, 1, 1, 0.5);
  const std::string name = folder.list("board").at(0);
  CHECK(refusal(path) ==
        concat("--tensorboard ", path, ": has the event file \"", name,
               "\" of an earlier run, whose curves would mix with this run's; remove it, name "
               "another folder, or go on with that run by --resume"));
  fs::remove(path + "/" + name);
  folder.write("board/metrics.jsonl", "");
  CHECK(refusal(path) == "");
}

TEST_CASE("a resumed run leaves all other files as they are") {
  const TestFolder folder;
  write_steps(folder / "board", 0, 1, 3, 0.5, "a1");
  folder.write("board/events.out.tfevents.1.a.1.0", "of another program");
  const std::vector<std::string> files = folder.list("board");
  std::map<std::string, std::string> before;
  for (const std::string& file : files) before[file] = text_of(folder / ("board/" + file));
  write_steps(folder / "board", 2, 3, 3, 0.25, "a1");
  for (const std::string& file : files) CHECK(text_of(folder / ("board/" + file)) == before[file]);
}

TEST_CASE("a board's folder is made where it is missing, has one run, and goes again if empty") {
  const TestFolder folder;
  {
    const Board board(folder / "a/b");
    fs::create_directory_symlink("a/b", folder / "link");
    CHECK(refusal(folder / "link") ==
          concat("--tensorboard ", folder / "link",
                 ": another run is writing there; name a folder for each"));
  }
  CHECK(folder.list() == std::vector<std::string>{"link"});
  CHECK_THAT(refusal(folder / "link"), EndsWith("it is a link that leads nowhere"));
  // Nobody, root included, makes files in /proc/self.
  for (const std::string& path : {folder / "link", folder.write("file", ""), folder / "file/below",
                                  std::string("/proc/self")}) {
    CHECK_THAT(refusal(path), StartsWith(concat("--tensorboard ", path, ": ")));
  }
  CHECK(folder.list() == std::vector<std::string>{"file", "link"});
}

TEST_CASE("a full disk is an error, and the events before it stay") {
  const TestFolder folder;
  const Memory memory(DeviceType::cpu, "device", 0);
  Board board(folder / "board");
  {
    const FullDisk full(0);
    CHECK_THROWS_WITH(board.write(step_of(1, 0.5), memory), ContainsSubstring("write failed"));
  }
  board.write(step_of(1, 0.5), memory);
  const FullDisk full(fs::file_size(folder / ("board/" + folder.list("board").back())) + 30);
  CHECK_THROWS_WITH(board.write(step_of(2, 0.5), memory), ContainsSubstring("write failed"));
  CHECK(points_in(folder, "board") == std::vector<std::string>{"1:0.5"});
}

TEST_CASE("only what ranks waited for is exposed") {
  CHECK(exposed_ms({}) == 0);
  CHECK(exposed_ms({{{Purpose::gradient, Collective::all_reduce}, {1, 8, 0, 4, 0.25}},
                    {{Purpose::control, Collective::barrier}, {1, 0, 0, 2, 0.5}}}) == 750);
}

}  // namespace
}  // namespace ladder
