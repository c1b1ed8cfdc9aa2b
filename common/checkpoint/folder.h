// The folder of --checkpoint: which checkpoints it has, and how one appears in it as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/io/locked_folder.h"
#include "common/io/partial_folder.h"

namespace ladder {

// Returns the path of the checkpoint of a step, such as "c/step_00000050".
std::string checkpoint_path(const std::string& folder, int64_t step);
// Returns the step if `name` is the name of a checkpoint, such as "step_00000050".
std::optional<int64_t> step_of_checkpoint(const std::string& name);
// Returns the checkpoint that `path` is or lies in, or "" if there is none: a folder that has an
// index, or the name of a checkpoint in `folder`. Nothing but its own ranks may write there.
std::string checkpoint_around(const std::string& path, const std::string& folder = "");

// Returns the steps whose checkpoints are in the folder, in their order. A checkpoint that is still
// being written has another name, so every one of these is complete. If there is no folder there
// are no steps. Throws a UserError that names the path if it is no folder, if it is a link, if it
// cannot be read, or if something that is no folder has the name of a checkpoint.
std::vector<int64_t> checkpoints_in(const std::string& folder);

// Returns the paths of the checkpoints that `path` names, the oldest first: those in the folder, or
// `path` itself if it is one. Throws UserError as checkpoints_in() does, and if there is none.
std::vector<std::string> checkpoints_at(const std::string& path);

// CheckpointFolder is the folder while a run writes checkpoints to it. Only one run at a time may
// (LockedFolder). Rank 0 has one. What is not whole lies in a hidden folder in it, which only this
// run has (PartialFolder): checkpoints that are being written, and those that are being removed. It
// goes when this object does, and if the run is killed, with the next run.
class CheckpointFolder {
 public:
  // Makes the folder if it is missing. Throws a UserError that names the path as LockedFolder does,
  // if there is a link or anything else that is no folder, or if it lies in a checkpoint.
  explicit CheckpointFolder(const std::string& path);

  // The name of the hidden folder as numbers, so that rank 0 can tell it to the other ranks.
  std::vector<uint64_t> unfinished_name() const;
  // Returns a line for the header for what killed runs have left and cannot be removed, each.
  std::string left_over() const;

  // Makes an empty folder for the files of a new checkpoint and returns its path, which is
  // checkpoint_path(unfinished_path(...), step). Throws Error if it cannot.
  std::string begin(int64_t step);
  // Gives that folder its name. From then on the checkpoint is there, also after a power cut.
  // Throws Error if it cannot. REQUIRES: the files are on the disk (fsync).
  void publish(int64_t step);
  // Removes all but the newest `keep` checkpoints. What only has the name of a checkpoint does not
  // count and stays. Returns the paths of checkpoints that stay, each with why, once each: those
  // that have other files than a checkpoint's, and those that cannot be removed.
  std::vector<std::string> remove_all_but(size_t keep);

  // Before the first checkpoint, records in the folder which files of --metrics and --tensorboard
  // this run writes. If the run is killed, a restart reads the list, begun(), and may replace those
  // files. publish() removes the list.
  void note_begun(const std::set<std::string>& paths);
  std::set<std::string> begun() const;

 private:
  bool is_own(int64_t step);
  // Returns why the checkpoint of this name stays, or "".
  std::string remove(const std::string& name) const;

  std::string path_;
  LockedFolder folder_;
  PartialFolder unfinished_;     // the hidden folder
  std::map<int64_t, bool> own_;  // whether it is a checkpoint of this step, as far as is known
  std::set<std::string> said_;   // those that remove_all_but() has said that they stay
};

// Returns the path of the hidden folder. `name` begins with CheckpointFolder::unfinished_name().
std::string unfinished_path(const std::string& folder, const std::vector<uint64_t>& name);

}  // namespace ladder
