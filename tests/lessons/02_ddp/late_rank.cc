// Lesson 02, in which the last rank no longer comes after a while. A rank that gives up for that
// reason must not destroy anything before all ranks have ended, since operations in the background,
// and peers, may be using its memory; one that does says so. See
// tests/system/02_ddp_failures_test.cc.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "common/comm/delay.h"
#include "common/train/run/run.h"
#include "lessons/02_ddp/trainer.h"

namespace ladder {

void delay_for_tests(const char* place) {
  using namespace std::chrono_literals;
  constexpr int kGoodPasses = 50;
  static std::atomic<int> num_passes = 0;
  const std::string_view here = place;
  if (here == "messages: before they are sent" && ++num_passes > kGoodPasses) {
    const int rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
    if (rank + 1 == std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE")))
      std::this_thread::sleep_for(2min);
  }
  if (here == "destroyed: before its window is") {
    std::fputs("error: destroyed before all ranks have ended\n", stderr);
    std::this_thread::sleep_for(200ms);  // so that it is read
  }
}

}  // namespace ladder

int main(int argc, char** argv) { return ladder::run<ladder::DdpTrainer>(argc, argv); }
