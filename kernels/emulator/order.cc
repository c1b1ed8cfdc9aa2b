#include "kernels/emulator/order.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernels/runtime/check.h"
#include "kernels/runtime/random.h"

namespace ladder::emulator {
namespace {

std::uint64_t seed_of_environment() {
  const char* const value = std::getenv("LADDER_EMULATOR_ORDER");
  if (value == nullptr) return 0;
  std::uint64_t seed = 0;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, seed);
  if (error == std::errc() && stop == end && value != end) return seed;
  throw UserError(concat("LADDER_EMULATOR_ORDER=", value,
                         ": expected a whole number; 0, the default, is the order of indices"));
}

std::uint64_t& seed() {
  static std::uint64_t the_seed = seed_of_environment();
  return the_seed;
}

std::uint64_t num_launches = 0;  // kernels run one at a time

}  // namespace

std::uint64_t order_seed() { return seed(); }

void set_order_seed(std::uint64_t new_seed) {
  seed() = new_seed;
  num_launches = 0;
}

Shuffle::Shuffle() : seed_(seed()) {
  if (is_on()) launch_ = ++num_launches;
}

std::size_t Shuffle::below(std::size_t bound) {
  return random_below(bound, random_word(seed_, launch_, num_draws_++));
}

Order Shuffle::next(std::size_t n) {
  if (!is_on()) return Order(n, 0, 1);
  const std::size_t first = below(n);
  // Small enough that i * step does not overflow.
  const std::size_t most = std::min<std::size_t>(n, 1 << 16);
  std::size_t step = 1 + below(most);
  while (std::gcd(step, n) != 1) step = step % most + 1;
  return Order(n, first, step);
}

}  // namespace ladder::emulator
