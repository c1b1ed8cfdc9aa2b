#include "tests/delays.h"

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "common/comm/delay.h"
#include "kernels/runtime/random.h"

namespace ladder {
namespace testing {
namespace {

std::atomic<uint64_t> key_of_rank = 0;  // 0 = no delays
// By the hash of the where's name; two that share one do no harm.
std::array<std::atomic<uint64_t>, 256> num_passes;

// Set before the threads that read it begin.
std::string place_of_action;
std::function<void()> action_there;

}  // namespace

void set_action(const std::string& where, std::function<void()> action) {
  place_of_action = where;
  action_there = std::move(action);
}

void set_delays(uint64_t seed, uint64_t rank) {
  for (std::atomic<uint64_t>& passes : num_passes) passes = 0;
  key_of_rank = seed == 0 ? 0 : random_key(seed, std::to_string(rank)) | 1;
}

}  // namespace testing

void delay_for_tests(const char* where) {
  if (testing::action_there && testing::place_of_action == where) testing::action_there();
  const uint64_t rank = testing::key_of_rank;
  if (rank == 0 || std::string_view(where).starts_with("told: ")) return;
  const uint64_t of_place = random_key(rank, where);
  const uint64_t pass = testing::num_passes[of_place % testing::num_passes.size()]++;
  const uint64_t of_pass = random_word(of_place, pass, 0);
  if (random_below(pass < 32 ? 2 : 64, of_pass) != 0) return;
  constexpr int64_t kMicroseconds[] = {20, 50, 100, 200, 500, 2000};
  const int64_t duration = kMicroseconds[of_pass % std::size(kMicroseconds)];
  std::this_thread::sleep_for(std::chrono::microseconds(duration));
}

}  // namespace ladder
