#include "common/comm/one_rank.h"

#include "kernels/runtime/check.h"

namespace ladder {

std::unique_ptr<Transport> OneRank::split(size_t) { return std::make_unique<OneRank>(device()); }

Moved OneRank::execute(const Request& request) {
  Stream stream(DeviceType::cpu);
  enqueue(request, stream);
  return {};
}

void OneRank::enqueue(const Request& request, Stream& queue) {
  if (has_nothing_to_do(request)) return;
  copy(queue, request.out, request.in.reshape(request.out.shape()));
}

bool OneRank::has_nothing_to_do(const Request& request) {
  return request.out.empty() || request.in.empty() || request.out.data() == request.in.data() ||
         request.in.num_elements() == 0;
}

std::unique_ptr<Transport> Unconnected::split(size_t) {
  fail("Unconnected::split: it knows nothing of the other ranks' colors");
}

std::unique_ptr<Transport> Unconnected::split_axis(Axis axis, size_t) {
  const ProcessGrid::Group group = grid_.group(axis);
  if (group.size == 1) return std::make_unique<OneRank>(device());
  ++num_groups_;
  return std::make_unique<Unconnected>(group.rank, group.size, device());
}

}  // namespace ladder
