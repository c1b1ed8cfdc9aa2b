#include "lessons/17_elastic/supervisor.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>
#include <regex>
#include <string_view>

#include "common/checkpoint/folder.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "common/schedule/cut.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"
#include "common/train/trainer/guarded.h"
#include "lessons/07_tensor_parallel/slices.h"
#include "lessons/17_elastic/layout_choice.h"
#include "lessons/17_elastic/step_file.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

// What the supervisor decides for the ranks, whatever the user has said. The flags in the file of
// --config are passed on as they were read.
constexpr std::array<std::string_view, 13> kNotPassedOn = {
    "--ranks",      "--spares", "--max-restarts",         "--mpirun",
    "--fail",       "--resume", "--tensor-parallel-size", "--pipeline-parallel-size",
    "--config",     "--keep",   "--checkpoint",           "--checkpoint-every",
    "--save-config"};

void say(const std::string& text) { print("supervisor: " + text + "\n"); }

// Reads the line by which tools/mpirun says that a rank was ended by a signal.
std::optional<std::pair<size_t, int>> lost_rank(const std::string& line) {
  static const std::regex kLost(R"(error: rank (\d{1,9}) on .*: ended by signal (\d{1,3})\b.*)");
  std::smatch match;
  if (!std::regex_match(line, match, kLost)) return {};
  return std::pair(std::stoul(match[1]), std::stoi(match[2]));
}

// Returns the signal that has told the ranks to end, through this process or one of theirs, or 0.
// Such ranks save, and end by themselves.
int signal_of(const RanksEnd& end) {
  if (end.mpirun.signal != 0 || !end.lost.empty()) return end.mpirun.signal;
  const int signal = end.mpirun.status - 128;
  return std::ranges::count(std::array{SIGTERM, SIGUSR1, SIGHUP, SIGINT}, signal) > 0 ? signal : 0;
}

std::string text_of(const RanksEnd& end) {
  std::string who;
  for (size_t rank : end.lost) who += concat(who.empty() ? "rank " : " and rank ", rank);
  const std::string when = end.step == 0 ? "before the first step" : concat("in step ", end.step);
  if (who.empty()) return concat("the ranks ended with status ", end.mpirun.status, " ", when);
  return concat(who, end.lost.size() == 1 ? " was" : " were", " lost ", when, " (killed by signal ",
                end.lost_signal, ")");
}

}  // namespace

void SupervisorFlags::add_to(FlagTable& flags) {
  flags.heading("Supervisor");
  CLI::App& app = flags.app();
  app.remove_option(app.get_option("--ranks"));  // that of the virtual device, which loses no rank
  flags.add("--ranks", num_ranks, "Ranks that train [1]", whole(1, 10'000));
  flags.add("--spares", num_spares, "Further ranks, each to replace one that is lost [0]",
            whole(0, 10'000));
  flags.add("--max-restarts", max_restarts, "How often training may start again [3]",
            whole(0, 1'000'000));
  flags.add("--mpirun", mpirun, "Program that starts ranks; tools/run gives its own [mpirun]");
}

Supervisor::Supervisor(Options& options, const SupervisorFlags& flags,
                       const ElasticTrainer::Flags& trainer, const CLI::App& app)
    : flags_(flags),
      app_(app),
      config_(options.resolve(ProcessGrid())),
      wished_{.pipeline_size = trainer.pipeline_parallel_size,
              .tensor_size = trainer.tensor_parallel_size},
      failures_(trainer.failures),
      num_left_(flags.num_ranks + flags.num_spares),
      resumes_(config_.checkpoint.resume) {
  if (options.is_virtual()) {
    throw UserError("--device virtual: it loses no ranks; take 05_zero3 or 09_3d_parallel there");
  }
  check_slices(config_.model, wished_.tensor_size);
  cut_evenly(describe(config_.model), wished_.pipeline_size);
  if (wished_.world_size() > flags.num_ranks) {
    throw UserError(concat("--tensor-parallel-size ", wished_.tensor_size,
                           " times --pipeline-parallel-size ", wished_.pipeline_size,
                           " is more than --ranks ", flags.num_ranks));
  }
  if (app.count("--micro-batch-size") == 0) config_.micro_batch_size = 0;
  check_failures(failures_, layout().world_size(), config_.optimizer.num_steps);
  options.save_as_given();
  scratch_ = make_temporary_folder("17_elastic");
  if (config_.checkpoint.path.empty()) {
    config_.checkpoint.path = scratch_ / "checkpoints";
    if (app.count("--keep") == 0) config_.checkpoint.keep = 2;
  }
}

Supervisor::~Supervisor() {
  std::error_code ignored;
  fs::remove(scratch_ / "steps", ignored);
  if (!needs_checkpoints_) fs::remove_all(scratch_, ignored);
  fs::remove(scratch_, ignored);  // only if no checkpoint is in it
}

int Supervisor::run() {
  print(config_.flags_note);
  say(concat(counted(num_left_, "rank"), ": ", layout_note(layout()), "; a checkpoint ",
             checkpoint_every() == "0" ? "after the last step"
             : config_.checkpoint.every_seconds > 0
                 ? "every " + checkpoint_every()
                 : concat("every ", checkpoint_every(), " steps"),
             ", in ", one_line(config_.checkpoint.path)));
  while (true) {
    const RanksEnd end = run_ranks(layout());
    if (end.mpirun.status == 0 || end.mpirun.status == 2) return end.mpirun.status;
    if (const int signal = signal_of(end); signal != 0) {
      say(concat("ended by signal ", signal, "; ", checkpoint_note()));
      return 128 + signal;
    }
    recover(end);
  }
}

ProcessGrid Supervisor::layout() const {
  return choose_layout(config_, wished_, std::min(flags_.num_ranks, num_left_));
}

std::string Supervisor::layout_note(const ProcessGrid& layout) const {
  std::string note = layout_text(layout);
  if (num_left_ > layout.world_size())
    note += concat(", ", num_left_ - layout.world_size(), " idle");
  const bool as_wished =
      layout.tensor_size == wished_.tensor_size && layout.pipeline_size == wished_.pipeline_size;
  return as_wished ? note : concat(note, " (asked for ", layout_text(wished_), ")");
}

std::string Supervisor::checkpoint_every() const {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  return checkpoint.every_seconds > 0 ? concat(static_cast<int64_t>(checkpoint.every_seconds), "s")
                                      : concat(checkpoint.every);
}

std::vector<std::string> Supervisor::command(const ProcessGrid& layout) const {
  std::vector<std::string> words = {flags_.mpirun, "-n", concat(layout.world_size()),
                                    fs::read_symlink("/proc/self/exe")};
  const auto add = [&](const std::string& name, const auto& value) {
    words.push_back(concat("--", name, "=", value));
  };
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::count(kNotPassedOn, name) > 0) continue;
    add(name.substr(2), option->reduced_results().back());  // lists are joined there
  }
  add("tensor-parallel-size", layout.tensor_size);
  add("pipeline-parallel-size", layout.pipeline_size);
  if (config_.optimizer.num_steps > 0 || resumes_) {
    add("checkpoint", config_.checkpoint.path);
    add("checkpoint-every", checkpoint_every());
    add("keep", config_.checkpoint.keep);
  }
  add("step-file", (scratch_ / "steps").string());
  if (resumes_) words.push_back("--resume");
  std::vector<Failure> possible = failures_;
  std::erase_if(possible, [&](const Failure& f) { return f.rank >= layout.world_size(); });
  if (!possible.empty()) add("fail", to_text(possible));
  return words;
}

RanksEnd Supervisor::run_ranks(const ProcessGrid& layout) {
  const fs::path step_file = scratch_ / "steps";
  fs::remove(step_file);
  RanksEnd end;
  const auto keeps = [&](const std::string& line) {
    const auto lost = lost_rank(line);
    if (!lost) return line.starts_with("error: ended by signal ");  // the status says so, too
    end.lost.push_back(lost->first);
    end.lost_signal = lost->second;
    return true;
  };
  end.mpirun = named_by("--mpirun", [&] { return run_child(command(layout), keeps); });
  const std::vector<int64_t> steps = read_steps(step_file, layout.world_size());
  const bool knows_rank = !end.lost.empty() && end.lost[0] < steps.size();
  end.step = knows_rank ? steps[end.lost[0]] : std::ranges::max(steps);
  return end;
}

void Supervisor::recover(const RanksEnd& end) {
  const auto give_up = [&](const std::string& why) {
    throw Error(concat(text_of(end), "; ", why, "; ", checkpoint_note()));
  };
  if (end.step == failed_step_) {
    give_up(end.step == 0 ? "so nothing has been trained since the start"
                          : "this step has failed twice");
  }
  if (num_restarts_++ == flags_.max_restarts) {
    give_up(concat("--max-restarts ", flags_.max_restarts, " have been made"));
  }
  num_left_ -= std::min(num_left_, end.lost.size());
  if (num_left_ == 0) give_up("no rank is left");
  failed_step_ = end.step;
  resumes_ = true;
  std::erase_if(failures_, [&](const Failure& failure) { return failure.step <= end.step; });
  const std::vector<int64_t> steps = checkpoints_in(config_.checkpoint.path);
  say(concat(text_of(end), "; ",
             steps.empty() ? "beginning again" : concat("going on after step ", steps.back()),
             " with ", counted(num_left_, "rank"), ": ", layout_note(layout())));
}

std::string Supervisor::checkpoint_note() {
  const std::vector<int64_t> steps = checkpoints_in(config_.checkpoint.path);
  if (steps.empty()) return "there is no checkpoint yet";
  needs_checkpoints_ = true;
  return concat("the checkpoint after step ", steps.back(), " stays: --checkpoint ",
                one_line(config_.checkpoint.path), " --resume goes on from it");
}

int supervise(int argc, const char* const* argv) {
  int status = 0;
  const int failed = run_guarded(ElasticTrainer::kLesson.info, [&](Job&) {
    SupervisorFlags flags;
    ElasticTrainer::Flags trainer;
    Options options(ElasticTrainer::kLesson.info, [&](FlagTable& table) {
      flags.add_to(table);
      trainer.add_to(table);
      CLI::App& app = table.app();
      app.remove_option(app.get_option("--step-file"));  // it is the supervisor's own
      // The supervisor has a folder for checkpoints, if the user names none.
      for (const char* const flag : {"--checkpoint-every", "--keep", "--checkpoint-async"}) {
        app.get_option(flag)->remove_needs(app.get_option("--checkpoint"));
      }
    });
    if (const std::string asked = options.parse(argc, argv); !asked.empty()) return print(asked);
    status = Supervisor(options, flags, trainer, options.app()).run();
  });
  return failed != 0 ? failed : status;
}

}  // namespace ladder
