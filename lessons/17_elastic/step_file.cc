#include "lessons/17_elastic/step_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/io/descriptor.h"
#include "kernels/runtime/check.h"

namespace ladder {

void write_step(const std::string& path, size_t rank, int64_t step) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const auto offset = static_cast<off_t>(rank * sizeof step);
  if (!file.is_open() || pwrite(file.number(), &step, sizeof step, offset) != sizeof step) {
    throw UserError(concat("--step-file ", path, ": cannot be written: ", std::strerror(errno)));
  }
}

std::vector<int64_t> read_steps(const std::string& path, size_t num_ranks) {
  std::vector<int64_t> steps(num_ranks, 0);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  for (size_t rank = 0; rank < num_ranks && file.is_open(); ++rank) {
    const auto offset = static_cast<off_t>(rank * sizeof(int64_t));
    if (pread(file.number(), &steps[rank], sizeof(int64_t), offset) < 0) break;
  }
  return steps;
}

}  // namespace ladder
