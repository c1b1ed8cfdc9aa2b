// Finds out what a call of a kernel costs, without running it.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>

#include "common/virtual/dry_run.h"

namespace ladder {

// Returns a copy of so many bytes as the call of a kernel.
inline KernelCall copy_call(size_t bytes) {
  return {"copy", DType::fp32, {.bytes_read = number_of(bytes), .bytes_written = number_of(bytes)}};
}

// Keeps the last call of a kernel instead of running it.
class Probe final : public DryRun {
 public:
  void launch(StreamId, const KernelCall& call) override { seen = call; }
  void copy(StreamId, DeviceType, DeviceType, size_t bytes) override { seen = copy_call(bytes); }

  std::optional<KernelCall> seen;
};

// Returns a call's name, dtype and cost as something that can be compared.
inline auto key_of(const KernelCall& call) {
  const Cost& c = call.cost;
  return std::tuple(std::string_view(call.name), call.dtype, c.product_flops, c.other_flops,
                    c.bytes_read, c.bytes_written, c.m, c.n, c.k, c.transpose_b);
}

}  // namespace ladder
