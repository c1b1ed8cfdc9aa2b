#include "tools/course/grader/grading.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "common/io/text.h"
#include "kernels/runtime/clock.h"
#include "tools/programs/process.h"

namespace ladder {
namespace {

// Small enough to train in a tenth of a second; six blocks, unless the flags say otherwise, give
// overlap something to overlap with.
constexpr const char* kTraining =
    " --model nano --dtype fp64 --steps 2 --warmup-steps 1 --global-batch-size 12"
    " --sample 0 --evaluate-every 0 --threads 1 --dump dump --metrics metrics.jsonl"
    " --trace trace.json ";

// Values of LADDER_BACKGROUND (timing.cc), in the order of Timing.
constexpr std::array kTimings = {"", "early", "late", "slow"};

// The line of standard error that says most: the first one with "error:", else the last one.
std::string telling_line(const std::string& err) {
  std::istringstream in(err);
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (line.find("error:") != std::string::npos) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

// Why a run did not end well; empty = it did.
std::string complaint_about(const ProcessResult& result, std::chrono::seconds limit) {
  if (result.timed_out) {
    return concat("did not end within ", limit.count(),
                  " s: a loop has no end, or ranks wait for each other");
  }
  if (result.status == 0) return {};
  const std::string line = telling_line(result.err);
  if (result.status <= 128) return line.empty() ? concat("exit status ", result.status) : line;
  const std::string signal = strsignal(result.status - 128);
  return concat("crashed (", signal, ")", line.empty() ? "" : ": ", line);
}

// Returns what a run with status 0 lacks of what its flags ask for; empty = nothing. `words` has
// the flags, and `out` what the program printed.
std::string missing_in(const std::string& folder, const std::vector<std::string>& words,
                       const std::string& out) {
  namespace fs = std::filesystem;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& flag = words[i];
    if (flag != "--dump" && flag != "--metrics" && flag != "--trace") continue;
    const fs::path path = fs::path(folder) / words[i + 1];
    if (fs::exists(path) && !fs::is_empty(path)) continue;
    return concat("ended with status 0, but wrote no ", words[i + 1], " (", flag, ")");
  }
  // Trainers print this table when all copies of the parameters have been compared.
  const bool is_training = std::ranges::count(words, "--metrics") > 0;
  if (is_training && out.find("peak memory, bytes") == out.npos) {
    return "ended with status 0 before the tables at the end";
  }
  return {};
}

}  // namespace

std::vector<std::string> Grading::command_of(Whose whose, size_t num_ranks,
                                             const std::string& flags) const {
  std::vector<std::string> command;
  if (num_ranks > 1) command = {programs_.mpirun, "-n", std::to_string(num_ranks)};
  command.push_back(whose == Whose::learner  ? programs_.learner
                    : whose == Whose::lesson ? programs_.lesson
                                             : programs_.first);
  const std::vector<std::string> words = words_of(flags);
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

const Outcome& Grading::run(Whose whose, size_t num_ranks, const std::string& flags,
                            const std::string& checkpoint, Timing timing) {
  const Outcome& outcome = outcome_of(whose, num_ranks, flags, checkpoint, timing);
  if (whose != Whose::learner && !outcome.ended_well()) {
    throw GradingError(concat("the lesson's own program failed: ", outcome.complaint));
  }
  return outcome;
}

const Outcome& Grading::outcome_of(Whose whose, size_t num_ranks, const std::string& flags,
                                   const std::string& checkpoint, Timing timing) {
  namespace fs = std::filesystem;
  const std::string key = concat(static_cast<int>(whose), " ", num_ranks, " ", flags, checkpoint,
                                 static_cast<int>(timing));
  const auto found = outcomes_.find(key);
  if (found != outcomes_.end()) return found->second;
  if (whose == Whose::learner && slowest_ == Seconds()) {
    outcome_of(Whose::lesson, num_ranks, flags, checkpoint, Timing::any);
  }
  const std::string folder = scratch_.path() / std::to_string(outcomes_.size());
  fs::create_directory(folder);
  if (!checkpoint.empty()) {
    const fs::path copy = fs::path(folder) / "c" / fs::path(checkpoint).filename();
    fs::create_directory(copy.parent_path());
    fs::copy(checkpoint, copy);
  }
  return outcomes_[key] = start(whose, command_of(whose, num_ranks, flags), folder, timing);
}

const Outcome& Grading::train(Whose whose, size_t num_ranks, const std::string& flags,
                              const std::string& checkpoint, Timing timing) {
  // Ranks that are not there after five seconds are named, instead of waited for.
  const std::string timeout = num_ranks == 1 ? "" : " --collective-timeout 5";
  const std::string layers = flags.find("--layers") == flags.npos ? " --layers 6" : "";
  return run(whose, num_ranks, kTraining + flags + layers + timeout, checkpoint, timing);
}

Outcome Grading::start(Whose whose, const std::vector<std::string>& command,
                       const std::string& folder, Timing timing) {
  Outcome outcome;
  outcome.folder = folder;
  const bool is_learners = whose == Whose::learner;
  if (is_learners && (has_hung_ || learners_time_ > kLimit + kTimes * expected_time_)) {
    outcome.complaint = "not tried: the runs before took too long";
    return outcome;
  }
  const auto limit = std::chrono::ceil<std::chrono::seconds>(kRunLimit + kTimes * slowest_);
  ProcessOptions options = {
      .folder = folder, .environment = {{"OMP_NUM_THREADS", "1"}}, .stop = stop_};
  if (is_learners) {
    options.time_limit = limit;
    options.environment.push_back({"LADDER_BACKGROUND", kTimings[static_cast<size_t>(timing)]});
  }
  const auto begin = Clock::now();
  ProcessResult result;
  try {
    result = run_process(command, options);
  } catch (const Error& error) {
    throw GradingError(error.what());  // the program is not there, or no process can be made
  }
  if (stop_ != nullptr && *stop_ != 0) throw GradingError(concat("ended by signal ", int{*stop_}));
  const Seconds time = Clock::now() - begin;
  if (is_learners) {
    learners_time_ += time;
    expected_time_ += slowest_;
    has_hung_ = has_hung_ || result.timed_out;
  } else {
    slowest_ = std::max(slowest_, time);
  }
  outcome.complaint = complaint_about(result, limit);
  outcome.out = result.out;
  if (outcome.ended_well()) outcome.complaint = missing_in(folder, command, result.out);
  return outcome;
}

}  // namespace ladder
