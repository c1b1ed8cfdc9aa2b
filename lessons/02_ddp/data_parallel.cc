#include "lessons/02_ddp/data_parallel.h"

#include <cmath>
#include <cstring>

namespace ladder {

double sum_over(Communicator& group, double number) {
  Stream host(DeviceType::cpu);
  group.all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {}).wait(host);
  return number;
}

void check_copies(Replica& replica, Communicator& group,
                  const std::function<bool(const Parameter&)>& which) {
  // FNV-1a over the bits of every parameter, in layout order.
  uint64_t hash = 0xCBF29CE484222325;
  replica.staging.visit(
      replica.parameters, [&](const Parameter& parameter, ConstTensorView tensor) {
        if (!which(parameter)) return;
        const unsigned char* const bytes = static_cast<const unsigned char*>(tensor.data());
        for (size_t i = 0; i < tensor.num_bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001B3;
      });
  Stream host(DeviceType::cpu);
  std::vector<int32_t> hashes(2 * group.size());
  std::memcpy(&hashes[2 * group.rank()], &hash, sizeof hash);
  const TensorView all(hashes.data(), DType::int32, DeviceType::cpu, {hashes.size()});
  group.all_gather(host, all, all.rows(2 * group.rank(), 2), {}).wait(host);
  for (size_t r = 1; r < group.size(); ++r) {
    if (std::memcmp(&hashes[2 * r], hashes.data(), sizeof hash) == 0) continue;
    fail(concat("the parameters of rank ", r, " differ from those of rank 0"));
  }
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
