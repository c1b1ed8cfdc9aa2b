// How ranks find out what they do not agree on.
#include <algorithm>
#include <functional>
#include <sstream>

#include "common/comm/mpi_world.h"
#include "kernels/runtime/check.h"
#include "kernels/runtime/hash.h"

namespace ladder {
namespace {

// Joins names and values into one text. Each of them ends with a zero byte.
std::string join(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) text += setting.name + '\0' + setting.value + '\0';
  return text;
}

std::vector<Setting> split(const std::string& text) {
  std::vector<Setting> settings;
  std::istringstream parts(text);
  Setting setting;
  while (std::getline(parts, setting.name, '\0') && std::getline(parts, setting.value, '\0')) {
    settings.push_back(setting);
  }
  return settings;
}

// Describes a difference, as in "--seed: 2 on rank 1 on host, 1 on rank 0 on host".
std::string describe(const Setting& odd, const std::string& odd_rank, const Setting& first,
                     const std::string& first_rank) {
  if (odd.name == first.name) {
    return concat(odd.name, ": ", odd.value, " on ", odd_rank, ", ", first.value, " on ",
                  first_rank);
  }
  return concat(odd.name, ": ", odd.value, " on ", odd_rank, ", but ", first.name, ": ",
                first.value, " on ", first_rank);
}

}  // namespace

std::vector<uint64_t> MpiWorld::all_gather(const std::vector<uint64_t>& own) const {
  const auto count = static_cast<int>(own.size());
  std::vector<uint64_t> all(size_ * own.size());
  const auto limit = limit_wait();
  mpi_check(MPI_Allgather(own.data(), count, MPI_UINT64_T, all.data(), count, MPI_UINT64_T,
                          MPI_COMM_WORLD));
  return all;
}

std::vector<MpiWorld::Summary> MpiWorld::summaries_of(const std::string& text) const {
  const std::vector<uint64_t> all =
      all_gather({text.size(), hash_bytes(std::as_bytes(std::span(text)), text.size())});
  std::vector<Summary> summaries;
  for (size_t r = 0; r < size_; ++r) summaries.push_back({all[2 * r], all[2 * r + 1]});
  return summaries;
}

std::string MpiWorld::text_of(size_t from, const std::string& own, uint64_t length) const {
  std::string text = rank_ == from ? own : std::string(length, '\0');
  const auto limit = limit_wait();
  mpi_check(MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, static_cast<int>(from),
                      MPI_COMM_WORLD));
  return text;
}

bool MpiWorld::all_same(const std::string& text) const {
  const std::vector<Summary> all = summaries_of(text);
  return std::ranges::adjacent_find(all, std::not_equal_to()) == all.end();
}

void MpiWorld::require_same(const std::vector<Setting>& settings) const {
  const std::string own = join(settings);
  const std::vector<Summary> all = summaries_of(own);
  const auto differs = [&](const Summary& one) { return one != all[0]; };
  const auto found = std::ranges::find_if(all, differs);
  if (found == all.end()) return;
  const size_t odd_rank = static_cast<size_t>(found - all.begin());
  std::vector<Setting> first = split(text_of(0, own, all[0].length));
  std::vector<Setting> odd = split(text_of(odd_rank, own, found->length));
  const Setting nothing = {"nothing", "none"};  // stands where one rank has fewer settings
  first.resize(std::max(first.size(), odd.size()), nothing);
  odd.resize(first.size(), nothing);
  for (size_t i = 0; i < odd.size(); ++i) {
    if (odd[i].name == first[i].name && odd[i].value == first[i].value) continue;
    throw UserError(concat(describe(odd[i], names_[odd_rank], first[i], names_[0]),
                           "; all ranks must be started alike"));
  }
}

}  // namespace ladder
