#include "kernels/emulator/profiler/shared_cycles.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ladder::emulator {
namespace {

constexpr std::size_t kBanks = 32, kWord = 4;

// Returns the cycles of lanes that are served together.
std::size_t cycles_of(std::span<const SharedAccess> group) {
  std::vector<std::uintptr_t> words;
  for (const SharedAccess& access : group) {
    const std::uintptr_t last = (access.address + access.bytes - 1) / kWord;
    for (std::uintptr_t word = access.address / kWord; word <= last; ++word) words.push_back(word);
  }
  std::ranges::sort(words);
  const auto repeated = std::ranges::unique(words);
  words.erase(repeated.begin(), repeated.end());
  std::array<std::size_t, kBanks> of_bank{};
  for (const std::uintptr_t word : words) ++of_bank[word % kBanks];
  return std::ranges::max(of_bank);
}

}  // namespace

SharedCycles shared_cycles(std::span<const SharedAccess> accesses) {
  SharedCycles cycles = {0, 0};
  if (accesses.empty()) return cycles;
  const std::size_t lanes = std::min<std::size_t>(32, kBanks * kWord / accesses.front().bytes);
  for (std::size_t begin = 0, end; begin < accesses.size(); begin = end) {
    end = begin + 1;
    const std::size_t group = accesses[begin].lane / lanes;
    while (end < accesses.size() && accesses[end].lane / lanes == group) ++end;
    cycles.taken += cycles_of(accesses.subspan(begin, end - begin));
    cycles.least += 1;
  }
  return cycles;
}

}  // namespace ladder::emulator
