#include "lessons/07_tensor_parallel/head_copies.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace ladder {
namespace {

constexpr CallOptions kGradient = {.purpose = Purpose::gradient};

// Part `index` of `count` elements that `copies` ranks divide. The last ones may be shorter.
struct Part {
  size_t first, count;
};
Part part_of(size_t count, size_t copies, size_t index) {
  const size_t most = (count + copies - 1) / copies, first = std::min(count, index * most);
  return {first, std::min(most, count - first)};
}

}  // namespace

HeadCopies::HeadCopies(const TrainerContext& context, const Layout& layout, Communicator& ranks)
    : ranks_(ranks) {
  size_t most = 0;
  for (size_t copies = 2; copies <= ranks.size(); ++copies) {
    const auto has_copies = [=](const Parameter& parameter) { return parameter.copies == copies; };
    for (const FlatRange& range : flat_ranges(layout.trained(), has_copies)) {
      copied_.push_back({range, copies});
      most = std::max(most, copies * part_of(range.count, copies, 0).count);
    }
  }
  parts_ =
      Tensor(context.device_memory, Category::workspace, context.config.accumulation(), {most});
}

void HeadCopies::sum(Stream& stream, TensorView gradients) {
  for (const auto& [range, copies] : copied_) {
    sum_range(stream, gradients.rows(range.first, range.count), copies);
  }
}

void HeadCopies::sum_range(Stream& stream, TensorView range, size_t copies) {
  const auto part = [&](size_t copy) {
    const Part p = part_of(range.num_elements(), copies, copy);
    return range.rows(p.first, p.count);
  };
  const size_t own = ranks_.rank() % copies, first = ranks_.rank() - own;
  const TensorView sum = part(own);
  const auto addend = [&](size_t copy) {
    return parts_.view().rows(copy * sum.num_elements(), sum.num_elements());
  };
  for (size_t i = 1; i < copies; ++i) {
    const size_t to = (own + i) % copies, from = (own + copies - i) % copies;
    exchange(stream, first + to, part(to), first + from, addend(from));
  }
  if (sum.num_elements() > 0) {
    copy(stream, addend(own), sum);
    add(stream, sum, addend(0), addend(1));
    for (size_t i = 2; i < copies; ++i) add(stream, sum, sum, addend(i));
  }
  for (size_t i = 1; i < copies; ++i) {
    const size_t to = (own + i) % copies, from = (own + copies - i) % copies;
    exchange(stream, first + to, sum, first + from, part(from));
  }
}

void HeadCopies::exchange(Stream& stream, size_t to, ConstTensorView sent, size_t from,
                          TensorView received) {
  const auto send = [&] {
    if (sent.num_elements() > 0) ranks_.send(stream, sent, to, kGradient).wait(stream);
  };
  // A send may last until the peer receives. Along a circle of exchanges, numbers fall at least
  // once: there a rank receives first.
  if (ranks_.rank() < to) send();
  if (received.num_elements() > 0) ranks_.recv(stream, received, from, kGradient).wait(stream);
  if (ranks_.rank() > to) send();
}

}  // namespace ladder
