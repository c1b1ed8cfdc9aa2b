// What becomes of a version: on a GPU it is timed, and on the emulator what it does is counted.
// There is one body for each build: time.cc with --config=cuda, and count.cc.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/runtime/stream.h"

namespace ladder::versions {

// A version on one shape.
struct Rung {
  std::string name, idea;
  double flops;  // multiplications and additions that the formula needs
  std::function<void(Stream& stream)> run;
  double error;  // as errors.h says; negative: not looked at
};

class Bench {
 public:
  Bench();
  ~Bench();

  void add_flags(CLI::App& app);
  // Checks the flags. From now on kernels may run a few of their thread blocks only. Throws a
  // UserError.
  void begin();
  // Returns whether results are whole after begin().
  bool results_are_whole() const;
  // Runs the rungs, of which the last is the yardstick, and returns their table after `title`.
  std::string table(const std::string& title, std::span<const Rung> rungs, Stream& stream);
  // Returns what has to be said once, after the tables.
  std::string legend() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ladder::versions
