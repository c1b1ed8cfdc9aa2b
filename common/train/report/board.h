// What a run writes for TensorBoard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/io/event_file.h"
#include "common/io/locked_folder.h"
#include "common/train/report/metrics_file.h"

namespace ladder {

// Board writes an event file into the folder of --tensorboard. The file appears with the first
// step, and can be read while the run goes on.
class Board {
 public:
  // A new run (no `resumed_step`) wants a folder without event files, since TensorBoard would draw
  // one curve through the points of both runs. A run that goes on after a checkpoint of step
  // `resumed_step` adds a file of its own, which tells TensorBoard to forget what the other files
  // have of later steps. They stay as they are. `run` is the mark of the run, in which the file's
  // name ends (new_run_mark()); "" = none. Throws a UserError that names --tensorboard if
  // LockedFolder does, if a new run finds an event file, or if no event file has the mark.
  explicit Board(const std::string& folder, std::optional<int64_t> resumed_step = {},
                 const std::string& run = "");

  // Gives the text about the run, its flags for one, which comes before the first step's numbers.
  void describe(std::string text) { description_ = std::move(text); }
  // Writes one step's numbers. TensorBoard sorts groups of them by name, and shows the first ones
  // open: the loss, which people look for. Memory is the peak so far, in MiB. Throws Error if the
  // disk is full.
  void write(const MetricsFile::Step& step, const Memory& device_memory);
  // Writes a text that the model of this step has drawn.
  void write_sample(int64_t step, const std::string& text);
  // Brings the file to the disk.
  void finish();

 private:
  void write(int64_t step, const EventSummary& summary);
  void begin();

  std::string run_, description_;
  LockedFolder folder_;
  int64_t resumed_step_;  // 0 = from the beginning
  std::optional<EventFile> file_;
};

// Returns the milliseconds for which this rank has waited for all that it has communicated.
double exposed_ms(const TrafficEntries& communicated);

}  // namespace ladder
