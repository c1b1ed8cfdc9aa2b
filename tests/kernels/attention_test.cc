#include "kernels/attention.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

struct Sizes {
  size_t batch, tokens, heads, head_size;

  size_t hidden() const { return heads * head_size; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_size)); }
  Shape qkv() const { return {batch, tokens, 3 * hidden()}; }
  Shape out() const { return {batch, tokens, hidden()}; }
  Shape rows() const { return {batch, heads, tokens}; }
  // Where element d of head h of token t lies in qkv (part 0, 1, 2 is q, k, v) and in out.
  size_t at(size_t part, size_t b, size_t h, size_t t, size_t d) const {
    return (b * tokens + t) * 3 * hidden() + part * hidden() + h * head_size + d;
  }
  size_t at(size_t b, size_t h, size_t t, size_t d) const {
    return (b * tokens + t) * hidden() + h * head_size + d;
  }
};

enum Part : size_t { kQuery, kKey, kValue };

struct Forward {
  explicit Forward(const Sizes& s)
      : out(s.out().num_elements()), logsumexp(s.rows().num_elements()), out_size(out) {}

  Values out, logsumexp;
  Values out_size;         // sum over keys of p |v|
  double score_error = 0;  // the largest error of a score, in units of 2^-24 (2^-53)
};

struct Backward {
  explicit Backward(const Sizes& s) : dqkv(s.qkv().num_elements()), size(dqkv) {}

  Values dqkv, size;
};

// Calls use(b, h, probabilities (T, T) of that head).
template <class Use>
void for_heads(const Sizes& s, const Values& qkv, Forward& f, Use use) {
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      Values p(s.tokens * s.tokens);
      for (size_t i = 0; i < s.tokens; ++i) {
        Values score(i + 1);
        for (size_t j = 0; j <= i; ++j) {
          double size = 0;
          for (size_t d = 0; d < s.head_size; ++d) {
            const double term = qkv[s.at(kQuery, b, h, i, d)] * qkv[s.at(kKey, b, h, j, d)];
            score[j] += s.scale() * term;
            size += s.scale() * std::abs(term);
          }
          // HS products and additions, the rounded scale (1 / sqrt: 2) and its product; then the
          // maximum (or logsumexp, itself rounded) is taken off: a rounding of each.
          f.score_error = std::max(f.score_error, (static_cast<double>(s.head_size) + 4) * size +
                                                      4 * std::abs(score[j]));
        }
        // Softmax does not see a shift.
        const double largest = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (size_t j = 0; j <= i; ++j) {
          p[i * s.tokens + j] = std::exp(score[j] - largest);
          total += p[i * s.tokens + j];
        }
        for (size_t j = 0; j <= i; ++j) p[i * s.tokens + j] /= total;
        f.logsumexp[(b * s.heads + h) * s.tokens + i] = largest + std::log(total);
      }
      use(b, h, p);
    }
  }
}

Forward reference_forward(const Sizes& s, const Values& qkv) {
  Forward f(s);
  for_heads(s, qkv, f, [&](size_t b, size_t h, const Values& p) {
    for (size_t i = 0; i < s.tokens; ++i) {
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = 0; d < s.head_size; ++d) {
          const double term = p[i * s.tokens + j] * qkv[s.at(kValue, b, h, j, d)];
          f.out[s.at(b, h, i, d)] += term;
          f.out_size[s.at(b, h, i, d)] += std::abs(term);
        }
      }
    }
  });
  return f;
}

// The chain rule, step by step: dp = dout v^T, ds = p (dp - sum p dp), dq = scale ds k, ...
Backward reference_backward(const Sizes& s, const Values& dout, const Values& qkv) {
  Backward g(s);
  Forward f(s);
  const size_t n = s.tokens;
  for_heads(s, qkv, f, [&](size_t b, size_t h, const Values& p) {
    for (size_t i = 0; i < n; ++i) {
      Values dp(n), dp_size(n);
      double mean = 0, mean_size = 0;
      for (size_t j = 0; j <= i; ++j) {
        for (size_t d = 0; d < s.head_size; ++d) {
          const double term = dout[s.at(b, h, i, d)] * qkv[s.at(kValue, b, h, j, d)];
          dp[j] += term;
          dp_size[j] += std::abs(term);
        }
        mean += p[i * n + j] * dp[j];
        mean_size += p[i * n + j] * dp_size[j];
      }
      for (size_t j = 0; j <= i; ++j) {
        const double ds = p[i * n + j] * (dp[j] - mean) * s.scale();
        const double ds_size = p[i * n + j] * (dp_size[j] + mean_size) * s.scale();
        const auto add = [&](Part part, size_t t, size_t d, double value, double size) {
          g.dqkv[s.at(part, b, h, t, d)] += value;
          g.size[s.at(part, b, h, t, d)] += std::abs(size);
        };
        for (size_t d = 0; d < s.head_size; ++d) {
          const double q = qkv[s.at(kQuery, b, h, i, d)], k = qkv[s.at(kKey, b, h, j, d)];
          const double o = dout[s.at(b, h, i, d)];
          add(kQuery, i, d, ds * k, ds_size * k);
          add(kKey, j, d, ds * q, ds_size * q);
          add(kValue, j, d, p[i * n + j] * o, p[i * n + j] * o);
        }
      }
    }
  });
  return g;
}

struct Outputs {
  Values out, logsumexp;
};

Outputs run_forward(DType dtype, const Sizes& s, const Values& qkv) {
  const Array out(dtype, s.out()), logsumexp(accumulation_dtype(dtype), s.rows());
  attention_forward(stream(), out, logsumexp, Array(dtype, s.qkv(), qkv));
  return {out.values(), logsumexp.values()};
}

Values run_backward(DType dtype, const Sizes& s, const Values& dout, const Outputs& saved,
                    const Values& qkv) {
  const DType sums = accumulation_dtype(dtype);
  const Array dqkv(dtype, s.qkv()), row_dot(sums, s.rows());
  attention_backward(stream(), dqkv, row_dot, Array(dtype, s.out(), dout),
                     Array(dtype, s.out(), saved.out), Array(sums, s.rows(), saved.logsumexp),
                     Array(dtype, s.qkv(), qkv));
  // row_dot receives sum over the head of dout * out, HS products and additions.
  Values expected(s.rows().num_elements()), size = expected;
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

void compare(DType dtype, const Sizes& s, const Values& qkv) {
  INFO(name_of(dtype) << " B " << s.batch << " T " << s.tokens << " NH " << s.heads << " HS "
                      << s.head_size);
  const double tokens = static_cast<double>(s.tokens), size = static_cast<double>(s.head_size);
  const Forward expected = reference_forward(s, qkv);
  const Outputs got = run_forward(dtype, s, qkv);
  // An exponential is off by its argument's error (score_error, twice: the score's and the
  // maximum's) and by 4 ulp (8 units). Every later block of keys corrects it: an exponential (8)
  // and a product (1). A block has at least 16 keys. Numerator and denominator have all this, and
  // both are sums of T terms; few roundings follow.
  const double corrections = 9 * (tokens / 16 + 1);
  const double error = 2 * (2 * expected.score_error + tokens + 8 + corrections) + 4;
  require_within(dtype, got.out, expected.out, rounding_error(dtype, error), expected.out_size);
  // The logarithm turns the relative error into an absolute one, and has 4 ulp of its own.
  Values log_size(expected.logsumexp.size(), error);
  for (size_t i = 0; i < log_size.size(); ++i) log_size[i] += 9 * std::abs(expected.logsumexp[i]);
  require_within(got.logsumexp, expected.logsumexp, rounding_error(dtype, 1), log_size);

  // Backward has p with that error, dp and the row's dot product with the rounding of HS terms and
  // the error of `out`, then sums of T terms. Its sizes are sums of absolute values throughout. In
  // bf16 and fp16 the row's dot product takes the rounded `out`: half a last place of all that adds
  // up to it, and half as much again for fp16's smallest numbers.
  const Values dout = random_values(dtype, s.out().num_elements(), "dout");
  const Backward gradient = reference_backward(s, dout, qkv);
  require_within(
      dtype, run_backward(dtype, s, dout, got, qkv), gradient.dqkv,
      rounding_error(dtype, 2 * error + size + tokens + 8) + 1.5 * storage_error(dtype, 1),
      gradient.size);
}

TEST_CASE("attention equals the reference with its full matrix of probabilities") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t tokens : {1, 17, 63, 64, 65, 129, 300}) {
      for (size_t head_size : {1, 16, 17, 64}) {
        const bool small = tokens < 100;
        const Sizes s{small ? 2u : 1u, tokens, small ? 3u : 1u, head_size};
        compare(dtype, s, random_values(dtype, s.qkv().num_elements(), "qkv"));
      }
    }
  }
}

TEST_CASE("attention takes heads of every size") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    // Tiles of GPUs hold 32, 64 or 128 elements of a token; wider heads go in parts.
    for (size_t head_size : {32, 33, 63, 65, 100, 128, 130, 260}) {
      const Sizes s{1, 50, 2, head_size};
      compare(dtype, s, random_values(dtype, s.qkv().num_elements(), "qkv"));
    }
  }
}

TEST_CASE("attention stays exact where exponentials alone would overflow or vanish") {
  const OnDevice on = on_every_device();
  // Scores grow along the keys to about 600 (exp overflows fp32 at 89): the running maximum moves
  // in every block of keys. Or all are -3000 and less (exp is 0 below -104, in fp64 below -746).
  const auto [first, step] = GENERATE(table<double, double>({{0, 1}, {-1500, -0.125}}));
  const Sizes s{1, 300, 1, 16};
  for (DType dtype : floats()) {
    Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv", 0.25);
    for (size_t t = 0; t < s.tokens; ++t) {
      qkv[s.at(kQuery, 0, 0, t, 0)] = 8;
      qkv[s.at(kKey, 0, 0, t, 0)] = rounded(dtype, first + step * static_cast<double>(t));
    }
    compare(dtype, s, qkv);
  }
}

TEST_CASE("a token sees no later token") {
  const OnDevice on = on_every_device();
  const Sizes s{1, 300, 2, 16};
  for (DType dtype : floats()) {
    for (size_t changed : {1, 64, 100, 256, 299}) {
      Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
      const Values before = run_forward(dtype, s, qkv).out;
      for (size_t i = s.at(kQuery, 0, 0, changed, 0); i < qkv.size(); ++i) qkv[i] = -3 * qkv[i];
      const Values after = run_forward(dtype, s, qkv).out;
      const auto row = static_cast<Values::difference_type>(changed * s.hidden());
      require_same_bits(Values(after.begin(), after.begin() + row),
                        Values(before.begin(), before.begin() + row));
      CHECK(after[changed * s.hidden()] != before[changed * s.hidden()]);
    }
  }
}

TEST_CASE("attention_backward is the gradient") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const size_t more_than_a_tile = place().device == DeviceType::cpu ? 66 : 34;
  for (const Sizes& s : {Sizes{1, 5, 2, 3}, Sizes{1, more_than_a_tile, 1, 2}, Sizes{1, 1, 2, 4}}) {
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
  const Sizes s{2, 200, 2, 17};
  for (DType dtype : floats()) {
    Values qkv = random_values(dtype, s.qkv().num_elements(), "qkv");
    const Values dout = random_values(dtype, s.out().num_elements(), "dout");
    const Outputs saved = run_forward(dtype, s, qkv);
    require_same_for_any_threads([&] { return run_forward(dtype, s, qkv).out; });
    require_same_for_any_threads([&] { return run_forward(dtype, s, qkv).logsumexp; });
    require_same_for_any_threads([&] { return run_backward(dtype, s, dout, saved, qkv); });
    qkv[s.at(kKey, 0, 0, 5, 0)] = std::nan("");
    const Values spoiled = run_forward(dtype, s, qkv).out;
    for (size_t t = 5; t < s.tokens; ++t) {
      if (!std::isnan(spoiled[s.at(0, 0, t, 0)])) FAIL("NaN was lost in row " << t);
    }
  }
}

}  // namespace
}  // namespace ladder
