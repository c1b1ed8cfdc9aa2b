#include "lessons/02_ddp/data_parallel.h"

#include <algorithm>
#include <cmath>

namespace ladder {

double sum_over(Communicator& group, double number) {
  Stream host(DeviceType::cpu);
  group.all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {}).wait(host);
  return number;
}

namespace {

// FNV-1a over the bits of the parameters, in layout order.
uint64_t hash_of(Replica& replica, const std::function<bool(const Parameter&)>& which) {
  uint64_t hash = 0xCBF29CE484222325;
  replica.staging.visit(
      replica.parameters, [&](const Parameter& parameter, ConstTensorView tensor) {
        if (!which(parameter)) return;
        const unsigned char* const bytes = static_cast<const unsigned char*>(tensor.data());
        for (size_t i = 0; i < tensor.num_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
      });
  return hash;
}

// "the parameters of rank 5 differ from those of rank 4"; "" where there is no difference.
std::string difference_of(Replica& replica, const Copies& copies) {
  struct Copy {
    uint64_t hash, rank;
  };
  constexpr size_t kNumbers = sizeof(Copy) / sizeof(int32_t);
  Communicator& group = copies.group;
  std::vector<Copy> found(group.size());
  found[group.rank()] = {hash_of(replica, copies.which), replica.context.grid.rank};
  Stream host(DeviceType::cpu);
  const TensorView all(found.data(), DType::int32, DeviceType::cpu, {kNumbers * group.size()});
  group.all_gather(host, all, all.rows(kNumbers * group.rank(), kNumbers), {}).wait(host);
  // The copy that most ranks have; of several the first rank's.
  const Copy usual = *std::ranges::max_element(found, {}, [&](const Copy& copy) {
    return std::ranges::count(found, copy.hash, &Copy::hash);
  });
  std::string ranks;
  for (const Copy& copy : found) {
    if (copy.hash != usual.hash) ranks += concat(ranks.empty() ? "" : " and ", "rank ", copy.rank);
  }
  return ranks.empty()
             ? ""
             : concat("the parameters of ", ranks, " differ from those of rank ", usual.rank);
}

}  // namespace

void check_copies(Replica& replica, const std::vector<Copies>& all) {
  std::string differences;
  for (const Copies& copies : all) {
    const std::string difference = difference_of(replica, copies);
    if (!difference.empty()) differences += concat(differences.empty() ? "" : "; ", difference);
  }
  if (!differences.empty()) fail(differences);
}

double DataParallel::norm() const { return std::sqrt(sum_over(world_, replica_.squared_norm())); }

double DataParallel::evaluate(size_t num_batches, const std::function<Hooks()>& hooks) const {
  double total = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    for (size_t row = 0; row < num_rows(); row += config().micro_batch_size) {
      const Hooks units = hooks();
      replica_.forward(Split::validation, static_cast<int64_t>(batch), first_row() + row, units);
      replica_.evaluate(units);
    }
    total += sum_over(world_, replica_.losses.total());
  }
  return total / static_cast<double>(num_batches * config().tokens_per_step());
}

}  // namespace ladder
