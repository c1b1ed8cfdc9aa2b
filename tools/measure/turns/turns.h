// Training steps of GPT-2, and other work, that take turns on ranks: what they work with.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/job.h"
#include "common/train/program/program.h"
#include "common/train/trainer/ranks.h"

namespace ladder {

struct TurnsOptions {
  std::string model = "gpt2";
  size_t tokens = 256;  // tokens in a sequence
  size_t batch = 4;     // sequences in the global batch
  size_t rounds = 3;    // how often each body is timed
  int threads = 1;      // of a rank
};

// The ranks, the memory, the data.
struct Ground {
  Communicator& ranks() { return job.communicator(); }
  // Returns these flags of a lesson, resolved for so many ranks, after those of the options.
  RunConfig resolve(const Program& program, std::vector<std::string> flags, size_t num_ranks) const;
  // Returns the context of a trainer, or of part of one. The arguments must outlive it.
  TrainerContext context(const RunConfig& config, const RankContext* of_ranks) {
    return {config, corpus, device, host, stream, of_ranks};
  }
  // Runs `body` on all ranks at the same time, and returns the milliseconds that the slowest rank
  // takes. Collective.
  double ms_of(const std::function<void()>& body);
  // Prints on rank 0.
  void say(const std::string& text);

  Job& job;
  TurnsOptions options;
  Corpus corpus = Corpus::king_james();
  Memory device{DeviceType::cpu, "device", 0}, host{DeviceType::cpu, "host", 0};
  Stream stream{DeviceType::cpu};
};

// A trainer on the ranks, and what it needs to live. That of lesson 01, which runs on one rank, is
// on rank 0 alone; the others wait, and leave their cores idle.
struct TimedTrainer {
  // `text` has a lesson's name and flags. Throws UserError if there is no such lesson or flag.
  TimedTrainer(Ground& ground, const std::string& text);
  // Makes a step, and notes how long it waits for others.
  void step();

  Ground& ground;
  Program program;
  RunConfig config;
  ProcessGrid grid;
  std::optional<GridGroups> groups;
  std::optional<RankContext> ranks;
  std::unique_ptr<Trainer> trainer;  // null where there is none
  std::vector<double> waited_ms;
};

// Something that all ranks do at the same time.
struct Contestant {
  std::string name;
  std::function<void()> body;
  std::function<void()> prepare = {};        // runs before each body, and is not timed
  std::function<std::string()> report = {};  // more for its line. Collective
};
// Returns the step of a trainer (TimedTrainer), or if `text` is "floor" and flags of lesson 01 the
// floor of such a step on all ranks: the products and AdamW of one rank's part
// (common/train/bench/step_floor.h), and an all_reduce of the gradients at the speed of memory.
Contestant contestant(Ground& ground, const std::string& text);

// Lets them take turns, so that other programs on the machine disturb all alike: once to touch the
// memory, and then in options.rounds rounds. Prints for each the median and the least of the
// slowest rank's milliseconds, and the median of the time as a part of the first one's in the same
// round.
void take_turns(Ground& ground, const std::vector<Contestant>& contestants);

// Each lets what a lesson is about take turns. `texts` are what the user adds to the name.
void compare_operations(Ground& ground, const std::vector<std::string>& texts);  // lesson 11's
void compare_attention(Ground& ground, const std::vector<std::string>& texts);   // lesson 14's
void compare_experts(Ground& ground, const std::vector<std::string>& texts);     // lesson 15's

}  // namespace ladder
