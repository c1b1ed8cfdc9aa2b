// The versions of the product and of attention against plain loops, in shapes that are no multiples
// of any tile. tools/measure/versions/errors.cc derives how far rounding may move them.
#include "kernels/cuda/versions/versions.h"

#include "tests/kernels/support.h"
#include "tools/measure/versions/errors.h"

namespace ladder {
namespace {
using namespace testing;
using versions::attention_error, versions::product_error;

const ProductVersion& product_named(std::string_view name) {
  const auto all = product_versions();
  return *std::ranges::find(all, name, &ProductVersion::name);
}
const AttentionVersion& attention_named(std::string_view name) {
  const auto all = attention_versions();
  return *std::ranges::find(all, name, &AttentionVersion::name);
}

// The output begins as NaN, and so does all around the arguments.
void compare_product(const ProductVersion& version, size_t m, size_t n, size_t k) {
  INFO(version.name << " " << m << "x" << n << "x" << k);
  const Values a = random_values(DType::bf16, m * k, "a");
  const Values b = random_values(DType::bf16, k * n, "b");
  const Array c(DType::bf16, {m, n});
  version.run(stream(), c, Array(DType::bf16, {m, k}, a), Array(DType::bf16, {k, n}, b));
  CHECK(product_error(c.values(), a, b, k) <= 1);
}

TEST_CASE("each version of the product equals plain loops") {
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  for (const ProductVersion& version : product_versions()) {
    if (version.multiple > 1 && !place().aligned) continue;
    // One row, one pack; tiles of 32 and 128 and one more or less; slices of K of 16 and 32, of
    // which the last is smaller; more slices than there are tiles in shared memory.
    compare_product(version, 1, 8, 8);
    compare_product(version, 128, 128, 32);
    compare_product(version, 127, 136, 40);
    compare_product(version, 129, 120, 104);
    compare_product(version, 70, 264, 24);
    compare_product(version, 260, 16, 136);
    if (version.multiple > 1) continue;
    compare_product(version, 1, 1, 1);
    compare_product(version, 33, 31, 65);
    compare_product(version, 9, 33, 1);
  }
}

TEST_CASE("each version of the product keeps NaN where it belongs") {
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu || !place().aligned) return;
  const size_t m = 130, n = 136, k = 40;
  Values a(m * k, 1);
  a[129 * k + 39] = std::nan("");
  for (const ProductVersion& version : product_versions()) {
    INFO(version.name);
    const Array c(DType::bf16, {m, n});
    version.run(stream(), c, Array(DType::bf16, {m, k}, a),
                Array(DType::bf16, {k, n}, Values(k * n, 1)));
    const Values got = c.values();
    for (size_t i = 0; i < got.size(); ++i) REQUIRE(std::isnan(got[i]) == (i / n == 129));
  }
}

TEST_CASE("versions of the product say which matrices they do not take") {
  CHECK(product_named("naive").refusal(3, 5, 7).empty());
  CHECK(product_named("mma").refusal(3, 16, 24).empty());
  CHECK(product_named("mma").refusal(128, 20, 32) ==
        "product: version mma takes N and K that are multiples of 8, not 20 and 32");
  CHECK_THAT(product_named("vectorized").refusal(128, 16, 33), ContainsSubstring("not 16 and 33"));
  CHECK_THAT(product_named("naive").refusal(0, 8, 8), ContainsSubstring("M, N and K are 1 to"));
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  const auto run = [](const char* name, size_t n, const Shape& of_c) {
    product_named(name).run(stream(), Array(DType::bf16, of_c), Array(DType::bf16, {8, 8}),
                            Array(DType::bf16, {8, n}));
  };
  CHECK_THROWS_WITH(run("mma", 12, {8, 12}), ContainsSubstring("not 12 and 8"));
  CHECK_THROWS_WITH(run("naive", 8, {8, 9}), ContainsSubstring("argument `c`"));
  if (!place().aligned) {
    CHECK_THROWS_WITH(run("vectorized", 8, {8, 8}), ContainsSubstring("multiples of 16 bytes"));
  }
}

using Sizes = cpu::AttentionSizes;

void compare_attention(const AttentionVersion& version, const Sizes& s) {
  INFO(version.name << " B " << s.batch << " T " << s.tokens << " NH " << s.heads << " HS "
                    << s.head_size);
  const DType dtype = version.dtype;
  const Values qkv = random_values(DType::bf16, s.qkv().num_elements(), "qkv");
  const Array out(dtype, s.out()), logsumexp(DType::fp32, s.statistics());
  const Array scores(DType::fp32, {s.batch, s.heads, s.tokens, s.tokens});
  version.run(stream(), out, logsumexp, version.needs_scores ? scores.view() : TensorView(),
              Array(dtype, s.qkv(), qkv));
  const DType factors = version.name == "mma" ? DType::bf16 : DType::fp32;
  CHECK(attention_error(s, dtype, factors, out.values(), logsumexp.values(), qkv) <= 1);
}

TEST_CASE("each version of attention equals plain loops") {
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  for (const AttentionVersion& version : attention_versions()) {
    if (version.multiple > 1 && !place().aligned) continue;
    // One token; tiles of 32, 64 and 128 tokens and one more or less; heads of all widths.
    for (const Sizes& s : {Sizes{2, 1, 2, 8}, Sizes{1, 31, 3, 16}, Sizes{2, 33, 1, 64},
                           Sizes{1, 128, 2, 32}, Sizes{1, 129, 1, 40}, Sizes{1, 270, 1, 24}}) {
      compare_attention(version, s);
    }
    if (version.multiple > 1) continue;
    compare_attention(version, {1, 50, 2, 1});
    compare_attention(version, {1, 65, 1, 33});
  }
}

TEST_CASE("versions of attention say which heads they do not take") {
  CHECK(attention_named("naive").refusal(200).empty());
  CHECK(attention_named("mma").refusal(128).empty());
  CHECK(attention_named("tiled").refusal(65) ==
        "attention: version tiled takes heads whose size is a multiple of 1 up to 64, not 65");
  CHECK_THAT(attention_named("mma").refusal(136), ContainsSubstring("up to 128, not 136"));
  CHECK_THAT(attention_named("mma").refusal(20), ContainsSubstring("multiple of 8"));
  CHECK_THAT(attention_named("vectorized").refusal(6), ContainsSubstring("multiple of 4, not 6"));
  const OnDevice on = on_every_device();
  if (place().device == DeviceType::cpu) return;
  const Array out(DType::bf16, {1, 4, 20}), logsumexp(DType::fp32, {1, 1, 4});
  const Array qkv(DType::bf16, {1, 4, 60});
  const auto run = [&](const char* name) {
    attention_named(name).run(stream(), out, logsumexp, {}, qkv);
  };
  CHECK_THROWS_WITH(run("mma"), ContainsSubstring("multiple of 8 up to 128, not 20"));
  CHECK_THROWS_WITH(run("naive"), ContainsSubstring("argument `scores`"));
  CHECK_THROWS_WITH(run("vectorized"), ContainsSubstring("argument `out` is bf16"));
}

// What these tests rely on.
TEST_CASE("errors of versions: an element that is wrong is seen") {
  const Values a = {1, 2, 3, 4}, b = {1, 0, 0, 1};
  CHECK(product_error(a, a, b, 2) == 0);
  CHECK(product_error(Values{1, 2, 3, 4.125}, a, b, 2) > 1);
  CHECK(product_error(Values{1, 2, 3, std::nan("")}, a, b, 2) > 1e9);
  CHECK(product_error(Values{1, 2, 3, 5}, a, b, 2, 0, 2) == 0);  // that row is not looked at
  const Sizes s{1, 2, 1, 1};
  const Values qkv = {1, 1, 1, 1, 1, 3};  // both keys are alike: the mean of 1 and 3
  const double log2 = std::log(2.0) + 1;
  CHECK(attention_error(s, DType::bf16, DType::fp32, Values{1, 2}, Values{1, log2}, qkv) <= 1);
  CHECK(attention_error(s, DType::bf16, DType::fp32, Values{1, 2.5}, Values{1, log2}, qkv) > 1);
  CHECK(attention_error(s, DType::bf16, DType::fp32, Values{1, 2}, Values{1, 1}, qkv) > 1);
}

}  // namespace
}  // namespace ladder
