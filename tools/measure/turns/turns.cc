#include "tools/measure/turns/turns.h"

#include <algorithm>
#include <cstdio>

#include "common/io/printable.h"
#include "common/io/text.h"
#include "common/train/bench/step_floor.h"
#include "common/train/report/board.h"
#include "common/train/report/report.h"
#include "common/train/run/simulated_rank.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"
#include "tools/programs/lessons.h"

namespace ladder {
namespace {

// The words of a contestant. UserError: there are none.
std::vector<std::string> lesson_and_flags(const std::string& text) {
  std::vector<std::string> words = words_of(text);
  if (words.empty()) throw UserError("expected a lesson and its flags");
  return words;
}

Contestant floor_contestant(Ground& ground, const std::string& text) {
  const std::vector<std::string> words = lesson_and_flags(text);
  const RunConfig config =
      ground.resolve(program_of("01_single_gpu"), {words.begin() + 1, words.end()}, 1);
  const size_t size = ground.ranks().size();
  const auto floor = std::make_shared<StepFloor>(
      config.model, config.dtype, config.global_batch_size / size * config.model.sequence_length);
  return {text, [floor, size] {
            floor->run();
            if (size > 1) floor->all_reduce(size);
          }};
}

}  // namespace

RunConfig Ground::resolve(const Program& program, std::vector<std::string> flags,
                          size_t num_ranks) const {
  const std::vector<std::string> common = {"--model",
                                           options.model,
                                           "--sequence-length",
                                           concat(options.tokens),
                                           "--global-batch-size",
                                           concat(options.batch),
                                           "--steps",
                                           "1000000"};
  flags.insert(flags.begin(), common.begin(), common.end());
  return resolve_flags(program, flags, num_ranks);
}

double Ground::ms_of(const std::function<void()>& body) {
  ranks().barrier();
  const auto begin = Clock::now();
  body();
  double ms = 1e3 * seconds_since(begin);
  const TensorView number(&ms, DType::fp64, DeviceType::cpu, {1});
  ranks().all_reduce(stream, number, {.reduction = Reduction::max}).wait(stream);
  return ms;
}

void Ground::say(const std::string& text) {
  if (job.rank() != 0) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

TimedTrainer::TimedTrainer(Ground& ground_, const std::string& text) : ground(ground_) {
  std::vector<std::string> words = lesson_and_flags(text);
  program = program_of(words[0]);
  words.erase(words.begin());
  const bool is_alone = !program.lesson.is_distributed;
  const size_t size = is_alone ? 1 : ground.ranks().size(), rank = ground.ranks().rank();
  config = ground.resolve(program, std::move(words), size);
  grid = program.grid(size, is_alone ? 0 : rank);
  if (program.arrange) groups.emplace(ground.ranks(), grid);
  if (is_alone && rank != 0) return;
  ranks.emplace(grid, ground.ranks(), groups ? &*groups : nullptr, ground.job.registered());
  trainer = program.make(ground.context(config, is_alone ? nullptr : &*ranks));
  trainer->initialize();
}

void TimedTrainer::step() {
  if (!trainer) return;
  const double before = exposed_ms(ground.ranks().ledger().entries());
  trainer->step();
  waited_ms.push_back(exposed_ms(ground.ranks().ledger().entries()) - before);
}

Contestant contestant(Ground& ground, const std::string& text) {
  if (text.starts_with("floor")) return floor_contestant(ground, text);
  const auto timed = std::make_shared<TimedTrainer>(ground, text);
  const auto report = [timed]() -> std::string {
    if (!timed->trainer) return "";
    const double waited = median(timed->waited_ms);
    return (waited >= 0.5 ? format(", waits %.0f ms", waited) : "") + timed->trainer->report();
  };
  return {text, [timed] { timed->step(); }, {}, report};
}

void take_turns(Ground& ground, const std::vector<Contestant>& contestants) {
  std::vector<std::vector<double>> ms(contestants.size()), parts = ms;
  for (size_t round = 0; round <= ground.options.rounds; ++round) {
    for (size_t i = 0; i < contestants.size(); ++i) {
      if (contestants[i].prepare) contestants[i].prepare();
      const double taken = ground.ms_of(contestants[i].body);
      if (round == 0) continue;  // touches the memory
      ms[i].push_back(taken);
      parts[i].push_back(taken / ms[0].back());
    }
  }
  for (size_t i = 0; i < contestants.size(); ++i) {
    const std::string report = contestants[i].report ? contestants[i].report() : "";
    const double part = median(parts[i]);
    ground.say(format("%-48s %9.2f ms, least %9.2f, %.3f of the first: %.3f times as fast%s\n",
                      contestants[i].name.c_str(), median(ms[i]), std::ranges::min(ms[i]), part,
                      1 / part, report.c_str()));
  }
}

}  // namespace ladder
