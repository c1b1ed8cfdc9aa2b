#include "kernels/embedding.h"

#include "tests/kernels/support.h"

namespace ladder {
namespace {
using namespace testing;

struct Sizes {
  size_t batch, tokens, vocab, hidden;

  Shape out() const { return {batch, tokens, hidden}; }
  size_t rows() const { return batch * tokens; }
};

// Fewer words than tokens, so that words repeat; and the other way round. Rows of 64 elements may
// be moved in packs; more than 512 words, or 1,024 columns, are more than the blocks of a kernel
// take.
const Sizes kSizes[] = {{1, 1, 1, 1},   {1, 17, 5, 17},   {3, 17, 65, 63}, {2, 63, 17, 65},
                        {2, 65, 7, 17}, {5, 65, 300, 65}, {4, 1, 63, 1},   {2, 9, 5, 64},
                        {1, 9, 600, 2}, {1, 9, 2, 1030}};

TEST_CASE("embedding_forward copies rows of the table") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      const Values table = random_values(dtype, s.vocab * s.hidden, "table");
      const Values tokens = random_tokens(s.rows(), s.vocab, "tokens");
      const Array out(dtype, s.out());
      embedding_forward(stream(), out, Array(DType::int32, {s.batch, s.tokens}, tokens),
                        Array(dtype, {s.vocab, s.hidden}, table));
      Values expected(s.rows() * s.hidden);
      for (size_t r = 0; r < s.rows(); ++r) {
        for (size_t i = 0; i < s.hidden; ++i) {
          expected[r * s.hidden + i] = table[static_cast<size_t>(tokens[r]) * s.hidden + i];
        }
      }
      require_same_bits(out.values(), expected);
    }
  }
}

TEST_CASE("embedding_backward adds to the table in the order of the tokens, for any threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      const DType sums = accumulation_dtype(dtype);
      const Values start = random_values(sums, s.vocab * s.hidden, "start");
      const Values dout = random_values(dtype, s.rows() * s.hidden, "dout");
      const Values tokens = random_tokens(s.rows(), s.vocab, "tokens");
      Values expected = start;
      for (size_t r = 0; r < s.rows(); ++r) {
        for (size_t i = 0; i < s.hidden; ++i) {
          double& element = expected[static_cast<size_t>(tokens[r]) * s.hidden + i];
          element = rounded(sums, element + dout[r * s.hidden + i]);
        }
      }
      require_same_for_any_threads([&] {
        const Array dtable(sums, {s.vocab, s.hidden}, start);
        embedding_backward(stream(), dtable, Array(DType::int32, {s.batch, s.tokens}, tokens),
                           Array(dtype, s.out(), dout));
        require_same_bits(dtable.values(), expected);
        return dtable.values();
      });
    }
  }
}

// Slices [first, first + rows) of a vocabulary: its begin, its middle, its end, and one that holds
// none of the tokens.
std::vector<std::pair<size_t, size_t>> slices_of(size_t vocab) {
  return {
      {0, (vocab + 1) / 2}, {vocab / 3, 1 + vocab / 3}, {vocab / 2, vocab - vocab / 2}, {vocab, 3}};
}

Values rows_of(const Values& table, size_t first, size_t rows, size_t columns) {
  Values slice(rows * columns, 0.5);
  for (size_t i = 0; i < slice.size() && first * columns + i < table.size(); ++i) {
    slice[i] = table[first * columns + i];
  }
  return slice;
}

TEST_CASE("embedding_forward of a slice gives zeros for the tokens of others") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      const Values table = random_values(dtype, s.vocab * s.hidden, "table");
      const Values tokens = random_tokens(s.rows(), s.vocab, "tokens");
      for (const auto& [first, rows] : slices_of(s.vocab)) {
        const Array slice(dtype, {rows, s.hidden}, rows_of(table, first, rows, s.hidden));
        const Array out(dtype, s.out());
        embedding_forward(stream(), out, Array(DType::int32, {s.batch, s.tokens}, tokens), slice,
                          first);
        Values expected(s.rows() * s.hidden, 0);
        for (size_t i = 0; i < expected.size(); ++i) {
          const size_t token = static_cast<size_t>(tokens[i / s.hidden]);
          if (token < first || token >= first + rows) continue;
          expected[i] = table[token * s.hidden + i % s.hidden];
        }
        require_same_bits(out.values(), expected);
      }
    }
  }
}

TEST_CASE("embedding_backward of a slice is that slice of the whole") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      const DType sums = accumulation_dtype(dtype);
      const Values start = random_values(sums, s.vocab * s.hidden, "start");
      const Array dout(dtype, s.out(), random_values(dtype, s.rows() * s.hidden, "dout"));
      const Array tokens(DType::int32, {s.batch, s.tokens},
                         random_tokens(s.rows(), s.vocab, "tokens"));
      const Array whole(sums, {s.vocab, s.hidden}, start);
      embedding_backward(stream(), whole, tokens, dout);
      for (const auto& [first, rows] : slices_of(s.vocab)) {
        const Array part(sums, {rows, s.hidden}, rows_of(start, first, rows, s.hidden));
        embedding_backward(stream(), part, tokens, dout, first);
        require_same_bits(part.values(), rows_of(whole.values(), first, rows, s.hidden));
      }
    }
  }
}

TEST_CASE("position_forward adds the first rows of its table, and may write over its input") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      for (size_t more : {0, 3}) {
        const Values table = random_values(dtype, (s.tokens + more) * s.hidden, "table");
        const Values start = random_values(dtype, s.rows() * s.hidden, "start");
        const Array out(dtype, s.out()), in(dtype, s.out(), start);
        const Array places(dtype, {s.tokens + more, s.hidden}, table);
        Values expected = start;
        for (size_t i = 0; i < expected.size(); ++i) {
          expected[i] = stored(dtype, start[i] + table[i % (s.tokens * s.hidden)]);
        }
        position_forward(stream(), out, in, places);
        require_same_bits(out.values(), expected);
        require_same_bits(in.values(), start);
        position_forward(stream(), in, in, places);
        require_same_bits(in.values(), expected);
      }
    }
  }
}

TEST_CASE("position_backward adds the sum over sequences, and only to the first rows") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (const Sizes& s : kSizes) {
      const size_t row = s.tokens * s.hidden;
      const DType sums = accumulation_dtype(dtype);
      const Values start = random_values(sums, row + 3 * s.hidden, "start");
      const Values dout = random_values(dtype, s.batch * row, "dout");
      Values expected = start, size(start.size(), 0);
      for (size_t i = 0; i < dout.size(); ++i) {
        expected[i % row] += dout[i];
        size[i % row] += std::abs(dout[i]) + std::abs(start[i % row]);
      }
      require_same_for_any_threads([&] {
        const Array dtable(sums, {s.tokens + 3, s.hidden}, start);
        position_backward(stream(), dtable, Array(dtype, s.out(), dout));
        // B additions; the rows after T have size 0: not a bit may change.
        require_within(dtable.values(), expected,
                       rounding_error(dtype, static_cast<double>(s.batch)), size);
        return dtable.values();
      });
    }
  }
}

TEST_CASE("positions name the rows of the table that tokens have") {
  const OnDevice on = on_every_device();
  const Sizes s{2, 5, 4, 33};
  const std::vector<size_t> places = {6, 0, 3, 4, 1};
  const Array positions(DType::int32, {5}, {6, 0, 3, 4, 1});
  for (DType dtype : floats()) {
    const DType sums = accumulation_dtype(dtype);
    const Values table = random_values(dtype, 7 * s.hidden, "table");
    const Values in = random_values(dtype, s.rows() * s.hidden, "in");
    Values expected(in.size()), dtable(table.size(), 1);
    for (size_t i = 0; i < in.size(); ++i) {
      const size_t row = places[i / s.hidden % s.tokens];
      expected[i] = stored(dtype, in[i] + table[row * s.hidden + i % s.hidden]);
      double& sum = dtable[row * s.hidden + i % s.hidden];
      sum = rounded(sums, sum + in[i]);
    }
    const Array out(dtype, s.out(), in), sum(sums, {7, s.hidden}, Values(table.size(), 1));
    position_backward(stream(), sum, out, positions);
    require_same_bits(sum.values(), dtable);
    position_forward(stream(), out, out, Array(dtype, {7, s.hidden}, table), positions);
    require_same_bits(out.values(), expected);
  }
}

TEST_CASE("embedding and position backward are the gradients") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const Sizes s{2, 5, 4, 3};
  const Array tokens(DType::int32, {s.batch, s.tokens}, random_tokens(s.rows(), s.vocab, "tokens"));
  const Values table = random_values(dtype, s.vocab * s.hidden, "table");
  const Values positions = random_values(dtype, s.tokens * s.hidden, "positions");
  const Values dout = random_values(dtype, s.rows() * s.hidden, "dout");
  const auto loss = [&](const Values& words, const Values& places) {
    const Array out(dtype, s.out());
    embedding_forward(stream(), out, tokens, Array(dtype, {s.vocab, s.hidden}, words));
    position_forward(stream(), out, out, Array(dtype, {s.tokens, s.hidden}, places));
    return dot(out.values(), dout);
  };
  const Values start = random_values(dtype, table.size(), "start");
  const Array dtable(dtype, {s.vocab, s.hidden}, start), d(dtype, s.out(), dout);
  embedding_backward(stream(), dtable, tokens, d);
  require_gradient(
      dtable.values(),
      sum_of(numeric_gradient(table, [&](const Values& x) { return loss(x, positions); }), start));

  const Values place_start = random_values(dtype, positions.size(), "start");
  const Array dplaces(dtype, {s.tokens, s.hidden}, place_start);
  position_backward(stream(), dplaces, d);
  require_gradient(
      dplaces.values(),
      sum_of(numeric_gradient(positions, [&](const Values& x) { return loss(table, x); }),
             place_start));
}

}  // namespace
}  // namespace ladder
