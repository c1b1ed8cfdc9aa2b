#include "kernels/runtime/stream.h"

#include <algorithm>
#include <cstring>

namespace ladder {

void copy(Stream&, TensorView destination, ConstTensorView source) {
  check_argument("copy", "destination", destination, destination.device(), source.dtype(),
                 source.shape());
  const size_t bytes = source.num_bytes();
  constexpr size_t kPiece = size_t{1} << 20;
#pragma omp parallel for schedule(static)
  for (size_t first = 0; first < bytes; first += kPiece) {
    std::memcpy(static_cast<char*>(destination.data()) + first,
                static_cast<const char*>(source.data()) + first, std::min(kPiece, bytes - first));
  }
}

}  // namespace ladder
