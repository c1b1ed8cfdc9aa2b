#include "common/train/replicas.h"

#include <cstring>
#include <vector>

namespace ladder {

double sum_over(Communicator& group, double number) {
  Stream host(DeviceType::cpu);
  group.all_reduce(host, TensorView(&number, DType::fp64, DeviceType::cpu, {1}), {}).wait(host);
  return number;
}

namespace {

// FNV-1a over the bits of the parameters, in the order of the layout.
uint64_t hash_of(Stream& stream, const Layout& layout, ConstTensorView parameters,
                 const std::function<bool(const Unit&, const Parameter&)>& which) {
  constexpr size_t kPiece = 1 << 16;  // elements that are on the host at a time
  uint64_t hash = 0xCBF29CE484222325;
  std::vector<unsigned char> host(kPiece * size_of(parameters.dtype()));
  for (const Unit& unit : layout.units()) {
    for (const Parameter& parameter : unit.parameters) {
      if (!which(unit, parameter)) continue;
      const size_t begin = unit.offset + parameter.offset, n = parameter.shape.num_elements();
      for (size_t first = 0; first < n; first += kPiece) {
        const size_t count = std::min(kPiece, n - first);
        const TensorView piece(host.data(), parameters.dtype(), DeviceType::cpu, {count});
        copy(stream, piece, parameters.elements(begin + first, {count}));
        stream.synchronize();
        for (size_t i = 0; i < piece.num_bytes(); ++i) hash = (hash ^ host[i]) * 0x100000001B3;
      }
    }
  }
  return hash;
}

}  // namespace

void check_copies(Stream& stream, Communicator& group, const Layout& layout,
                  ConstTensorView parameters,
                  const std::function<bool(const Unit&, const Parameter&)>& which) {
  const uint64_t hash = hash_of(stream, layout, parameters, which);
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

}  // namespace ladder
