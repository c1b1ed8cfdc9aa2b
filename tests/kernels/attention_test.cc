#include "kernels/attention.h"

#include <optional>

#include "kernels/cpu/plain_attention.h"
#include "kernels/cudnn_attention.h"
#include "tests/kernels/support.h"
#include "tests/sample.h"

namespace ladder {
namespace {
using namespace testing;

using Sizes = cpu::AttentionSizes;
using cpu::kKey, cpu::kQuery, cpu::kValue;

using Order = CudnnAttention::Order;

// Returns the same sizes without a mask.
Sizes without_mask(Sizes s) {
  s.mask = AttentionMask::none;
  return s;
}

// Whose kernels are tested: our own, or cuDNN's with this order of sums.
using Kernels = std::optional<Order>;

// The type of the factors of products. On tensor cores it is bf16 or fp16: those that are no inputs
// (probabilities and gradients of scores) are rounded to it. All other kernels multiply in the
// accumulation dtype.
DType dtype_of_factors(DType dtype, const Sizes& s) {
  const bool whole_packs = place().aligned && s.head_size % 8 == 0;
  const bool on_tensor_cores =
      place().device != DeviceType::cpu && whole_packs && s.head_size <= 128;
  return on_tensor_cores ? dtype : accumulation_dtype(dtype);
}

// What bounds the errors of the kernels: sums of absolute values, where results are sums.
struct Magnitudes {
  explicit Magnitudes(const Sizes& s)
      : out(s.out().num_elements()),
        dqkv(s.qkv().num_elements()),
        out_of_factors(out),
        dqkv_of_factors(dqkv) {}

  Values out;   // sum over keys of p |v|
  Values dqkv;  // the terms of plain_attention_backward, with their absolute values
  Values out_of_factors, dqkv_of_factors;  // how far rounding the factors moves these
  double score_error = 0;  // the largest error of a score, in units of 2^-24 (2^-53)
};

Magnitudes magnitudes_of(DType factors, const Sizes& s, const Values& dout, const Values& p,
                         const Values& qkv) {
  Magnitudes m(s);
  const double size = static_cast<double>(s.head_size), scale = 1 / std::sqrt(size);
  const auto for_keys = [&](auto body) {  // those that each query sees
    for (size_t b = 0; b < s.batch; ++b) {
      for (size_t h = 0; h < s.heads; ++h) {
        for (size_t i = 0; i < s.tokens; ++i) {
          for (size_t j = 0; j < s.seen(i); ++j) body(b, h, i, j, p[s.probability(b, h, i, j)]);
        }
      }
    }
  };
  const auto dp = [&](size_t b, size_t h, size_t i, size_t j) {
    double sum = 0;
    for (size_t d = 0; d < s.head_size; ++d) {
      sum += std::abs(dout[s.at(b, h, i, d)] * qkv[s.at(kValue, b, h, j, d)]);
    }
    return sum;
  };
  Values mean(s.statistics().num_elements());
  const auto mean_of = [&](size_t b, size_t h, size_t i) -> double& {
    return mean[(b * s.heads + h) * s.tokens + i];
  };
  for_keys([&](size_t b, size_t h, size_t i, size_t j, double pij) {
    mean_of(b, h, i) += pij * dp(b, h, i, j);
  });
  for_keys([&](size_t b, size_t h, size_t i, size_t j, double pij) {
    const double ds = scale * pij * (dp(b, h, i, j) + mean_of(b, h, i));
    // Gradients of scores are rounded before they are multiplied with the scale. Forward rounds
    // probabilities times the sum of the exponentials, which is at least 1: the sum divides the
    // error too, so it is no more than p's.
    const double p_error = storage_error(factors, pij);
    const double ds_error = scale * storage_error(factors, ds / scale);
    double score = 0, score_size = 0;
    for (size_t d = 0; d < s.head_size; ++d) {
      const double q = qkv[s.at(kQuery, b, h, i, d)], k = qkv[s.at(kKey, b, h, j, d)];
      score += scale * q * k;
      score_size += scale * std::abs(q * k);
      m.out[s.at(b, h, i, d)] += pij * std::abs(qkv[s.at(kValue, b, h, j, d)]);
      m.dqkv[s.at(kQuery, b, h, i, d)] += ds * std::abs(k);
      m.dqkv[s.at(kKey, b, h, j, d)] += ds * std::abs(q);
      m.dqkv[s.at(kValue, b, h, j, d)] += pij * std::abs(dout[s.at(b, h, i, d)]);
      m.out_of_factors[s.at(b, h, i, d)] += p_error * std::abs(qkv[s.at(kValue, b, h, j, d)]);
      m.dqkv_of_factors[s.at(kQuery, b, h, i, d)] += ds_error * std::abs(k);
      m.dqkv_of_factors[s.at(kKey, b, h, j, d)] += ds_error * std::abs(q);
      m.dqkv_of_factors[s.at(kValue, b, h, j, d)] += p_error * std::abs(dout[s.at(b, h, i, d)]);
    }
    // HS products and additions, the rounded scale (1 / sqrt: 2) and its product; then the maximum
    // (or logsumexp, itself rounded) is taken off: a rounding of each.
    m.score_error = std::max(m.score_error, (size + 4) * score_size + 4 * std::abs(score));
  });
  return m;
}

struct Outputs {
  Values out, logsumexp;
};

Outputs run_forward(DType dtype, const Sizes& s, const Values& qkv, Kernels cudnn = {}) {
  const Array out(dtype, s.out()), logsumexp(accumulation_dtype(dtype), s.statistics());
  const Array in(dtype, s.qkv(), qkv);
  if (cudnn) {
    CudnnAttention(memory(), dtype, s.out(), s.heads, s.qkv()[2], *cudnn)
        .forward(stream(), out, logsumexp, in);
  } else {
    attention_forward(stream(), out, logsumexp, in, s.mask);
  }
  return {out.values(), logsumexp.values()};
}

Values run_backward(DType dtype, const Sizes& s, const Values& dout, const Outputs& saved,
                    const Values& qkv, Kernels cudnn = {}) {
  const DType sums = accumulation_dtype(dtype);
  const Array dqkv(dtype, s.qkv()), row_dot(sums, s.statistics());
  const Array gradient(dtype, s.out(), dout), out(dtype, s.out(), saved.out);
  const Array logsumexp(sums, s.statistics(), saved.logsumexp), in(dtype, s.qkv(), qkv);
  if (cudnn) {
    CudnnAttention(memory(), dtype, s.out(), s.heads, s.qkv()[2], *cudnn)
        .backward(stream(), dqkv, row_dot, gradient, out, logsumexp, in);
  } else {
    attention_backward(stream(), dqkv, row_dot, gradient, out, logsumexp, in, s.mask);
  }
  // row_dot receives sum over the head of dout * out, HS products and additions.
  Values expected(s.statistics().num_elements()), size = expected;
  for (size_t b = 0, row = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t t = 0; t < s.tokens; ++t, ++row) {
        for (size_t d = 0; d < s.head_size; ++d) {
          const double term = dout[s.at(b, h, t, d)] * saved.out[s.at(b, h, t, d)];
          expected[row] += term;
          size[row] += std::abs(term);
        }
      }
    }
  }
  require_within(row_dot.values(), expected,
                 rounding_error(dtype, static_cast<double>(s.head_size) + 1), size);
  return dqkv.values();
}

// factor * size, and what rounding the factors of products adds, element by element: 1 % more of
// the latter, because what is rounded is a little wrong already.
Values bound_of(double factor, const Values& size, const Values& of_factors) {
  Values bound(size);
  for (size_t i = 0; i < bound.size(); ++i) bound[i] = factor * size[i] + 1.01 * of_factors[i];
  return bound;
}

// The root mean square of got - expected, relative to that of expected. A row has parts of
// `columns` elements, such as dq, dk and dv; returns the largest of the parts.
double root_mean_square_error(const Values& got, const Values& expected,
                              const std::vector<size_t>& columns) {
  Values errors(columns.size()), sizes(columns.size());
  for (size_t i = 0; i < got.size();) {
    for (size_t part = 0; part < columns.size(); ++part) {
      for (size_t end = i + columns[part]; i < end; ++i) {
        errors[part] += (got[i] - expected[i]) * (got[i] - expected[i]);
        sizes[part] += expected[i] * expected[i];
      }
    }
  }
  double largest = 0;
  for (size_t part = 0; part < columns.size(); ++part) {
    largest = std::max(largest, std::sqrt(errors[part] / sizes[part]));
  }
  return largest;
}

// Bounds every element by the worst that its roundings can do. Returns the root mean square error
// of out, dq, dk or dv, whichever is largest.
double compare(DType dtype, const Sizes& s, const Values& qkv, Kernels cudnn = {}) {
  INFO(name_of(dtype) << " B " << s.batch << " T " << s.tokens << " NH " << s.heads << " NKV "
                      << s.kv_heads << " HS " << s.head_size
                      << (s.mask == AttentionMask::causal ? "" : ", no mask"));
  const double tokens = static_cast<double>(s.tokens), size = static_cast<double>(s.head_size);
  const double group = static_cast<double>(s.heads / s.kv_heads);
  const Values dout = random_values(dtype, s.out().num_elements(), "dout");
  const cpu::PlainAttention expected = cpu::plain_attention_forward(s, qkv);
  const DType factors = dtype_of_factors(dtype, s);
  const Magnitudes magnitudes = magnitudes_of(factors, s, dout, expected.probabilities, qkv);
  const Outputs got = run_forward(dtype, s, qkv, cudnn);
  // An exponential is off by its argument's error (score_error, twice: the score's and the
  // maximum's) and by 4 ulp (8 units). Every later tile of keys corrects it: an exponential (8)
  // and a product (1). A tile has at least 16 keys. Numerator and denominator have all this, and
  // both are sums of T terms; few roundings follow.
  const double corrections = 9 * (tokens / 16 + 1);
  const double error = 2 * (2 * magnitudes.score_error + tokens + 8 + corrections) + 4;
  require_within(dtype, got.out, expected.out, 1,
                 bound_of(rounding_error(dtype, error), magnitudes.out, magnitudes.out_of_factors));
  // The logarithm turns the relative error into an absolute one, and has 4 ulp of its own.
  Values log_size(expected.logsumexp.size(), error);
  for (size_t i = 0; i < log_size.size(); ++i) log_size[i] += 9 * std::abs(expected.logsumexp[i]);
  require_within(got.logsumexp, expected.logsumexp, rounding_error(dtype, 1), log_size);

  // Backward has p with that error, dp and the row's dot product with the rounding of HS terms and
  // the error of `out`, then sums of T terms for each query head. Its sizes are sums of absolute
  // values throughout. In bf16 and fp16 the row's dot product takes the rounded `out`: half a last
  // place of all that adds up to it, and half as much again for fp16's smallest numbers. That
  // twice, if the probabilities in `out` were rounded too.
  const double dot_error = 1.5 * (storage_error(dtype, 1) + storage_error(factors, 1));
  // cuDNN rounds the gradients of each query head's keys and values before it sums a group.
  const double head_error = cudnn && group > 1 ? storage_error(dtype, 1) : 0;
  const Values dqkv = run_backward(dtype, s, dout, got, qkv, cudnn);
  const Values expected_dqkv = cpu::plain_attention_backward(s, dout, expected.probabilities, qkv);
  require_within(dtype, dqkv, expected_dqkv, 1,
                 bound_of(rounding_error(dtype, 2 * error + size + group * tokens + 8) + dot_error +
                              head_error,
                          magnitudes.dqkv, magnitudes.dqkv_of_factors));
  const size_t q = s.query_columns(), k = s.key_columns();
  return std::max(root_mean_square_error(got.out, expected.out, {q}),
                  root_mean_square_error(dqkv, expected_dqkv, {q, k, k}));
}

// With a causal mask and without one.
void compare_masks(DType dtype, const Sizes& s) {
  const Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
  compare(dtype, s, qkv);
  compare(dtype, without_mask(s), qkv);
}

TEST_CASE("attention equals the plain one, which has the full matrix of probabilities") {
  const OnDevice on = on_every_device();
  Sample sample(3);
  for (DType dtype : floats()) {
    for (size_t tokens : {1, 17, 63, 64, 65, 129, 300}) {
      for (size_t head_size : {1, 16, 17, 64}) {
        if (!sample.takes()) continue;
        const bool small = tokens < 100;
        const Sizes s{small ? 2u : 1u, tokens, small ? 3u : 1u, head_size};
        compare_masks(dtype, s);
      }
    }
  }
}

TEST_CASE("attention takes heads of every size") {
  const OnDevice on = on_every_device();
  Sample sample(2);
  for (DType dtype : floats()) {
    // Tiles of GPUs hold 32, 64 or 128 elements of a token; wider heads go in parts. Tensor cores
    // take multiples of 8 up to 128.
    for (size_t head_size : {8, 24, 32, 33, 63, 65, 80, 96, 100, 128, 130, 136, 260}) {
      if (!sample.takes()) continue;
      compare_masks(dtype, {1, 50, 2, head_size});
    }
  }
}

// As many key heads as query heads, one, and what is between.
const std::vector<Sizes> kShared = {
    {2, 17, 4, 8, 1}, {1, 65, 4, 17, 2},  {1, 33, 6, 16, 3}, {1, 129, 2, 64, 1}, {1, 300, 2, 8, 1},
    {2, 1, 4, 3, 2},  {1, 50, 2, 130, 1}, {1, 70, 2, 96, 1}, {1, 40, 2, 16, 2},
};

TEST_CASE("query heads share keys and values") {
  const OnDevice on = on_every_device();
  Sample sample(3);
  for (DType dtype : floats()) {
    for (const Sizes& s : kShared) {
      if (!sample.takes()) continue;
      compare_masks(dtype, s);
    }
  }
}

// Calls body(part, b, h, t, d) for every element of every query head's query, key and value.
template <class Body>
void for_elements(const Sizes& s, Body body) {
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t t = 0; t < s.tokens; ++t) {
        for (size_t d = 0; d < s.head_size; ++d) {
          for (auto part : {kQuery, kKey, kValue}) body(part, b, h, t, d);
        }
      }
    }
  }
}

// Compares with attention that has a copy of keys and values for every query head.
void compare_with_copies(DType dtype, const Sizes& s) {
  const Sizes of_copies{s.batch, s.tokens, s.heads, s.head_size, s.heads, s.mask};
  const Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
  const Values dout = random_values(dtype, s.out().num_elements(), "dout");
  Values copies(of_copies.qkv().num_elements());
  for_elements(s,
               [&](auto... element) { copies[of_copies.at(element...)] = qkv[s.at(element...)]; });
  const Outputs got = run_forward(dtype, s, qkv), expected = run_forward(dtype, of_copies, copies);
  require_same_bits(got.out, expected.out);
  require_same_bits(got.logsumexp, expected.logsumexp);

  const Values dqkv = run_backward(dtype, s, dout, got, qkv);
  const Values dcopies = run_backward(dtype, of_copies, dout, expected, copies);
  // Gradients of q have the same bits. Those of k and v add up the same terms in another order, and
  // those of copies were rounded before they are summed here.
  const Values p = cpu::plain_attention_forward(s, qkv).probabilities;
  const Magnitudes magnitudes = magnitudes_of(DType::fp64, s, dout, p, qkv);
  const double terms = static_cast<double>(s.tokens * s.heads / s.kv_heads);
  Values sums(dqkv.size()), bound(dqkv.size());
  for_elements(s, [&](auto part, auto... at) {
    const double gradient = dcopies[of_copies.at(part, at...)];
    const size_t i = s.at(part, at...);
    sums[i] += gradient;
    if (part == kQuery) return;
    if (bound[i] == 0) bound[i] = rounding_error(dtype, 2 * terms) * magnitudes.dqkv[i];
    bound[i] += storage_error(dtype, std::abs(gradient));
  });
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i] > 0) bound[i] += storage_error(dtype, std::abs(sums[i]) + bound[i]);
  }
  require_within(dqkv, sums, 1, bound);
}

TEST_CASE("shared keys and values are copies of them whose gradients are summed") {
  const OnDevice on = on_every_device();
  Sample sample(4);
  for (DType dtype : floats()) {
    for (const Sizes& s : kShared) {
      if (!sample.takes()) continue;
      INFO(name_of(dtype) << " T " << s.tokens << " NH " << s.heads << " NKV " << s.kv_heads);
      compare_with_copies(dtype, s);
      compare_with_copies(dtype, without_mask(s));
    }
  }
}

TEST_CASE("attention over several tiles, heads and sequences is off by its roundings only") {
  const OnDevice on = on_every_device();
  // Tensor cores sum up dq in the memory of dk and dv while tiles of 128 keys go by. A rounding to
  // 16 bits moves a number by 0.4 of what it may at most, on average. A gradient has up to four of
  // them on its way (out, the row's dot product, the score's gradient, itself), which add up like a
  // random walk: 0.8.
  for (DType dtype : {DType::bf16, DType::fp16}) {
    for (size_t head_size : {8, 64, 96}) {
      const Sizes s{2, 260, 2, head_size};
      const Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
      CHECK(compare(dtype, s, qkv) < storage_error(dtype, 1));
      CHECK(compare(dtype, without_mask(s), qkv) < storage_error(dtype, 1));
    }
  }
}

// Returns whether cuDNN's attention can be tested here, and says so if not.
bool has_cudnn() {
  if (num_devices(DeviceType::cuda) == 0) {
    WARN("skipped: no GPU, so no attention by cuDNN");
    return false;
  }
  try {
    CudnnAttention::require(DeviceType::cuda, DType::bf16, 64);
    return true;
  } catch (const UserError& refusal) {
    WARN("skipped: " << refusal.what());
    return false;
  }
}

TEST_CASE("cuDNN's attention equals the plain one, too, and its sums in a fixed order their bits") {
  if (!has_cudnn()) return;
  const OnDevice on({DeviceType::cuda, true});
  const auto order = GENERATE(Order::fixed, Order::any);
  for (const Sizes& s : {Sizes{2, 17, 3, 16}, Sizes{1, 1, 2, 64}, Sizes{1, 129, 2, 8},
                         Sizes{1, 50, 2, 128}, Sizes{1, 260, 3, 64}, Sizes{2, 17, 4, 8, 1},
                         Sizes{1, 33, 6, 16, 3}, Sizes{1, 300, 4, 64, 2}, Sizes{1, 70, 2, 96, 1}}) {
    for (DType dtype : {DType::bf16, DType::fp16}) {
      const Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
      const Values dout = random_values(dtype, s.out().num_elements(), "dout");
      const double own = compare(dtype, s, qkv), theirs = compare(dtype, s, qkv, order);
      INFO("root mean square errors: ours " << own << ", cuDNN's " << theirs);
      // One token sees itself alone, whatever its score: gradients of q and k are 0.
      if (s.tokens > 1) CHECK(theirs < 1.5 * storage_error(dtype, 1));
      if (order == Order::any) continue;
      const Outputs saved = run_forward(dtype, s, qkv, order);
      require_same_bits(run_forward(dtype, s, qkv, order).out, saved.out);
      require_same_bits(run_backward(dtype, s, dout, saved, qkv, order),
                        run_backward(dtype, s, dout, saved, qkv, order));
    }
  }
}

TEST_CASE("attention stays exact where exponentials alone would overflow or vanish") {
  const OnDevice on = on_every_device();
  // Scores grow along the keys to about 600 (exp overflows fp32 at 89): the running maximum moves
  // in every tile of keys. Or all are -3000 and less (exp is 0 below -104, in fp64 below -746).
  const auto [first, step] = GENERATE(table<double, double>({{0, 1}, {-1500, -0.125}}));
  const Sizes s{1, 300, 1, 16};
  for (DType dtype : floats()) {
    Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv", 0.25);
    for (size_t t = 0; t < s.tokens; ++t) {
      qkv[s.at(kQuery, 0, 0, t, 0)] = 8;
      qkv[s.at(kKey, 0, 0, t, 0)] = rounded(dtype, first + step * static_cast<double>(t));
    }
    compare(dtype, s, qkv);
    // A query that sees all keys sees some whose probability is 0 in less than fp64.
    if (dtype == DType::fp64) compare(dtype, without_mask(s), qkv);
  }
}

TEST_CASE("a token sees no later token with a causal mask, and all tokens without one") {
  const OnDevice on = on_every_device();
  const Sizes s{1, 300, 2, 16};
  for (DType dtype : floats()) {
    for (size_t changed : {1, 64, 100, 256, 299}) {
      Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
      const Values before = run_forward(dtype, s, qkv).out;
      const double first = run_forward(dtype, without_mask(s), qkv).out[0];
      for (size_t i = s.at(kQuery, 0, 0, changed, 0); i < qkv.size(); ++i) qkv[i] = -3 * qkv[i];
      const Values after = run_forward(dtype, s, qkv).out;
      const auto row = static_cast<Values::difference_type>(changed * s.query_columns());
      require_same_bits(Values(after.begin(), after.begin() + row),
                        Values(before.begin(), before.begin() + row));
      CHECK(after[changed * s.query_columns()] != before[changed * s.query_columns()]);
      CHECK(run_forward(dtype, without_mask(s), qkv).out[0] != first);
    }
  }
}

TEST_CASE("attention_backward is the gradient") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const size_t more_than_a_tile = place().device == DeviceType::cpu ? 66 : 34;
  for (const Sizes& s :
       {Sizes{1, 5, 2, 3}, Sizes{1, more_than_a_tile, 1, 2}, Sizes{1, 1, 2, 4},
        Sizes{1, 5, 4, 3, 2}, Sizes{1, more_than_a_tile, 2, 1, 1}, without_mask({1, 5, 4, 3, 2}),
        without_mask({1, more_than_a_tile, 1, 2})}) {
    const Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
    const Values dout = random_values(dtype, s.out().num_elements(), "dout");
    require_gradient(run_backward(dtype, s, dout, run_forward(dtype, s, qkv), qkv),
                     numeric_gradient(qkv, [&](const Values& x) {
                       return dot(run_forward(dtype, s, x).out, dout);
                     }));
  }
}

TEST_CASE("attention gives the same bits for any number of threads, and keeps NaN") {
  const OnDevice on = on_every_device();
  const auto [head_size, kv_heads] = GENERATE(table<size_t, size_t>({{16, 1}, {17, 2}}));
  const AttentionMask mask = GENERATE(AttentionMask::causal, AttentionMask::none);
  const Sizes s{2, 200, 2, head_size, kv_heads, mask};
  for (DType dtype : floats()) {
    Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
    const Values dout = random_values(dtype, s.out().num_elements(), "dout");
    const Outputs saved = run_forward(dtype, s, qkv);
    require_same_for_any_threads([&] { return run_forward(dtype, s, qkv).out; });
    require_same_for_any_threads([&] { return run_forward(dtype, s, qkv).logsumexp; });
    require_same_for_any_threads([&] { return run_backward(dtype, s, dout, saved, qkv); });
    qkv[s.at(kKey, 0, 0, 5, 0)] = std::nan("");
    const Values spoiled = run_forward(dtype, s, qkv).out;
    for (size_t t = mask == AttentionMask::causal ? 5 : 0; t < s.tokens; ++t) {
      if (!std::isnan(spoiled[s.at(0, 0, t, 0)])) FAIL("NaN was lost in row " << t);
    }
  }
}

}  // namespace
}  // namespace ladder
