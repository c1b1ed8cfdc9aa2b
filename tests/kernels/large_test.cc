// Tensors of more than 2^32 elements, on reserved addresses instead of memory: kernels find the
// last of them. Of each kernel only its last share runs, on the CPU that of the last of many
// threads, on the emulator the last block of the grid; it must compute what it computes of the end
// alone.
#include <sys/mman.h>

#include <algorithm>

#include "kernels/adamw.h"
#include "kernels/attention_merge.h"
#include "kernels/attention_of_tile.h"
#include "kernels/classifier.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gelu.h"
#include "kernels/head_norm.h"
#include "kernels/layernorm.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/swiglu.h"
#include "tests/kernels/last_thread.h"
#include "tests/kernels/support.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/arena.h"
#include "kernels/emulator/launch.h"
#endif

namespace ladder {
namespace {
using namespace testing;

constexpr size_t kRows = (size_t{1} << 16) + 512, kColumns = size_t{1} << 16;
constexpr size_t kElements = kRows * kColumns;
static_assert(kElements - kColumns > size_t{1} << 32, "the last row lies beyond 2^32 elements");

// A GPU would have to have the memory: there the CPU alone is tested.
OnDevice on_devices_without_memory() {
#if LADDER_CUDA_EMULATOR
  return OnDevice(GENERATE(Place{DeviceType::cpu, true}, Place{DeviceType::emulator, true}));
#else
  return OnDevice(Place{DeviceType::cpu, true});
#endif
}

// Zeros, more than there is memory for.
class Reserved {
 public:
  explicit Reserved(size_t bytes) : bytes_(bytes) {
#if LADDER_CUDA_EMULATOR
    if (device_ == DeviceType::emulator) {
      begin_ = emulator::Arena::instance().reserve(bytes);
      return;
    }
#endif
    void* const mapped = mmap(nullptr, bytes + 2 * kGap, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    begin_ = static_cast<char*>(mapped) + kGap;
    REQUIRE(mprotect(begin_, bytes, PROT_READ | PROT_WRITE) == 0);
    madvise(begin_, bytes, MADV_NOHUGEPAGE);
  }
  ~Reserved() {
    if (device_ == DeviceType::cpu) {
      munmap(static_cast<char*>(begin_) - kGap, bytes_ + 2 * kGap);
    } else {
#if LADDER_CUDA_EMULATOR
      emulator::Arena::instance().release(begin_);
#endif
    }
  }
  Reserved(const Reserved&) = delete;
  Reserved& operator=(const Reserved&) = delete;

  void* begin() const { return begin_; }

 private:
  // Closed, on either side: as far as an index goes astray that was cut to 32 bits.
  static constexpr size_t kGap = size_t{16} << 30;

  DeviceType device_ = place().device;
  size_t bytes_;
  void* begin_;
#if LADDER_CUDA_EMULATOR
  emulator::DeviceAccess access_;  // all the time: to fence so many pages off takes long
#endif
};

// Other numbers with every call.
Values new_values(DType dtype, size_t n) {
  static int number = 0;
  return random_values(dtype, n, concat("large ", ++number));
}

// A large tensor, and its end as a tensor of its own: both hold the same values.
class Pair {
 public:
  Pair(DType dtype, const Shape& large, const Shape& end, const Values& values)
      : reserved_(large.num_elements() * size_of(dtype)),
        large_(reserved_.begin(), dtype, place().device, large),
        end_(dtype, end, values) {
    copy(stream(), last(end.num_elements()), end_.view().reshape({end.num_elements()}));
    stream().synchronize();
  }
  Pair(DType dtype, const Shape& large, const Shape& end)
      : Pair(dtype, large, end, new_values(dtype, end.num_elements())) {}

  TensorView large() const { return large_; }
  TensorView end() const { return end_; }

  // The last `count` elements are the same, and not all zero.
  void require_same(size_t count) const {
    const Array got(large_.dtype(), {count});
    copy(stream(), got, last(count));
    const Values values = got.values(), of_end = end_.values();
    require_same_bits(values,
                      Values(of_end.end() - static_cast<std::ptrdiff_t>(count), of_end.end()));
    CHECK(std::ranges::any_of(values, [](double x) { return x != 0; }));
  }

 private:
  TensorView last(size_t count) const {
    return large_.elements(large_.num_elements() - count, {count});
  }

  Reserved reserved_;
  TensorView large_;
  Array end_;
};

Pair zeros(DType dtype, const Shape& large, const Shape& end) {
  return Pair(dtype, large, end, Values(end.num_elements()));
}

// Calls run(pick) where pick(pair) is the large tensor, as the last of `threads` threads, and once
// more where it is the end.
template <class Run>
void run_both(size_t threads, Run run) {
  {
    const LastThreadOf last(static_cast<int>(threads));
#if LADDER_CUDA_EMULATOR
    const emulator::OuterBlocksOnly outer;
#endif
    run([](const Pair& pair) { return pair.large(); });
    stream().synchronize();
  }
  run([](const Pair& pair) { return pair.end(); });
}

// Of elementwise kernels the last 2,048 elements are a CPU thread's share, the last 200 at least a
// block's of a GPU.
constexpr size_t kFlatEnd = 2048, kFlatCompared = 200, kFlatThreads = kElements / kFlatEnd;
const Shape kFlat = {kElements}, kEndOfFlat = {kFlatEnd};

TEST_CASE("views begin where their first element lies, however far") {
  char byte = 0;
  const TensorView view(&byte, DType::fp64, DeviceType::cpu, {kRows, kColumns});
  const auto offset = [&](const TensorView& part) {
    return static_cast<size_t>(static_cast<char*>(part.data()) - &byte);
  };
  CHECK(offset(view.rows(kRows - 1, 1)) == 8 * (kElements - kColumns));
  CHECK(offset(view.elements(kElements - 3, {3})) == 8 * (kElements - 3));
  CHECK(view.num_bytes() == 8 * kElements);
}

TEST_CASE("large: copies and elementwise kernels") {
  const OnDevice on = on_devices_without_memory();
  for (DType dtype : {DType::bf16, DType::fp32}) {
    INFO(name_of(dtype));
    const Pair a(dtype, kFlat, kEndOfFlat), b(dtype, kFlat, kEndOfFlat);
    const Pair wide = zeros(DType::fp64, kFlat, kEndOfFlat);
    const Pair out = zeros(dtype, kFlat, kEndOfFlat);
    const auto check_out = [&](auto run) {
      run_both(kFlatThreads, [&](auto pick) { run(pick(out), pick(a), pick(b)); });
      out.require_same(kFlatCompared);
    };
    check_out([](auto o, auto, auto) { fill(stream(), o, 3); });
    check_out([](auto o, auto x, auto y) { add(stream(), o, x, y); });
    check_out([](auto o, auto x, auto) { scale(stream(), o, x, 0.5); });
    check_out([](auto o, auto x, auto y) { add_scaled(stream(), o, x, 0.5, y); });
    check_out([](auto o, auto x, auto) { gelu_forward(stream(), o, x); });
    check_out([](auto o, auto x, auto y) { gelu_backward(stream(), o, x, y); });
    check_out([](auto o, auto, auto) {
      const size_t first = kElements - o.num_elements();  // of the end, if it is one
      fill_normal(stream(), o, 1, first, 1);
    });
    run_both(kFlatThreads, [&](auto pick) { cast(stream(), pick(wide), pick(a)); });
    wide.require_same(kFlatCompared);
  }
  if (place().device == DeviceType::cpu) {  // a device copies at once, and all
    const Pair from(DType::bf16, kFlat, kEndOfFlat);
    const Pair to = zeros(DType::bf16, kFlat, kEndOfFlat);
    run_both(kElements * 2 >> 20, [&](auto pick) { copy(stream(), pick(to), pick(from)); });
    to.require_same(kFlatCompared);
  }
}

TEST_CASE("large: AdamW and sums over all elements") {
  const OnDevice on = on_devices_without_memory();
  const DType dtype = DType::fp32;
  const Pair p(dtype, kFlat, kEndOfFlat), m(dtype, kFlat, kEndOfFlat), g(dtype, kFlat, kEndOfFlat);
  const Pair v(dtype, kFlat, kEndOfFlat, Values(kFlatEnd, 1));
  run_both(kFlatThreads, [&](auto pick) {
    adamw(stream(), {{pick(p), pick(m), pick(v), pick(g)}}, {.learning_rate = 0.1});
  });
  for (const Pair* x : {&p, &m, &v}) x->require_same(kFlatCompared);

  const Pair x(dtype, kFlat, {kSumTile});
  const Shape partials = {sum_workspace_elements(kElements)};
  const auto squared_norm = [](Stream& of, TensorView out, TensorView workspace,
                               ConstTensorView in) { squared_norms(of, out, workspace, {in}); };
  for (const auto kernel : {&sum, +squared_norm}) {
    // New for each: of the partial sums only the outer thread blocks' are written.
    const Pair workspace = zeros(DType::fp64, partials, {1}), total = zeros(DType::fp64, {1}, {1});
    run_both(partials[0],
             [&](auto pick) { kernel(stream(), pick(total), pick(workspace), pick(x)); });
    total.require_same(1);
  }
}

TEST_CASE("large: rows and columns") {
  const OnDevice on = on_devices_without_memory();
  const DType dtype = DType::bf16, sums = DType::fp32;
  const Shape all = {kRows, kColumns}, row = {1, kColumns}, flat_row = {kColumns};
  const Pair out = zeros(dtype, all, row), x(dtype, all, row), y(dtype, all, row);
  const Array weight(dtype, flat_row, random_values(dtype, kColumns, "weight"));
  const Array bias(dtype, flat_row, random_values(dtype, kColumns, "bias"));

  SECTION("biases and residuals") {
    run_both(kRows, [&](auto pick) { add_residual(stream(), pick(out), pick(x), pick(y), bias); });
    out.require_same(kFlatCompared);
    run_both(kRows, [&](auto pick) { add_bias(stream(), pick(out), bias); });
    out.require_same(kFlatCompared);
    const Pair dbias = zeros(sums, flat_row, flat_row);
    run_both(kColumns / 256, [&](auto pick) { bias_backward(stream(), pick(dbias), pick(x)); });
    dbias.require_same(8);
  }
  SECTION("layernorm") {
    const Pair mean = zeros(sums, {kRows}, {1}), rstd = zeros(sums, {kRows}, {1});
    run_both(kRows, [&](auto pick) {
      layernorm_forward(stream(), pick(out), pick(mean), pick(rstd), pick(x), weight, bias);
    });
    for (const Pair* one : {&mean, &rstd}) one->require_same(1);
    out.require_same(kColumns);
    // On the CPU the last thread has either rows or columns.
    const bool on_cpu = place().device == DeviceType::cpu;
    for (bool columns : {false, true}) {
      const Pair din(dtype, all, row);
      const Pair dweight = zeros(sums, flat_row, flat_row), dbias = zeros(sums, flat_row, flat_row);
      run_both(columns ? kColumns / 64 : kRows, [&](auto pick) {
        layernorm_backward(stream(), pick(din), pick(dweight), pick(dbias), pick(y), pick(x),
                           weight, pick(mean), pick(rstd));
      });
      if (!columns || !on_cpu) din.require_same(kColumns);
      if (!columns && on_cpu) continue;
      dweight.require_same(8);
      dbias.require_same(8);
    }
  }
}

TEST_CASE("large: RMSNorm, SwiGLU and rotary positions") {
  const OnDevice on = on_devices_without_memory();
  const DType dtype = DType::bf16, sums = DType::fp32;
  const Shape all = {kRows, kColumns}, row = {1, kColumns}, flat_row = {kColumns};
  const Pair x(dtype, all, row), y(dtype, all, row);
  SECTION("RMSNorm") {
    const Array weight(dtype, flat_row, random_values(dtype, kColumns, "weight"));
    const Pair out = zeros(dtype, all, row), rstd = zeros(sums, {kRows}, {1});
    run_both(kRows, [&](auto pick) {
      rmsnorm_forward(stream(), pick(out), pick(rstd), pick(x), weight, 1e-5);
    });
    rstd.require_same(1);
    out.require_same(kColumns);
    const bool on_cpu = place().device == DeviceType::cpu;
    for (bool columns : {false, true}) {
      const Pair din(dtype, all, row), dweight = zeros(sums, flat_row, flat_row);
      run_both(columns ? kColumns / 64 : kRows, [&](auto pick) {
        rmsnorm_backward(stream(), pick(din), pick(dweight), pick(y), pick(x), weight, pick(rstd));
      });
      if (!columns || !on_cpu) din.require_same(kColumns);
      if (columns || !on_cpu) dweight.require_same(8);
    }
  }
  SECTION("norms of heads") {
    constexpr size_t kHeadSize = 512, kHeads = kColumns / kHeadSize;
    const Shape row_rstd = {1, kHeads};
    const Array weight(dtype, {kHeadSize}, random_values(dtype, kHeadSize, "weight"));
    const HeadRange heads = {0, kHeads};
    const Pair before = zeros(dtype, all, row), rstd = zeros(sums, {kRows, kHeads}, row_rstd);
    run_both(kRows * kHeads, [&](auto pick) {
      head_norm_forward(stream(), pick(x), pick(before), pick(rstd), heads, weight, 1e-5);
    });
    rstd.require_same(1);
    before.require_same(kHeadSize);
    x.require_same(kHeadSize);
    run_both(kRows * kHeads, [&](auto pick) {
      head_norm_backward(stream(), pick(x), {}, heads, pick(before), weight, pick(rstd));
    });
    x.require_same(kHeadSize);
  }
  SECTION("SwiGLU") {
    const Shape half = {kRows, kColumns / 2}, half_row = {1, kColumns / 2};
    const Pair out = zeros(dtype, half, half_row), din = zeros(dtype, all, row);
    run_both(kRows, [&](auto pick) { swiglu_forward(stream(), pick(out), pick(x)); });
    out.require_same(kFlatCompared);
    run_both(kRows, [&](auto pick) { swiglu_backward(stream(), pick(din), pick(out), pick(x)); });
    din.require_same(kFlatCompared);
  }
  SECTION("rotary positions: the last token's is 1, all others' 0") {
    constexpr size_t kHeadSize = 512;
    const HeadRange heads = {0, kColumns / kHeadSize};
    const Array table(sums, {2, kHeadSize}, random_values(sums, 2 * kHeadSize, "table"));
    const Pair position(DType::int32, {kRows, 1}, {1, 1}, {1});
    run_both(kRows, [&](auto pick) {
      const TensorView view = pick(x);
      rotary_forward(stream(), view.reshape({view.shape()[0], 1, kColumns}), heads, table,
                     pick(position));
    });
    x.require_same(kFlatCompared);
  }
}

TEST_CASE("large: embeddings") {
  const OnDevice on = on_devices_without_memory();
  const DType dtype = DType::bf16, sums = DType::fp32;
  const Shape word = {1, kColumns}, one_token = {1, 1, kColumns};
  SECTION("the table") {
    // The end of the table is a slice of the vocabulary.
    const Array token(DType::int32, {1, 1}, {static_cast<double>(kRows - 1)});
    const auto first = [](const TensorView& table) { return kRows - table.shape()[0]; };
    const Pair table(dtype, {kRows, kColumns}, word), dtable(sums, {kRows, kColumns}, word);
    const Pair out = zeros(dtype, one_token, one_token), dout(dtype, one_token, one_token);
    run_both(1, [&](auto pick) {
      embedding_forward(stream(), pick(out), token, pick(table), first(pick(table)));
    });
    out.require_same(kFlatCompared);
    run_both(kColumns / 64, [&](auto pick) {
      embedding_backward(stream(), pick(dtable), token, pick(dout), first(pick(dtable)));
    });
    dtable.require_same(64);
  }
  SECTION("tokens") {
    // Only the last is word 3, the others are words that this slice has not.
    const Pair tokens(DType::int32, {kRows, 1}, {1, 1}, {3});
    const Pair out = zeros(dtype, {kRows, 1, kColumns}, one_token);
    const Pair dout(dtype, {kRows, 1, kColumns}, one_token);
    const Array table(dtype, word, random_values(dtype, kColumns, "table"));
    const Pair dtable = zeros(sums, word, word);
    run_both(kRows,
             [&](auto pick) { embedding_forward(stream(), pick(out), pick(tokens), table, 3); });
    out.require_same(kFlatCompared);
    run_both(kColumns / 64, [&](auto pick) {
      embedding_backward(stream(), pick(dtable), pick(tokens), pick(dout), 3);
    });
    dtable.require_same(64);
  }
  SECTION("positions") {
    constexpr size_t kTokens = kRows / 2;
    const Shape all = {2, kTokens, kColumns}, positions = {kTokens, kColumns};
    const Pair out = zeros(dtype, all, one_token), in(dtype, all, one_token);
    const Pair table(dtype, positions, word), dtable = zeros(sums, positions, word);
    run_both(kRows,
             [&](auto pick) { position_forward(stream(), pick(out), pick(in), pick(table)); });
    out.require_same(kFlatCompared);
    run_both(kTokens, [&](auto pick) { position_backward(stream(), pick(dtable), pick(in)); });
    dtable.require_same(kFlatCompared);
  }
}

TEST_CASE("large: the classifier's kernels") {
  const OnDevice on = on_devices_without_memory();
  const DType sums = DType::fp32;
  const Shape all = {kRows, kColumns}, row = {1, kColumns}, rows = {kRows}, one = {1};
  const Pair logits(sums, all, row), targets(DType::int32, rows, one, {5});
  const Pair dlogits = zeros(DType::bf16, all, row);
  const Pair maximum = zeros(sums, rows, one), sum = zeros(sums, rows, one);
  const Pair target_logit = zeros(sums, rows, one), losses = zeros(sums, rows, one);
  run_both(kRows, [&](auto pick) { softmax_maximum(stream(), pick(maximum), pick(logits)); });
  maximum.require_same(1);
  run_both(kRows, [&](auto pick) {
    softmax_exponentials(stream(), pick(logits), pick(sum), pick(target_logit), pick(targets),
                         pick(maximum), 0);
  });
  logits.require_same(kColumns);
  sum.require_same(1);
  target_logit.require_same(1);
  run_both(kRows, [&](auto pick) {
    cross_entropy(stream(), pick(losses), pick(dlogits), pick(logits), pick(sum),
                  pick(target_logit), pick(targets), 0, 1);
  });
  dlogits.require_same(kColumns);
  losses.require_same(1);
  const Pair statistics = zeros(sums, {3 * kRows}, {3});
  run_both(kRows, [&](auto pick) {
    softmax_cross_entropy(stream(), pick(losses), pick(dlogits), pick(logits), pick(statistics),
                          pick(targets), 1);
  });
  dlogits.require_same(kColumns);
  losses.require_same(1);
}

// fp64 and fp16 multiply by our own loop; oneDNN has its own way to divide work among threads.
TEST_CASE("large: attention") {
  const OnDevice on = on_devices_without_memory();
  // The emulator's last thread block computes the row_dot of the last eight tokens.
  constexpr size_t kBatch = (size_t{1} << 23) + 8, kTokens = 8, kHeads = 4, kHidden = 64;
  static_assert((kBatch - 1) * kTokens * kHidden > size_t{1} << 32);
  for (DType dtype : {DType::fp64, DType::fp16}) {
    INFO(name_of(dtype));
    const DType sums = accumulation_dtype(dtype);
    const auto vectors = [&](size_t batch, size_t parts) {
      return Shape{batch, kTokens, parts * kHidden};
    };
    const auto rows = [](size_t batch) { return Shape{batch, kHeads, kTokens}; };
    const Pair qkv(dtype, vectors(kBatch, 3), vectors(1, 3));
    const Pair dqkv = zeros(dtype, vectors(kBatch, 3), vectors(1, 3));
    const Pair out = zeros(dtype, vectors(kBatch, 1), vectors(1, 1));
    const Pair dout(dtype, vectors(kBatch, 1), vectors(1, 1));
    const Pair logsumexp = zeros(sums, rows(kBatch), rows(1));
    const Pair row_dot = zeros(sums, rows(kBatch), rows(1));
    run_both(kBatch, [&](auto pick) {
      attention_forward(stream(), pick(out), pick(logsumexp), pick(qkv), AttentionMask::causal);
    });
    // Of the last head: the last elements of the last token.
    out.require_same(kHidden / kHeads);
    logsumexp.require_same(kTokens);
    run_both(kBatch, [&](auto pick) {
      attention_backward(stream(), pick(dqkv), pick(row_dot), pick(dout), pick(out),
                         pick(logsumexp), pick(qkv), AttentionMask::causal);
    });
    row_dot.require_same(kTokens);
    dqkv.require_same(kHidden / kHeads);
  }
}

#if LADDER_CUDA_EMULATOR
// CUDA has 65,535 thread blocks in the second dimension of a grid; a tile has at most 64 tokens.
TEST_CASE("large: attention over more tokens than a grid's second dimension has room for") {
  const OnDevice on(Place{DeviceType::emulator, true});
  constexpr size_t kTile = 64, kTokens = 65536 * kTile + kTile, kSize = 8, kCompared = 8;
  const DType dtype = DType::fp32;
  const auto pair = [&](size_t parts) {
    return Pair(dtype, {1, kTokens, parts * kSize}, {1, kTile, parts * kSize});
  };
  const Shape rows = {1, 1, kTokens}, last_rows = {1, 1, kTile};
  const Pair out = pair(1), dout = pair(1), partial = pair(1), qkv = pair(3);
  const Pair logsumexp(dtype, rows, last_rows), partial_logsumexp(dtype, rows, last_rows);
  const Pair row_dot = zeros(dtype, rows, last_rows);
  const Array kv(dtype, {1, 1, 2 * kSize}, new_values(dtype, 2 * kSize));
  run_both(1,
           [&](auto pick) { attention_row_dot(stream(), pick(row_dot), pick(dout), pick(out)); });
  row_dot.require_same(kCompared);
  run_both(1, [&](auto pick) {
    attention_merge(stream(), pick(out), pick(logsumexp), pick(partial), pick(partial_logsumexp), 0,
                    pick(out).shape()[1]);
  });
  out.require_same(kCompared * kSize);
  logsumexp.require_same(kCompared);
  run_both(1, [&](auto pick) {
    attention_of_tile_forward(stream(), pick(out), pick(logsumexp), pick(qkv), kv,
                              {.num_queries = pick(out).shape()[1], .num_keys = 1});
  });
  out.require_same(kTile * kSize);
  logsumexp.require_same(kTile);
}
#endif

TEST_CASE("large: our own matrix product") {
  const OnDevice on(Place{DeviceType::cpu, true});
  const DType dtype = DType::fp64;
  constexpr size_t kTile = 96;
  SECTION("out") {
    const Pair out = zeros(dtype, {kRows, kColumns}, {1, kColumns});
    const Pair a(dtype, {kRows, 2}, {1, 2});
    const Array b(dtype, {2, kColumns}, random_values(dtype, 2 * kColumns, "b"));
    run_both(kRows / kTile * (kColumns / kTile),
             [&](auto pick) { matmul(stream(), pick(out), pick(a), b, {}); });
    out.require_same(10);
  }
  SECTION("factors") {
    // Their last rows are all that is not zero.
    const Pair a(dtype, {kRows, kColumns}, {1, kColumns}), b(dtype, {kRows, 1}, {1, 1});
    const Pair out = zeros(dtype, {kColumns, 1}, {kColumns, 1});
    run_both(kColumns / kTile, [&](auto pick) {
      matmul(stream(), pick(out), pick(a), pick(b), {.transpose_a = true});
    });
    out.require_same(10);
    const Pair wide = zeros(dtype, {1, kColumns}, {1, kColumns});
    run_both(kColumns / kTile, [&](auto pick) {
      matmul(stream(), pick(wide), pick(b), pick(a), {.transpose_a = true});
    });
    wide.require_same(10);
  }
}

}  // namespace
}  // namespace ladder
