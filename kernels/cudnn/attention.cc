#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/cudnn/attention_graphs.h"
#include "kernels/runtime/launch_observer.h"

namespace ladder {
namespace cudnn {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();  // the score of an unseen key

// Returns the plan for these sizes, which is made once in a program: it takes cuDNN up to a second.
// Plans stay until the program has ended, since then the GPU may be gone.
template <class Key, class Make>
const Plan& planned(const Key& key, Make make) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plans = *new std::map<Key, Plan>;
  const std::lock_guard lock(mutex);
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make()).first->second;
}

// The addresses of q, k and v, or of their gradients, in a tensor that has them side by side.
struct Parts {
  Parts(const Sizes& s, const ConstTensorView& qkv)
      : q(static_cast<const uint16_t*>(qkv.data())),
        k(q + s.query_columns()),
        v(k + s.key_columns()) {}
  const uint16_t *q, *k, *v;
};

}  // namespace
}  // namespace cudnn

struct CudnnAttention::State {
  State(Memory& arena, Order sums) : memory(arena), order(sums) {}

  const cudnn::Plan& forward(const cudnn::Sizes& s) {
    return cudnn::planned(s, [&] { return cudnn::forward_plan(handle, s); });
  }
  const cudnn::Plan& backward(const cudnn::Sizes& s) {
    return cudnn::planned(std::pair(s, order),
                          [&] { return cudnn::backward_plan(handle, s, order); });
  }
  // Makes room for plans of these sizes.
  void reserve(const cudnn::Sizes& s) {
    const size_t bytes = std::max(forward(s).workspace_bytes(), backward(s).workspace_bytes());
    enlarge(workspace, (bytes + 3) / 4);
    if (order == Order::any) enlarge(dq_sums, s.batch * s.tokens * s.query_columns());
  }
  void enlarge(Tensor& tensor, size_t elements) {
    if (elements <= tensor.view().num_elements()) return;
    tensor = {};
    tensor = Tensor(memory, Category::workspace, DType::fp32, {elements});
  }
  void run(Stream& stream, const char* name, const cudnn::Plan& plan,
           std::span<const cudnn::Bound> tensors) {
    const ObservedLaunch observed(stream.native(), name);
    cudnn::check_status(cudnn::library().set_stream(handle.get(), stream.native()),
                        "cudnnSetStream", name);
    plan.run(handle, tensors, workspace.view().data());
  }

  cudnn::Handle handle;
  Memory& memory;
  Order order;
  Tensor workspace, dq_sums;
};

void CudnnAttention::require(DeviceType device, DType dtype, size_t head_size,
                             const char* library) {
  if (device != DeviceType::cuda) {
    throw UserError(concat("cuDNN computes on GPUs, and the device is ", name_of(device)));
  }
  if (size_of(dtype) != 2) {
    throw UserError(concat("cuDNN's attention takes bf16 and fp16, no ", name_of(dtype)));
  }
  if (head_size % 8 != 0 || head_size > 128) {
    throw UserError(
        concat("cuDNN's attention takes heads of a multiple of 8 elements, up to 128; these have ",
               head_size));
  }
  cudnn::load_library(library);
}

std::string CudnnAttention::name() {
  return concat("cuDNN ", cudnn::version_text(cudnn::library().get_version()));
}

CudnnAttention::CudnnAttention(Memory& memory, DType dtype, const Shape& out, size_t num_heads,
                               size_t qkv_columns, Order order) {
  require(memory.device(), dtype, out[2] / num_heads);
  state_ = std::make_unique<State>(memory, order);
  state_->reserve(cudnn::sizes_of(dtype, out, num_heads, qkv_columns));
}
CudnnAttention::~CudnnAttention() = default;

void CudnnAttention::forward(Stream& stream, TensorView out, TensorView logsumexp,
                             ConstTensorView qkv) {
  const ArgumentCheck expect("attention_forward", stream, "out", out, 3);
  const Shape rows = attention_rows("attention_forward", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  check_qkv(expect, qkv, out.shape(), rows);
  using namespace cudnn;
  const Sizes s = sizes_of(out.dtype(), out.shape(), rows[1], qkv.shape()[2]);
  state_->reserve(s);
  const Parts in(s, qkv);
  const float scale = s.scale();
  const Bound tensors[] = {{kQ, in.q},
                           {kK, in.k},
                           {kV, in.v},
                           {kOut, out.data()},
                           {kScale, &scale},
                           {kUnseen, &kNothing},
                           {kLogsumexp, logsumexp.data()}};
  state_->run(stream, "cudnn_attention_forward", state_->forward(s), tensors);
}

void CudnnAttention::backward(Stream& stream, TensorView dqkv, TensorView row_dot,
                              ConstTensorView dout, ConstTensorView out, ConstTensorView logsumexp,
                              ConstTensorView qkv) {
  const ArgumentCheck expect("attention_backward", stream, "out", out, 3);
  const Shape rows = attention_rows("attention_backward", out.shape(), logsumexp);
  expect.accumulated("logsumexp", logsumexp, rows);
  expect.accumulated("row_dot", row_dot, rows);
  expect("dout", dout, out.shape());
  check_qkv(expect, qkv, out.shape(), rows);
  expect("dqkv", dqkv, qkv.shape());
  using namespace cudnn;
  const Sizes s = sizes_of(out.dtype(), out.shape(), rows[1], qkv.shape()[2]);
  state_->reserve(s);
  const Parts in(s, qkv), gradient(s, dqkv);
  const float scale = s.scale(), one = 1;
  std::vector<Bound> tensors = {{kQ, in.q},
                                {kK, in.k},
                                {kV, in.v},
                                {kDq, gradient.q},
                                {kDk, gradient.k},
                                {kDv, gradient.v},
                                {kOut, out.data()},
                                {kDout, dout.data()},
                                {kLogsumexp, logsumexp.data()},
                                {kRowDot, row_dot.data()},
                                {kScale, &scale},
                                {kUnseen, &kNothing},
                                {kOne, &one}};
  if (state_->order == Order::any) tensors.push_back({kDqSums, state_->dq_sums.view().data()});
  state_->run(stream, "cudnn_attention_backward", state_->backward(s), tensors);
}

}  // namespace ladder
