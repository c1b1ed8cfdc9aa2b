#include "kernels/matmul.h"

#include "kernels/runtime/cuda.h"
#include "tests/kernels/support.h"

#if LADDER_CUDA_EMULATOR
#include <cublas_v2.h>

#include "kernels/emulator/refusals.h"
#endif

namespace ladder {
namespace {
using namespace testing;

struct Product {
  Values out, size;  // size: the sum of the terms' absolute values
};

Product reference_matmul(size_t m, size_t n, size_t k, const Values& a, const Values& b,
                         const Values& start, MatmulOptions options) {
  Product product{Values(m * n), Values(m * n)};
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double total = options.accumulate ? start[i * n + j] : 0, size = std::abs(total);
      for (size_t p = 0; p < k; ++p) {
        const double term = a[options.transpose_a ? p * m + i : i * k + p] *
                            b[options.transpose_b ? j * k + p : p * n + j];
        total += term;
        size += std::abs(term);
      }
      product.out[i * n + j] = total;
      product.size[i * n + j] = size;
    }
  }
  return product;
}

Values run_matmul(DType dtype, DType out_dtype, size_t m, size_t n, size_t k, const Values& a,
                  const Values& b, const Values& start, MatmulOptions options) {
  const Array x(dtype, options.transpose_a ? Shape{k, m} : Shape{m, k}, a);
  const Array y(dtype, options.transpose_b ? Shape{n, k} : Shape{k, n}, b);
  // Without accumulate the output begins as NaN: it must be overwritten.
  const Array out = options.accumulate ? Array(out_dtype, {m, n}, start) : Array(out_dtype, {m, n});
  matmul(stream(), out, x, y, options);
  require_same_bits(x.values(), a);
  require_same_bits(y.values(), b);
  return out.values();
}

// The output is of the factors' dtype.
Values run_matmul(DType dtype, size_t m, size_t n, size_t k, const Values& a, const Values& b,
                  const Values& start, MatmulOptions options) {
  return run_matmul(dtype, dtype, m, n, k, a, b, start, options);
}

void compare_all_options(DType dtype, DType out, size_t m, size_t n, size_t k) {
  const Values a = random_values(dtype, m * k, "a"), b = random_values(dtype, k * n, "b");
  const Values start = random_values(out, m * n, "start");
  for (int bits = 0; bits < 8; ++bits) {
    const MatmulOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    INFO(name_of(dtype) << " into " << name_of(out) << " " << m << "x" << n << "x" << k
                        << " options " << bits);
    const Product expected = reference_matmul(m, n, k, a, b, start, options);
    // k products and k additions in any order, fused or not: a term is rounded at most k + 1 times.
    require_within(out, run_matmul(dtype, out, m, n, k, a, b, start, options), expected.out,
                   rounding_error(dtype, static_cast<double>(k) + 1), expected.size);
  }
}

// With every dtype that the output may have.
void compare_all_options(DType dtype, size_t m, size_t n, size_t k) {
  compare_all_options(dtype, dtype, m, n, k);
  const DType sums = accumulation_dtype(dtype);
  if (sums != dtype) compare_all_options(dtype, sums, m, n, k);
}

TEST_CASE("matmul equals the reference for all transposes, with and without accumulation") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t m : kOddSizes) {
      for (size_t n : kOddSizes) {
        for (size_t k : kOddSizes) compare_all_options(dtype, m, n, k);
      }
    }
    compare_all_options(dtype, 100, 150, 257);
  }
}

// A matrix whose rows begin where products want them, with NaN between them.
class Padded {
 public:
  Padded(DType dtype, size_t rows, size_t columns, const Values& values)
      : columns_(columns), memory_(dtype, {rows, pitch()}, spaced(rows, values)) {}

  TensorView view() const { return memory_.view().first_columns(columns_); }
  // Returns the elements of the matrix. What is between its rows must be as it was.
  Values values() const {
    Values kept;
    const Values all = memory_.values();
    for (size_t i = 0; i < all.size(); ++i) {
      if (i % pitch() < columns_) {
        kept.push_back(all[i]);
      } else if (!std::isnan(all[i])) {
        FAIL("element " << i << ", between the rows, became " << all[i]);
      }
    }
    return kept;
  }

 private:
  size_t pitch() const { return (columns_ + 7) / 8 * 8; }
  Values spaced(size_t rows, const Values& values) const {
    Values all(rows * pitch(), std::nan(""));
    for (size_t i = 0; i < values.size(); ++i) {
      all[i / columns_ * pitch() + i % columns_] = values[i];
    }
    return all;
  }

  size_t columns_;
  Array memory_;
};

// An extent of 64 or more that lies along rows is computed in two parts if it is no multiple of 8.
TEST_CASE("matmul of matrices whose rows lie apart") {
  const OnDevice on = on_every_device();
  struct Extents {
    size_t m, n, k;
  };
  for (const Extents& e : {Extents{65, 16, 24}, Extents{16, 65, 24}, Extents{16, 24, 65},
                           Extents{67, 71, 77}, Extents{33, 7, 5}}) {
    for (DType dtype : floats()) {
      for (int bits = 0; bits < 8; ++bits) {
        const MatmulOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
        for (DType out_dtype : {dtype, accumulation_dtype(dtype)}) {
          INFO(name_of(dtype) << " into " << name_of(out_dtype) << " " << e.m << "x" << e.n << "x"
                              << e.k << " options " << bits);
          const Values a = random_values(dtype, e.m * e.k, "a");
          const Values b = random_values(dtype, e.k * e.n, "b");
          const Values start = random_values(out_dtype, e.m * e.n, "start");
          const Padded x(dtype, options.transpose_a ? e.k : e.m, options.transpose_a ? e.m : e.k,
                         a);
          const Padded y(dtype, options.transpose_b ? e.n : e.k, options.transpose_b ? e.k : e.n,
                         b);
          const Padded out(out_dtype, e.m, e.n,
                           options.accumulate ? start : Values(start.size(), std::nan("")));
          matmul(stream(), out.view(), x.view(), y.view(), options);
          const Product expected = reference_matmul(e.m, e.n, e.k, a, b, start, options);
          // As above; and a sum in two parts is stored, and rounded, twice, the first time with few
          // of its terms.
          const double stored_twice = storage_error(out_dtype, 1);
          require_within(out_dtype, out.values(), expected.out,
                         rounding_error(dtype, static_cast<double>(e.k) + 1) + stored_twice,
                         expected.size);
        }
      }
    }
  }
}

TEST_CASE("matmul rounds the sum to bf16 or fp16 once, however long it is") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    if (accumulation_dtype(dtype) == dtype) continue;
    // Sums of so many terms are of the size of 32; their rounding errors in fp32 are bounded by
    // less than 0.05, bf16's half last place is 0.06 there. Partial sums rounded one by one would
    // be off by several of these.
    compare_all_options(dtype, 17, 33, 1025);
  }
}

TEST_CASE("matmul of fp16 becomes infinite above 65,504, but not in fp32") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    if (dtype != DType::fp16) continue;
    const Values a = {256, 256, 256, 0, -256, -256}, b = {128, 255.5, 128, 0};
    const double infinity = std::numeric_limits<double>::infinity();
    require_same_bits(run_matmul(dtype, 3, 2, 2, a, b, {}, {}),
                      {infinity, 65408, 32768, 65408, -infinity, -65408});
    require_same_bits(run_matmul(dtype, DType::fp32, 3, 2, 2, a, b, {}, {}),
                      {65536, 65408, 32768, 65408, -65536, -65408});
  }
}

TEST_CASE("NaN in a factor spoils its row or column of the product, and no other element") {
  const OnDevice on = on_every_device();
  const size_t m = 65, n = 63, k = 17;
  for (DType dtype : floats()) {
    Values a = random_values(dtype, m * k, "a"), b = random_values(dtype, k * n, "b");
    a[5 * k + 3] = b[4 * n + 7] = std::nan("");
    const Values out = run_matmul(dtype, m, n, k, a, b, {}, {});
    for (size_t i = 0; i < m * n; ++i) {
      if (std::isnan(out[i]) != (i / n == 5 || i % n == 7)) FAIL("element " << i << ": " << out[i]);
    }
  }
}

TEST_CASE("matmul in fp64 and fp16 gives the same bits for any number of threads") {
  const OnDevice on = on_every_device();
  const size_t m = 100, n = 150, k = 257;
  for (DType dtype : floats()) {
    if (dtype != DType::fp64 && dtype != DType::fp16) continue;
    const Values a = random_values(dtype, m * k, "a"), b = random_values(dtype, k * n, "b");
    const Values start = random_values(dtype, m * n, "start");
    for (int bits = 0; bits < 8; ++bits) {
      const MatmulOptions options{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
      require_same_for_any_threads(
          [&] { return run_matmul(dtype, m, n, k, a, b, start, options); });
    }
  }
}

TEST_CASE("matmul gives the same bits twice") {
  const OnDevice on = on_every_device();
  const size_t m = 100, n = 150, k = 257;
  for (DType dtype : floats()) {
    const Values a = random_values(dtype, m * k, "a"), b = random_values(dtype, k * n, "b");
    for (bool transpose_b : {false, true}) {
      const MatmulOptions options{.transpose_b = transpose_b};
      const Values first = run_matmul(dtype, m, n, k, a, b, {}, options);
      require_same_bits(run_matmul(dtype, m, n, k, a, b, {}, options), first);
    }
  }
}

TEST_CASE("set_tf32 rounds the factors of fp32 products on a GPU, and changes nothing else") {
  const OnDevice on = on_every_device();
  const size_t m = 65, n = 63, k = 257;
  for (DType dtype : floats()) {
    const Values a = random_values(dtype, m * k, "a"), b = random_values(dtype, k * n, "b");
    const Values before = run_matmul(dtype, m, n, k, a, b, {}, {});
    set_tf32(true);
    const Values got = run_matmul(dtype, m, n, k, a, b, {}, {});
    set_tf32(false);
    if (place().device != DeviceType::cpu && dtype == DType::fp32) {
      // Two factors, each off by 2^-11; cutting off instead of rounding would double that.
      const Product expected = reference_matmul(m, n, k, a, b, {}, {});
      const double error = 4.01 * 0x1p-11 + rounding_error(dtype, static_cast<double>(k) + 1);
      require_within(got, expected.out, error, expected.size);
      CHECK(got != before);
    } else {
      require_same_bits(got, before);
    }
    require_same_bits(run_matmul(dtype, m, n, k, a, b, {}, {}), before);
  }
}

TEST_CASE("what cuBLAS holds for a stream ends with the stream") {
  const OnDevice on = on_every_device();
  if (place().device != DeviceType::emulator) return;  // a GPU keeps some memory for later
  const auto free_bytes = [] {
    size_t free = 0, total = 0;
    cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  };
  const auto make = [] { return Tensor(memory(), Category::workspace, DType::fp32, {16, 16}); };
  const Tensor out = make(), a = make(), b = make();
  const size_t before = free_bytes();
  for (int i = 0; i < 3; ++i) {
    Stream own(place().device);
    matmul(own, out, a, b);
    own.synchronize();
    CHECK(free_bytes() < before);
  }
  CHECK(free_bytes() == before);
}

TEST_CASE("the three products of a linear layer are its gradients") {
  const OnDevice on = on_every_device();
  const DType dtype = DType::fp64;
  const size_t rows = 5, inputs = 7, outputs = 6;
  const Values in = random_values(dtype, rows * inputs, "in");
  const Values weight = random_values(dtype, inputs * outputs, "weight");
  const Values bias = random_values(dtype, outputs, "bias");
  const Values dout = random_values(dtype, rows * outputs, "dout");
  const auto loss = [&](const Values& x, const Values& w, const Values& b) {
    const Array out(dtype, {rows, outputs});
    matmul(stream(), out, Array(dtype, {rows, inputs}, x), Array(dtype, {inputs, outputs}, w));
    add_bias(stream(), out, Array(dtype, {outputs}, b));
    return dot(out.values(), dout);
  };
  const Array d(dtype, {rows, outputs}, dout);
  const Values start = random_values(dtype, inputs * outputs, "start");

  const Array din(dtype, {rows, inputs});
  matmul(stream(), din, d, Array(dtype, {inputs, outputs}, weight), {.transpose_b = true});
  require_gradient(din.values(),
                   numeric_gradient(in, [&](const Values& x) { return loss(x, weight, bias); }));

  const Array dweight(dtype, {inputs, outputs}, start);
  matmul(stream(), dweight, Array(dtype, {rows, inputs}, in), d,
         {.transpose_a = true, .accumulate = true});
  require_gradient(
      dweight.values(),
      sum_of(numeric_gradient(weight, [&](const Values& w) { return loss(in, w, bias); }), start));

  const Values bias_start(start.begin(), start.begin() + outputs);
  const Array dbias(dtype, {outputs}, bias_start);
  bias_backward(stream(), dbias, d);
  require_gradient(
      dbias.values(),
      sum_of(numeric_gradient(bias, [&](const Values& b) { return loss(in, weight, b); }),
             bias_start));
}

TEST_CASE("add_bias adds the bias to each row") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : kOddSizes) {
      for (size_t n : {1, 17, 63, 64, 65}) {
        const Values start = random_values(dtype, rows * n, "start");
        const Values bias = random_values(dtype, n, "bias");
        const Array out(dtype, {rows, n}, start);
        add_bias(stream(), out, Array(dtype, {n}, bias));
        Values expected = start;
        for (size_t i = 0; i < rows * n; ++i) {
          expected[i] = stored(dtype, start[i] + bias[i % n]);
        }
        require_same_bits(out.values(), expected);
      }
    }
  }
}

TEST_CASE("bias_backward adds the sum over rows, whatever the threads") {
  const OnDevice on = on_every_device();
  for (DType dtype : floats()) {
    for (size_t rows : {0, 1, 17, 63, 65, 300}) {
      for (size_t n : {1, 17, 63, 64, 65, 264, 300, 700}) {  // 64 and 264 consist of packs
        const DType sums = accumulation_dtype(dtype);
        const Values dout = random_values(dtype, rows * n, "dout");
        const Values start = random_values(sums, n, "start");
        Values expected = start, size(n);
        for (size_t i = 0; i < n; ++i) size[i] = std::abs(start[i]);
        for (size_t i = 0; i < rows * n; ++i) {
          expected[i % n] += dout[i];
          size[i % n] += std::abs(dout[i]);
        }
        const auto run = [&] {
          const Array dbias(sums, {n}, start);
          bias_backward(stream(), dbias, Array(dtype, {rows, n}, dout));
          return dbias.values();
        };
        // `rows` additions in any order.
        require_within(run(), expected, rounding_error(dtype, static_cast<double>(rows)), size);
        if (rows >= 65 && n >= 264) require_same_for_any_threads(run);
      }
    }
  }
}

// A GPU gives each of at most 512 thread blocks a part of the rows: here 65 or more, which a warp
// sums in several rounds. All sums are whole numbers below 2^24, so they are exact in any order.
TEST_CASE("bias_backward of more rows than thread blocks sum at once") {
  const OnDevice on = on_every_device();
  for (DType dtype : {DType::bf16, DType::fp16}) {
    const size_t rows = 33'001, n = 8;
    Values dout(rows * n), expected(n, 1);
    for (size_t i = 0; i < dout.size(); ++i) {
      dout[i] = static_cast<double>((3 * i + i / n) % 9) - 2;
      expected[i % n] += dout[i];
    }
    const Array dbias(accumulation_dtype(dtype), {n}, Values(n, 1));
    bias_backward(stream(), dbias, Array(dtype, {rows, n}, dout));
    require_same_bits(dbias.values(), expected);
  }
}

#if LADDER_CUDA_EMULATOR
TEST_CASE("cuBLAS without device memory says so in one line") {
  const OnDevice on(Place{DeviceType::emulator, true});
  const Array a(DType::fp32, {2, 2}, {1, 2, 3, 4}), out(DType::fp32, {2, 2});
  const auto error_of = [&](const emulator::Refused& calls) -> std::string {
    const emulator::Refusal refusal(calls);
    Stream new_one(DeviceType::emulator);  // its first product makes a handle
    try {
      matmul(new_one, out, a, a);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string of_workspace = error_of({"cudaMalloc", cudaErrorMemoryAllocation});
  const std::string of_handle = error_of({"cublasCreate", CUBLAS_STATUS_ALLOC_FAILED});
  CHECK_THAT(of_workspace, StartsWith("out of device memory: cuBLAS, whose workspace takes 32 MiB, "
                                      "finds no more, with "));
  CHECK_THAT(of_handle,
             StartsWith("out of device memory: cuBLAS (cublasCreate) finds no more, with "));
  for (const std::string& error : {of_workspace, of_handle}) {
    CHECK_THAT(error, ContainsSubstring(" free; take a smaller --micro-batch-size, or a smaller "));
    CHECK(error.find('\n') == std::string::npos);
  }
}
#endif

}  // namespace
}  // namespace ladder
