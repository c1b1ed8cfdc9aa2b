// Lesson 02, in which the last rank no longer comes and the others' threads in the background run
// late from then on: see tests/system/02_ddp_failures_test.cc.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "common/comm/delay.h"
#include "common/train/run.h"
#include "lessons/02_ddp/trainer.h"

namespace ladder {
namespace {

bool is_last_rank() {
  return std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")) + 1 ==
         std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"));
}

}  // namespace

void delay_for_tests(const char* place) {
  constexpr int kGoodPasses = 50;
  static std::atomic<int> num_passes = 0;
  if (std::string_view(place) != "messages: before they are sent") return;
  if (++num_passes < kGoodPasses) return;
  // The operation that is just beginning uses the gradients after the sleep.
  std::this_thread::sleep_for(is_last_rank() ? std::chrono::minutes(2)
                                             : std::chrono::milliseconds(400));
}

}  // namespace ladder

int main(int argc, char** argv) { return ladder::run<ladder::DdpTrainer>(argc, argv); }
