#include "kernels/cudnn/attention_graphs.h"

#include "kernels/runtime/device.h"

namespace ladder::cudnn {
namespace {

// Sets the scores of keys after the query to minus infinity.
Graph::Node masked(Graph& g, const Sizes& s, Graph::Node scores) {
  const Form index = s.scores().as(CUDNN_DATA_INT32);
  Graph::Node query = g.index(2, scores, index);
  Graph::Node key = g.index(3, scores, index);
  Graph::Node sees =
      g.pointwise(CUDNN_POINTWISE_CMP_GE, s.scores().as(CUDNN_DATA_BOOLEAN), {&query, &key});
  return g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, s.scores(),
                     {&scores, &g.scalar(kUnseen), &sees});
}

// Sums the gradients of the query heads of a group, if there is more than one, into the tensor
// `id`.
void sum_group(Graph& g, const Sizes& s, Id id, Graph::Node left, Graph::Node right) {
  Graph::Node out = g.memory(id, s.keys());
  if (s.num_heads == s.num_kv_heads) {
    g.matmul_into(out, left, right);
    return;
  }
  const Form of_all = Form::packed(s.type(), s.queries().extents);
  g.reduce_into(out, CUDNN_REDUCE_TENSOR_ADD, g.matmul(left, right, of_all));
}

}  // namespace

Sizes sizes_of(DType dtype, const Shape& out, size_t num_heads, size_t qkv_columns) {
  const size_t head_size = out[2] / num_heads;
  return {.device = selected_device(DeviceType::cuda),
          .dtype = dtype,
          .batch = out[0],
          .tokens = out[1],
          .num_heads = num_heads,
          .num_kv_heads = (qkv_columns - out[2]) / 2 / head_size,
          .head_size = head_size};
}

// out = softmax(masked(scale q k^T)) v, and the log of the sum of the exponentials.
Plan forward_plan(const Handle& handle, const Sizes& s) {
  Graph g(s.text("attention_forward"));
  const Form scores = s.scores(), rows = s.rows();
  Graph::Node q = g.memory(kQ, s.queries()), k = g.memory(kK, s.keys().transposed());
  Graph::Node products = g.matmul(q, k, scores);
  Graph::Node seen =
      masked(g, s, g.pointwise(CUDNN_POINTWISE_MUL, scores, {&products, &g.scalar(kScale)}));
  Graph::Node largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, rows);
  Graph::Node below = g.pointwise(CUDNN_POINTWISE_SUB, scores, {&seen, &largest});
  Graph::Node exponentials = g.pointwise(CUDNN_POINTWISE_EXP, scores, {&below});
  Graph::Node total = g.reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, rows);
  Graph::Node log = g.pointwise(CUDNN_POINTWISE_LOG, rows, {&total});
  g.pointwise_into(g.memory(kLogsumexp, rows), CUDNN_POINTWISE_ADD, {&largest, &log});
  Graph::Node p = g.pointwise(CUDNN_POINTWISE_DIV, scores.as(s.type()), {&exponentials, &total});
  g.matmul_into(g.memory(kOut, s.out()), p, g.memory(kV, s.keys()));
  return g.plan(handle);
}

// As in kernels/cuda/README.md: row_dot = sum of dout * out; p = exp(scores - logsumexp); dv = p^T
// dout; ds = p (dout v^T - row_dot) scale; dk = ds^T q; dq = ds k.
Plan backward_plan(const Handle& handle, const Sizes& s, Order order) {
  Graph g(s.text("attention_backward"));
  const Form scores = s.scores(), rows = s.rows(), across = scores.as(s.type()).transposed();
  Graph::Node dout = g.memory(kDout, s.out()), out = g.memory(kOut, s.out());
  Graph::Node terms = g.pointwise(CUDNN_POINTWISE_MUL,
                                  Form::packed(CUDNN_DATA_FLOAT, s.out().extents), {&dout, &out});
  Graph::Node sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, terms, rows);
  Graph::Node row_dot = g.memory(kRowDot, rows);
  g.pointwise_into(row_dot, CUDNN_POINTWISE_MUL, {&sums, &g.scalar(kOne)});

  Graph::Node q = g.memory(kQ, s.queries()), k = g.memory(kK, s.keys().transposed());
  Graph::Node scale = g.scalar(kScale);
  Graph::Node products = g.matmul(q, k, scores);
  Graph::Node scaled = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&products, &scale});
  Graph::Node logarithms =
      g.pointwise(CUDNN_POINTWISE_SUB, scores, {&scaled, &g.memory(kLogsumexp, rows)});
  Graph::Node seen = masked(g, s, logarithms);
  Graph::Node p = g.pointwise(CUDNN_POINTWISE_EXP, scores, {&seen});
  sum_group(g, s, kDv, g.reshape(p, across), dout);

  Graph::Node dp = g.matmul(dout, g.memory(kV, s.keys().transposed()), scores);
  Graph::Node less = g.pointwise(CUDNN_POINTWISE_SUB, scores, {&dp, &row_dot});
  Graph::Node weighted = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&less, &p});
  Graph::Node ds = g.pointwise(CUDNN_POINTWISE_MUL, scores, {&weighted, &scale});
  sum_group(g, s, kDk, g.reshape(ds, across), q);

  Graph::Node keys = g.reshape(k, s.keys());
  Graph::Node dq = g.memory(kDq, s.queries());
  if (order == Order::fixed) {
    g.matmul_into(dq, ds, keys);
  } else {
    Graph::Node dq_sums = g.memory(kDqSums, Form::packed(CUDNN_DATA_FLOAT, s.queries().extents));
    g.matmul_into(dq_sums, ds, keys);
    g.pointwise_into(dq, CUDNN_POINTWISE_IDENTITY, {&dq_sums});
  }
  return g.plan(handle);
}

}  // namespace ladder::cudnn
