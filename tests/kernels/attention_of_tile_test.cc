// Attention in blocks: a rank has the tokens of slices A and C of sequences A, B, C, and another
// rank has B. What the blocks make together is plain attention over the whole sequences.
#include "kernels/attention_of_tile.h"

#include "kernels/attention_merge.h"
#include "kernels/cpu/plain_attention.h"
#include "tests/kernels/support.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/access.h"
#include "kernels/emulator/launch.h"
#endif

namespace ladder {
namespace {
using namespace testing;

using Sizes = cpu::AttentionSizes;
using cpu::kKey, cpu::kQuery, cpu::kValue, cpu::QkvVector;

struct Slices {
  size_t a, b, c;

  size_t tokens() const { return a + b + c; }
  size_t own() const { return a + c; }
  // The place in the sequence of token t of A and C.
  size_t position(size_t t) const { return t < a ? t : b + t; }
};

// The tokens of B, and one more that no query may see.
size_t keys_of_other(const Slices& s) { return s.b + 1; }

struct Results {
  Values out, logsumexp, dq, dkv, dkv_of_other;
};

// Elements of `parts` of qkv of the tokens that `position` names; random numbers where it names
// none.
template <class Position>
Values taken(DType dtype, const Sizes& all, const Values& qkv, size_t tokens,
             std::vector<QkvVector> parts, Position position) {
  const auto columns = [&](QkvVector part) {
    return part == kQuery ? all.query_columns() : all.key_columns();
  };
  size_t of_token = 0;
  for (QkvVector part : parts) of_token += columns(part);
  Values values = random_values(dtype, all.batch * tokens * of_token, "unseen");
  for (size_t b = 0, n = 0; b < all.batch; ++b) {
    for (size_t t = 0; t < tokens; ++t) {
      for (QkvVector part : parts) {
        for (size_t i = 0; i < columns(part); ++i, ++n) {
          if (position(t) < all.tokens) values[n] = qkv[all.at(part, b, 0, position(t), i)];
        }
      }
    }
  }
  return values;
}

// What the rank of A and C computes. row_dot is given, since the test's `out` is not rounded.
Results run_blocks(DType dtype, const Sizes& all, const Slices& s, const Values& qkv,
                   const Values& dout, const Values& row_dot_values) {
  const DType sums = accumulation_dtype(dtype);
  const size_t b = all.batch, c = all.query_columns(), k = all.key_columns();
  const size_t other = keys_of_other(s);
  const Shape own = {b, s.own(), c}, rows = {b, all.heads, s.own()};
  const auto mine = [&](size_t t) { return s.position(t); };
  const auto theirs = [&](size_t t) { return t < s.b ? s.a + t : all.tokens; };
  const Array x(dtype, {b, s.own(), c + 2 * k},
                taken(dtype, all, qkv, s.own(), {kQuery, kKey, kValue}, mine));
  const Array kv(dtype, {b, s.own(), 2 * k}, taken(dtype, all, qkv, s.own(), {kKey, kValue}, mine));
  const Array kv_of_other(dtype, {b, other, 2 * k},
                          taken(dtype, all, qkv, other, {kKey, kValue}, theirs));
  const ScoreTile diagonal = {0, s.own(), s.own(), true}, whole = {s.a, s.c, s.b};

  const Array out(sums, own), logsumexp(sums, rows), partial(sums, own), partial_lse(sums, rows);
  attention_of_tile_forward(stream(), out, logsumexp, x, kv, diagonal);
  attention_of_tile_forward(stream(), partial, partial_lse, x, kv_of_other, whole);
  attention_merge(stream(), out, logsumexp, partial, partial_lse, s.a, s.c);

  const Array row_dot(sums, rows, row_dot_values), d(dtype, own, dout);
  const Array dq(sums, own, Values(own.num_elements()));
  const Array dkv(sums, kv.view().shape(), Values(kv.view().num_elements()));
  const Array dkv_of_other(sums, {b, other, 2 * k}, Values(b * other * 2 * k));
  attention_of_tile_backward(stream(), dq, dkv, row_dot, d, logsumexp, x, kv, diagonal);
  attention_of_tile_backward(stream(), dq, dkv_of_other, row_dot, d, logsumexp, x, kv_of_other,
                             whole);
  return {out.values(), logsumexp.values(), dq.values(), dkv.values(), dkv_of_other.values()};
}

// Plain attention's results for the tokens of A and C, if only these have a gradient.
struct Expected {
  Expected(const Sizes& all, const Slices& s, const Values& qkv, const Values& dout_of_own) {
    const size_t c = all.query_columns(), k = all.key_columns();
    const auto forward = cpu::plain_attention_forward(all, qkv);
    Values dout(all.out().num_elements());
    for (size_t b = 0; b < all.batch; ++b) {
      for (size_t t = 0; t < s.own(); ++t) {
        for (size_t i = 0; i < c; ++i) {
          dout[all.at(b, 0, s.position(t), i)] = dout_of_own[(b * s.own() + t) * c + i];
        }
      }
    }
    const Values dqkv = cpu::plain_attention_backward(all, dout, forward.probabilities, qkv);
    const auto mine = [&](size_t t) { return s.position(t); };
    results.dq = taken(DType::fp64, all, dqkv, s.own(), {kQuery}, mine);
    results.dkv = taken(DType::fp64, all, dqkv, s.own(), {kKey, kValue}, mine);
    results.dkv_of_other = taken(DType::fp64, all, dqkv, keys_of_other(s), {kKey, kValue},
                                 [&](size_t t) { return t < s.b ? s.a + t : all.tokens; });
    for (size_t b = 0; b < all.batch; ++b) {  // the token that no query sees has no gradient
      const size_t end = (b + 1) * keys_of_other(s) * 2 * k;
      std::fill_n(&results.dkv_of_other[end - 2 * k], 2 * k, 0.0);
    }
    for (size_t b = 0; b < all.batch; ++b) {
      for (size_t t = 0; t < s.own(); ++t) {
        for (size_t i = 0; i < c; ++i) {
          results.out.push_back(forward.out[all.at(b, 0, s.position(t), i)]);
        }
      }
      for (size_t h = 0; h < all.heads; ++h) {
        for (size_t t = 0; t < s.own(); ++t) {
          const size_t p = s.position(t);
          results.logsumexp.push_back(forward.logsumexp[(b * all.heads + h) * all.tokens + p]);
          double sum = 0;
          for (size_t i = 0; i < all.head_size; ++i) {
            sum += dout[all.at(b, h, p, i)] * forward.out[all.at(b, h, p, i)];
          }
          row_dot.push_back(sum);
        }
      }
    }
  }
  Results results;
  Values row_dot;
};

void require_near(DType dtype, const char* name, size_t terms, const Values& got,
                  const Values& expected) {
  INFO(name);
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  REQUIRE(largest > 1e-3);
  // Sums of so many terms, each off by a few roundings of scores and exponentials (tens); the terms
  // of the largest element do not cancel much.
  const double bound = rounding_error(dtype, 50 + 2 * static_cast<double>(terms)) * largest;
  require_within(got, expected, bound, Values(got.size(), 1));
}

TEST_CASE("blocks of keys, merged, are attention over all keys, and so are their gradients") {
  const OnDevice on = on_every_device();
  struct Heads {
    size_t num_heads, size, num_kv_heads;
  };
  for (DType dtype : floats()) {
    for (const Slices& s : {Slices{1, 1, 1}, Slices{5, 3, 4}, Slices{70, 300, 65}}) {
      for (const auto& [heads, head_size, kv_heads] :
           {Heads{2, 16, 2}, Heads{4, 16, 2}, Heads{2, 17, 2}, Heads{2, 17, 1}, Heads{3, 130, 1}}) {
        if (s.tokens() > 100 && head_size != 17) continue;
        const Sizes all{2, s.tokens(), heads, head_size, kv_heads};
        INFO(name_of(dtype) << " A " << s.a << " B " << s.b << " C " << s.c << " NH " << heads
                            << " NKV " << kv_heads << " HS " << head_size);
        const Values qkv = random_values(dtype, all.qkv().num_elements(), "qkv");
        const Values dout = random_values(dtype, all.batch * s.own() * all.query_columns(), "dout");
        const Expected expected(all, s, qkv, dout);
        const Results got = run_blocks(dtype, all, s, qkv, dout, expected.row_dot);
        const Results& e = expected.results;
        require_near(dtype, "out", s.tokens(), got.out, e.out);
        require_near(dtype, "logsumexp", s.tokens(), got.logsumexp, e.logsumexp);
        require_near(dtype, "dq", s.tokens(), got.dq, e.dq);
        require_near(dtype, "dkv", s.tokens(), got.dkv, e.dkv);
        require_near(dtype, "dkv of the other", s.tokens(), got.dkv_of_other, e.dkv_of_other);
      }
    }
  }
}

TEST_CASE("a block touches its queries only, and gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  const size_t kv_heads = GENERATE(1, 2), kv_columns = 2 * kv_heads * 16;
  const Shape shape = {2, 70, 32}, rows = {2, 2, 70}, kv_shape = {2, 21, kv_columns};
  const ScoreTile block = {3, 65, 20};
  for (DType dtype : floats()) {
    const DType sums = accumulation_dtype(dtype);
    const Shape qkv_shape = {2, 70, 32 + kv_columns};
    const Array qkv(dtype, qkv_shape, random_values(dtype, qkv_shape.num_elements(), "qkv"));
    const Array kv(dtype, kv_shape, random_values(dtype, kv_shape.num_elements(), "kv"));
    const Array dout(dtype, shape, random_values(dtype, shape.num_elements(), "dout"));
    const Values ones(shape.num_elements(), 1), stat_ones(rows.num_elements(), 1);
    const auto forward = [&] {
      const Array out(sums, shape, ones), lse(sums, rows, stat_ones);
      attention_of_tile_forward(stream(), out, lse, qkv, kv, block);
      return out.values();
    };
    const auto merged = [&] {
      const Array out(sums, shape, forward()), lse(sums, rows, stat_ones);
      attention_merge(stream(), out, lse, Array(sums, shape, Values(shape.num_elements(), 3)),
                      Array(sums, rows, stat_ones), 3, 65);
      return out.values();
    };
    const auto backward = [&] {
      const Array dq(sums, shape, ones), dkv(sums, kv_shape, Values(kv_shape.num_elements(), 1));
      const Array lse(sums, rows, stat_ones), row_dot(sums, rows, stat_ones);
      attention_of_tile_backward(stream(), dq, dkv, row_dot, dout, lse, qkv, kv, block);
      Values both = dq.values(), second = dkv.values();
      CHECK(second.back() == 1);  // key 20 is not in the block
      both.insert(both.end(), second.begin(), second.end());
      return both;
    };
    for (const auto& run : {std::function<Values()>(forward), std::function<Values()>(merged),
                            std::function<Values()>(backward)}) {
      require_same_for_any_threads(run);
      const Values got = run();
      for (size_t t = 0; t < 70; ++t) {
        const bool is_touched = got[t * 32] != 1;
        CHECK(is_touched == (t >= 3 && t < 68));
      }
    }
  }
}

TEST_CASE("a merge of results that differ by any factor neither overflows nor divides by zero") {
  const OnDevice on = on_every_device();
  for (DType dtype : kAccumulation) {
    // Queries: one side counts alone; the other one does; both count alike; 3 to 1.
    const Array out(dtype, {1, 4, 2}, {1, 2, 1, 2, 1, 2, 1, 2});
    const Array lse(dtype, {1, 1, 4}, {5000, -5000, -7000, std::log(3)});
    const Array other(dtype, {1, 4, 2}, {5, 6, 5, 6, 5, 6, 5, 6});
    const Array other_lse(dtype, {1, 1, 4}, {-5000, 5000, -7000, 0});
    attention_merge(stream(), out, lse, other, other_lse, 0, 4);
    const Values expected = {1, 2, 5, 6, 3, 4, 2, 3};
    const Values logs = {5000, 5000, -7000 + std::log(2), std::log(4)};
    require_within(out.values(), expected, rounding_error(dtype, 30), expected);
    Values sizes = logs;
    for (double& size : sizes) size = std::abs(size) + 1;
    require_within(lse.values(), logs, rounding_error(dtype, 10), sizes);
  }
}

TEST_CASE("attention_row_dot sums each head's dout * out") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    const Sizes s{2, 67, 2, 17};
    const Values dout = random_values(dtype, s.out().num_elements(), "dout");
    const Values out = random_values(dtype, s.out().num_elements(), "out");
    const Array row_dot(accumulation_dtype(dtype), s.statistics());
    attention_row_dot(stream(), row_dot, Array(dtype, s.out(), dout), Array(dtype, s.out(), out));
    Values expected(s.statistics().num_elements()), size = expected;
    for (size_t b = 0, row = 0; b < s.batch; ++b) {
      for (size_t h = 0; h < s.heads; ++h) {
        for (size_t t = 0; t < s.tokens; ++t, ++row) {
          for (size_t d = 0; d < s.head_size; ++d) {
            const double term = dout[s.at(b, h, t, d)] * out[s.at(b, h, t, d)];
            expected[row] += term;
            size[row] += std::abs(term);
          }
        }
      }
    }
    require_within(row_dot.values(), expected, rounding_error(dtype, 18), size);
  }
}

#if LADDER_CUDA_EMULATOR
// CUDA has 65,535 thread blocks in y and in z.
struct RequireGridsInX final : emulator::Observer {
  RequireGridsInX() { attach(*this); }
  ~RequireGridsInX() override { detach(*this); }
  void launch_begins(const emulator::KernelCall& call) override {
    INFO(call.name);
    CHECK((call.grid.x > 1 && call.grid.y == 1 && call.grid.z == 1));
  }
};

TEST_CASE("kernels count tokens and heads in the dimension of a grid that has room for them") {
  const OnDevice on(Place{DeviceType::emulator, true});
  const size_t batch = 2, tokens = 130, heads = 3, hidden = 24;
  const RequireGridsInX require;
  for (DType dtype : floats()) {
    const DType sums = accumulation_dtype(dtype);
    const auto vectors = [&](DType of, size_t parts) {
      return Array(of, {batch, tokens, parts * hidden}, Values(batch * tokens * parts * hidden, 1));
    };
    const auto rows = [&] {
      return Array(sums, {batch, heads, tokens}, Values(batch * heads * tokens, 1));
    };
    const ScoreTile block = {.num_queries = tokens, .num_keys = tokens};
    const Array qkv = vectors(dtype, 3), kv = vectors(dtype, 2), out = vectors(dtype, 1);
    const Array logsumexp = rows(), row_dot = rows(), partial = vectors(sums, 1);
    const Array dqkv = vectors(dtype, 3), dkv = vectors(sums, 2);
    attention_forward(stream(), out, logsumexp, qkv, AttentionMask::causal);
    attention_backward(stream(), dqkv, row_dot, out, out, logsumexp, qkv, AttentionMask::causal);
    attention_of_tile_forward(stream(), partial, logsumexp, qkv, kv, block);
    attention_of_tile_backward(stream(), partial, dkv, row_dot, out, logsumexp, qkv, kv, block);
    attention_merge(stream(), vectors(sums, 1), logsumexp, partial, rows(), 0, tokens);
    stream().synchronize();
  }
}
#endif

}  // namespace
}  // namespace ladder
