// Runs a product and attention's forward version by version (kernels/cuda/versions/README.md):
//   bazel run //kernels:versions -- --gpu h100            counts what they do
//   bazel run --config=cuda //kernels:versions            times them on this machine's GPU
// --measured FILE, a file with what the second command printed, puts its times into the first one's
// tables.
#include <array>
#include <charconv>
#include <iostream>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cuda/versions/versions.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/runtime/gpu.h"
#include "tools/measure/versions/bench.h"
#include "tools/measure/versions/errors.h"
#include "tools/programs/small_program.h"

namespace ladder::versions {
namespace {

using Values = std::vector<double>;

// What rungs run on.
struct Machine {
  Memory memory{cuda_device_of_build(), "device", 0}, host{DeviceType::cpu, "host", 0};
  Stream stream{cuda_device_of_build()};

  Tensor tensor(DType dtype, const Shape& shape) {
    return Tensor(memory, Category::workspace, dtype, shape);
  }
  Tensor normal(DType dtype, const Shape& shape, uint64_t key) {
    Tensor numbers = tensor(dtype, shape);
    fill_normal(stream, numbers, key, 0, 1);
    return numbers;
  }
  Values values(const TensorView& view) {
    const Tensor on_host(host, Category::workspace, view.dtype(), view.shape());
    copy(stream, on_host, view);
    stream.synchronize();
    return dispatch_float(view.dtype(), [&](auto zero) {
      const auto* const first = on_host.view().as<decltype(zero)>();
      return Values(first, first + view.num_elements());
    });
  }
};

// M, N, K, and B, T, NH, HS.
using ProductSizes = std::array<size_t, 3>;
using AttentionSizes = std::array<size_t, 4>;

// Parses numbers with an x between them. Throws a UserError that names the flag.
template <size_t kN>
std::array<size_t, kN> sizes_of(const char* flag, const char* letters, const std::string& text) {
  std::array<size_t, kN> sizes{};
  const char *at = text.data(), *const end = at + text.size();
  bool good = true;
  for (size_t i = 0; i < kN && good; ++i) {
    if (i > 0) good = at != end && *at++ == 'x';
    const auto [next, error] = std::from_chars(at, end, sizes[i]);
    good = good && error == std::errc() && sizes[i] > 0 && sizes[i] < (size_t{1} << 31);
    at = next;
  }
  if (good && at == end) return sizes;
  throw UserError(concat(flag, " ", text, ": expected positive numbers ", letters));
}

// The last rung of the products.
void multiply_by_cublas(Stream& stream, TensorView c, ConstTensorView a, ConstTensorView b) {
  matmul(stream, c, a, b);
}

struct ProductRung {
  std::string_view name, idea;
  std::function<void(Stream&, TensorView, ConstTensorView, ConstTensorView)> run;
};

std::vector<ProductRung> product_ladder() {
  std::vector<ProductRung> ladder;
  for (const ProductVersion& version : product_versions()) {
    ladder.push_back({version.name, version.idea,
                      [&version](Stream& stream, TensorView c, ConstTensorView a,
                                 ConstTensorView b) { version.run(stream, c, a, b); }});
  }
  ladder.push_back({"cuBLAS", "NVIDIA's", multiply_by_cublas});
  return ladder;
}

// Returns a rung for each version, cuBLAS last. If `is_checked`, they are run and compared.
std::vector<Rung> product_rungs(Machine& machine, const ProductSizes& sizes, bool is_checked) {
  const auto [m, n, k] = sizes;
  const auto a = std::make_shared<Tensor>(machine.normal(DType::bf16, {m, k}, 1));
  const auto b = std::make_shared<Tensor>(machine.normal(DType::bf16, {k, n}, 2));
  const auto c = std::make_shared<Tensor>(machine.tensor(DType::bf16, {m, n}));
  const double flops = matmul_cost(*c, *a, *b).product_flops;
  const Values of_a = is_checked ? machine.values(*a) : Values();
  const Values of_b = is_checked ? machine.values(*b) : Values();
  std::vector<Rung> rungs;
  for (const ProductRung& rung : product_ladder()) {
    const auto run = [=, run = rung.run](Stream& stream) { run(stream, *c, *a, *b); };
    double error = -1;
    if (is_checked) {
      fill(machine.stream, *c, 0);
      run(machine.stream);
      // Some rows, from all parts of a tile.
      error = product_error(machine.values(*c), of_a, of_b, k, 0, m < 512 ? 1 : m / 16 + 5);
    }
    rungs.push_back({std::string(rung.name), std::string(rung.idea), flops, run, error});
  }
  return rungs;
}

// Head h of sequence b of a tensor (B, T, P NH HS), as (T, P HS).
Values head_of(const Values& all, const AttentionSizes& sizes, size_t parts, size_t b, size_t h) {
  const auto [B, T, NH, HS] = sizes;
  Values head;
  for (size_t t = 0; t < T; ++t) {
    for (size_t part = 0; part < parts; ++part) {
      const size_t first = (((b * T + t) * parts + part) * NH + h) * HS;
      for (size_t d = 0; d < HS; ++d) head.push_back(all[first + d]);
    }
  }
  return head;
}

// The largest error in the first head of the first sequence and the last of the last.
double error_of_heads(const AttentionVersion& version, const AttentionSizes& sizes,
                      const Values& out, const Values& logsumexp, const Values& qkv) {
  const auto [B, T, NH, HS] = sizes;
  // Tensor cores multiply bf16 only.
  const DType factors = version.name == "mma" ? DType::bf16 : DType::fp32;
  double worst = 0;
  for (const auto& [b, h] : {std::pair{size_t{0}, size_t{0}}, {B - 1, NH - 1}}) {
    const auto first = logsumexp.begin() + static_cast<std::ptrdiff_t>((b * NH + h) * T);
    worst = std::max(
        worst, attention_error({1, T, 1, HS}, version.dtype, factors, head_of(out, sizes, 1, b, h),
                               Values(first, first + static_cast<std::ptrdiff_t>(T)),
                               head_of(qkv, sizes, 3, b, h)));
  }
  return worst;
}

std::vector<Rung> attention_rungs(Machine& machine, const AttentionSizes& sizes, bool is_checked) {
  const auto [B, T, NH, HS] = sizes;
  std::vector<Rung> rungs;
  const auto scores = std::make_shared<Tensor>(machine.tensor(DType::fp32, {B, NH, T, T}));
  const auto logsumexp = std::make_shared<Tensor>(machine.tensor(DType::fp32, {B, NH, T}));
  const Tensor numbers = machine.normal(DType::bf16, {B, T, 3 * NH * HS}, 3);
  for (const AttentionVersion& version : attention_versions()) {
    const auto qkv = std::make_shared<Tensor>(machine.tensor(version.dtype, numbers.shape()));
    const auto out = std::make_shared<Tensor>(machine.tensor(version.dtype, {B, T, NH * HS}));
    cast(machine.stream, *qkv, numbers);
    const auto run = [=, &version](Stream& stream) {
      version.run(stream, *out, *logsumexp, version.needs_scores ? scores->view() : TensorView(),
                  *qkv);
    };
    double error = -1;
    if (is_checked) {
      run(machine.stream);
      error = error_of_heads(version, sizes, machine.values(*out), machine.values(*logsumexp),
                             machine.values(*qkv));
    }
    rungs.push_back(
        {std::string(version.name), std::string(version.idea),
         attention_forward_cost(*out, *logsumexp, *qkv, AttentionMask::causal).product_flops, run,
         error});
  }
  return rungs;
}

// Throws a UserError if a version does not take the sizes.
void refuse(const std::vector<ProductSizes>& products, const std::vector<AttentionSizes>& all) {
  for (const auto& [m, n, k] : products) {
    for (const ProductVersion& version : product_versions()) {
      if (const auto why = version.refusal(m, n, k); !why.empty()) throw UserError(why);
    }
  }
  for (const auto& [B, T, NH, HS] : all) {
    for (const AttentionVersion& version : attention_versions()) {
      if (const auto why = version.refusal(HS); !why.empty()) throw UserError(why);
    }
  }
}

// Small, and no multiples of any tile.
constexpr ProductSizes kSmallProduct = {201, 136, 88};
constexpr AttentionSizes kSmallAttention = {2, 150, 2, 40};

// Prints a table, and returns whether all was right. Where results are not whole the errors are
// those of `small`.
bool show(Bench& bench, Machine& machine, const std::string& title, std::vector<Rung> rungs,
          std::span<const Rung> small) {
  bool right = true;
  for (size_t i = 0; i < rungs.size(); ++i) {
    rungs[i].error = std::max(rungs[i].error, small[i].error);
    right = right && rungs[i].error <= 1;
  }
  std::cout << bench.table(title, rungs, machine.stream) << "\n" << std::flush;
  return right;
}

int run(int argc, char** argv) {
  CLI::App app("Runs a product and attention version by version.", "versions");
  Bench bench;
  // Those of GPT-2 124M, or what the emulator counts in a minute.
  const bool whole = bench.results_are_whole();
  std::vector<std::string> products = {"4096x4096x4096", "16384x3072x768"};
  std::vector<std::string> attentions = {whole ? "16x1024x12x64" : "2x256x12x64"};
  if (!whole) products = {"1024x1024x1024"};
  app.add_option("--product", products, "MxNxK of C = A B")->capture_default_str();
  app.add_option("--attention", attentions, "BxTxNHxHS of attention")->capture_default_str();
  bench.add_flags(app);
  return run_small_program(app, argc, argv, [&] {
    std::vector<ProductSizes> of_products;
    std::vector<AttentionSizes> of_attentions;
    for (const auto& text : products) {
      of_products.push_back(sizes_of<3>("--product", "MxNxK", text));
    }
    for (const auto& text : attentions) {
      of_attentions.push_back(sizes_of<4>("--attention", "BxTxNHxHS", text));
    }
    refuse(of_products, of_attentions);
    const DeviceType device = device_named(std::string(name_of(cuda_device_of_build())));
    select_device(device, 0);
    require_code_for(device);
    Machine machine;
    const std::vector<Rung> small_product = product_rungs(machine, kSmallProduct, true);
    const std::vector<Rung> small_attention = attention_rungs(machine, kSmallAttention, true);
    bench.begin();
    bool right = true;
    for (size_t i = 0; i < products.size(); ++i) {
      right &= show(bench, machine, concat("C = A B, bf16, M x N x K = ", products[i]),
                    product_rungs(machine, of_products[i], whole), small_product);
    }
    for (size_t i = 0; i < attentions.size(); ++i) {
      right &=
          show(bench, machine, concat("attention's forward, B x T x NH x HS = ", attentions[i]),
               attention_rungs(machine, of_attentions[i], whole), small_attention);
    }
    std::cout << bench.legend() << std::flush;
    check(std::cout.good(), "standard output could not be written to the end");
    if (!right) throw Error("a version is wrong: its error is above 1");
    return 0;
  });
}

}  // namespace
}  // namespace ladder::versions

int main(int argc, char** argv) { return ladder::versions::run(argc, argv); }
