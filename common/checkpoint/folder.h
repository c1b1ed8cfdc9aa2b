// The folder of --checkpoint: which checkpoints it has, and how one appears in it as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/io/locked_folder.h"

namespace ladder {

// Returns the path of the checkpoint of a step, such as "c/step_00000050".
std::string checkpoint_path(const std::string& folder, int64_t step);
// Returns the steps whose checkpoints are in the folder, in their order. A checkpoint that is still
// being written has another name, so every one of these is complete. If there is no folder there
// are no steps. Throws a UserError that names the path if it is no folder, if it is a link, if it
// cannot be read, or if something that is no folder has the name of a checkpoint.
std::vector<int64_t> checkpoints_in(const std::string& folder);

// Returns the paths of the checkpoints that `path` names, the oldest first: those in the folder, or
// `path` itself if it is one. Throws UserError as checkpoints_in() does, and if there is none.
std::vector<std::string> checkpoints_at(const std::string& path);

// CheckpointFolder is the folder while a run writes checkpoints to it. Only one run at a time may
// (LockedFolder). Rank 0 has one.
class CheckpointFolder {
 public:
  // Makes the folder if it is missing, and removes what killed runs have left in it: checkpoints
  // that were not completely written or not completely removed. Throws a UserError that names the
  // path as LockedFolder does, and if there is a link or anything else that is no folder.
  explicit CheckpointFolder(const std::string& path);
  // Removes the folder of a checkpoint that has begun and was not published, and the folder itself
  // if it was missing and is empty.
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Makes an empty folder for the files of a new checkpoint, whose path is partial_path(). Throws
  // Error if it cannot.
  void begin(int64_t step);
  // Gives that folder its name. From then on the checkpoint is there, also after a power cut.
  // Throws Error if it cannot. REQUIRES: the files are on the disk (fsync).
  void publish(int64_t step);
  // Removes all but the newest `keep` checkpoints. Throws Error if it cannot.
  void remove_all_but(size_t keep);

 private:
  void remove(const std::string& name);

  std::string path_;
  LockedFolder folder_;
  std::string unpublished_;  // the path of what has begun; "" if there is none
};

// Returns the path that the checkpoint has until it is published.
std::string partial_checkpoint_path(const std::string& folder, int64_t step);

}  // namespace ladder
