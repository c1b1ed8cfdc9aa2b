// The flags of the program, and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/train/lesson_info.h"

namespace ladder {

inline constexpr LessonInfo kPlanningLesson = {
    "19_planning", "Finds the fastest layouts of a model on a cluster, by simulating them."};

struct PlanFlags {
  std::string model = "tiny", cluster, dtype;
  std::vector<std::string> sizes;  // --layers and the like, with their values
  size_t num_ranks = 0, global_batch_size = 0, top = 5;
  double seconds = 60, tokens = 0;
  bool explain = false;

  void add_to(CLI::App& app);
};

// Prints the fastest layouts, why the others lose and the commands to run the first. Throws
// UserError if the flags do not go together, and Error if no layout fits.
void plan(const PlanFlags& flags);

}  // namespace ladder
