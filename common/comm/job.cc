#include "common/comm/job.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace ladder {

size_t Job::num_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* const size = std::getenv(name);
    if (size != nullptr && std::atoi(size) > 1) return static_cast<size_t>(std::atoi(size));
  }
  return 1;
}

Job::Job() {
  if (num_launched() > 1) world_.emplace();
}

void Job::check_same_flags(int argc, const char* const* argv) const {
  if (!world_) return;
  std::string flags;
  for (int i = 1; i < argc; ++i) flags += concat(i == 1 ? "" : " ", argv[i]);
  world_->check_same(flags);
}

void Job::connect(bool shared_memory, const MpiOptions& options) {
  if (!world_) {
    communicator_ = std::make_unique<OneRank>();
    return;
  }
  if (shared_memory) node_memory_.emplace(*world_);
  communicator_ =
      MpiCommunicator::make_world(*world_, node_memory_ ? &*node_memory_ : nullptr, options);
}

void Job::fail(const std::string& message, int status) {
  if (!world_ || world_->first_to_fail()) {
    std::cerr << message + "\n" << std::flush;  // one piece: mpirun passes pieces on as they come
  } else {
    // The first one is about to end this rank too; only if it cannot, this one does.
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
  if (world_) MpiWorld::abort(status);
}

}  // namespace ladder
