// The command line of every lesson: parse it, let the lesson arrange its ranks, then resolve it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/grid/process_grid.h"
#include "common/train/config.h"
#include "common/train/lesson_info.h"

namespace ladder {

// How ranks are to communicate, as flags say it.
struct ConnectionFlags {
  std::string communication = "auto";
  bool no_shared_memory = false;
  bool check_collectives = false;
  double collective_timeout = 0;  // seconds; 0 = none
};

class Options {
 public:
  // `distributed`: the lesson is made for several ranks. `add_flags` adds its own flags.
  Options(const LessonInfo& lesson, bool distributed,
          const std::function<void(CLI::App&)>& add_flags);
  ~Options();

  // Reads the flags and the file of --config; false where --help asks for help() instead.
  // UserError: whatever is wrong, in one line.
  bool parse(int argc, const char* const* argv);
  std::string help();

  // Everything that the user has chosen, and defaults for the rest. Some follow from how the ranks
  // are arranged, and from how many of them, `node_size`, share this machine's cores. UserError:
  // what cannot be, in one line. REQUIRES: parse().
  RunConfig resolve(const ProcessGrid& grid, size_t node_size = 1) const;
  // REQUIRES: parse().
  const ConnectionFlags& connection() const;

  // All flags, with their values once they are parsed.
  CLI::App& app() { return app_; }

 private:
  struct Raw;

  LessonInfo lesson_;
  CLI::App app_;
  std::unique_ptr<Raw> raw_;
};

}  // namespace ladder
