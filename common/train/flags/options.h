// The command line of every lesson. It is parsed first; then the lesson arranges its ranks in a
// grid; then the options that depend on the grid are resolved.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/grid/process_grid.h"
#include "common/io/cli11.h"
#include "common/train/flags/connection_flags.h"
#include "common/train/flags/virtual_flags.h"
#include "common/train/trainer/config.h"
#include "common/train/trainer/lesson_info.h"

namespace ladder {

class Options {
 public:
  // `add_flags` adds the lesson's own flags.
  Options(const LessonInfo& lesson, const std::function<void(FlagTable&)>& add_flags);
  ~Options();

  // Reads the flags and the file of --config. Returns an empty text, or what --help or --version
  // asks for: the program then prints it instead of running. Throws a UserError of one line if
  // anything is wrong.
  std::string parse(int argc, const char* const* argv);

  // Returns everything that the user has chosen, and defaults for the rest. Some defaults depend on
  // the grid of ranks, and on `node_size`, the number of ranks that share this machine's cores.
  // Throws a UserError of one line if choices do not go together. REQUIRES: parse().
  RunConfig resolve(const ProcessGrid& grid, size_t node_size = 1) const;
  // Writes the flags with their values in this run to the file of --save-config, if it is given.
  // Throws UserError if that is not possible. REQUIRES: parse().
  void save(const RunConfig& config);
  // Does the same without the values that only a run has.
  void save_as_given();
  // Returns how ranks communicate. REQUIRES: parse().
  const ConnectionFlags& connection() const;
  // Return whether the device is virtual, and what is simulated then. REQUIRES: parse().
  bool is_virtual() const;
  const VirtualFlags& virtual_flags() const;

  // Returns all flags. They have their values after parse().
  CLI::App& app() { return *app_; }
  FlagTable& table() { return *flags_; }

 private:
  struct Raw;

  LessonInfo lesson_;
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<FlagTable> flags_;
  std::unique_ptr<Raw> raw_;
};

}  // namespace ladder
