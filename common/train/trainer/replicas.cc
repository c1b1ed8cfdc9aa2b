#include "common/train/trainer/replicas.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "kernels/runtime/hash.h"

namespace ladder {

double sum_over(Communicator& group, double number) {
  Stream host(DeviceType::cpu);
  group.all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {}).wait(host);
  return number;
}

namespace {

// Returns a hash of the bits of the parameters that `which` picks, in the order of the layout.
uint64_t hash_of(ModelState& state,
                 const std::function<bool(const Unit&, const Parameter&)>& which) {
  constexpr size_t kSegment = 1 << 16;  // elements that are on the host at a time
  const DType dtype = state.parameters.dtype();
  uint64_t hash = 0;
  std::vector<std::byte> host(kSegment * size_of(dtype));
  std::set<const Parameter*> picked;
  for (const Unit& unit : state.layout().units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (which(unit, parameter)) picked.insert(&parameter);
    }
  }
  for (const Slice& slice : state.held()) {
    if (!picked.contains(slice.parameter)) continue;
    const size_t n = slice.view.num_elements();
    for (size_t first = 0; first < n; first += kSegment) {
      const size_t count = std::min(kSegment, n - first);
      const TensorView segment(host.data(), dtype, DeviceType::cpu, {count});
      copy(state.stream(), segment, slice.view.rows(first, count));
      state.stream().synchronize();
      hash = hash_bytes(std::span(host).first(segment.num_bytes()), hash);
    }
  }
  return hash;
}

// Describes a difference, as in "the parameters of rank 5 differ from those of rank 4". Returns an
// empty text if there is none.
std::string difference_of(ModelState& state, const Communicator& world, const Copies& copies) {
  struct Copy {
    uint64_t hash, rank;
  };
  constexpr size_t kNumbers = sizeof(Copy) / sizeof(int32_t);
  Communicator& group = copies.group;
  std::vector<Copy> found(group.size());
  found[group.rank()] = {hash_of(state, copies.which), world.rank()};
  Stream host(DeviceType::cpu);
  const TensorView all(found.data(), DType::int32, DeviceType::cpu, {kNumbers * group.size()});
  group.all_gather(host, all, all.rows(kNumbers * group.rank(), kNumbers), {}).wait(host);
  const size_t count = copies.consecutive > 0 ? copies.consecutive : group.size();
  const auto here = std::span(found).subspan(group.rank() / count * count, count);
  // This is the copy that most ranks have. If two are equally frequent, it is that of the first
  // rank.
  const Copy usual = *std::ranges::max_element(
      here, {}, [&](const Copy& copy) { return std::ranges::count(here, copy.hash, &Copy::hash); });
  std::string ranks;
  for (const Copy& copy : here) {
    if (copy.hash != usual.hash) ranks += concat(ranks.empty() ? "" : " and ", "rank ", copy.rank);
  }
  if (ranks.empty()) return "";
  return concat("the parameters of ", ranks, " differ from those of rank ", usual.rank);
}

}  // namespace

Copies copies_of_shared_units(Communicator& group) {
  return {group, [](const Unit& unit, const Parameter&) { return unit.is_shared; }};
}

std::vector<Copies> copies_of_slices(Communicator& ranks, const Layout& layout) {
  std::vector<Copies> all = {
      {ranks, [](const Unit&, const Parameter& parameter) { return !parameter.split; }}};
  std::set<size_t> numbers;
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) numbers.insert(parameter.copies);
  }
  numbers.erase(1);
  for (const size_t copies : numbers) {
    all.push_back(
        {ranks, [copies](const Unit&, const Parameter& p) { return p.copies == copies; }, copies});
  }
  return all;
}

void check_copies(ModelState& state, const Communicator& world, const std::vector<Copies>& all) {
  std::string differences;
  for (const Copies& copies : all) {
    const std::string difference = difference_of(state, world, copies);
    if (!difference.empty()) differences += concat(differences.empty() ? "" : "; ", difference);
  }
  if (!differences.empty()) throw Error(differences);
}

}  // namespace ladder
