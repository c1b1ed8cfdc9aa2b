// How a run finds out, before its first step, that its machines do not share the folder of
// --checkpoint.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <thread>

#include "common/io/descriptor.h"
#include "common/io/printable.h"
#include "common/train/run/checkpoints.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/clock.h"

namespace ladder {

int Checkpoints::try_to_write() const {
  constexpr double kSilentSeconds = 2;
  const std::string path = concat(unfinished_, "/from_rank_", grid_.rank);
  const Time begin = Clock::now();
  for (bool is_told = false;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    const int error = file.is_open() ? 0 : errno;
    if (file.is_open()) unlink(path.c_str());
    const double waited = seconds_since(begin);
    if ((error != ENOENT && error != ESTALE) || waited > kLateSeconds) return error;
    if (waited < kSilentSeconds || std::exchange(is_told, true)) continue;
    std::cerr << concat(job_.prefix(), "waits until ", one_line(unfinished_), " appears here\n");
  }
}

void Checkpoints::require_shared_folder() const {
  if (job_.node_size() == job_.size()) return;
  const bool is_first = job_.machine_of()[grid_.rank] == grid_.rank;
  const auto errors = job_.all_gather({static_cast<uint64_t>(is_first ? try_to_write() : 0)});
  for (size_t r = 0; r < errors.size(); ++r) {
    if (errors[r] == 0) continue;
    throw UserError(concat(config_.checkpoint.path, ": ", job_.names()[r], " cannot write where ",
                           "rank 0 writes (", std::strerror(static_cast<int>(errors[r])),
                           "); the folder must be on a file system that all machines of the run ",
                           "share"));
  }
}

}  // namespace ladder
