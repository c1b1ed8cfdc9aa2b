// Sums that travel encoded, in groups of 1 to 8 ranks, on every path, against plain loops.
#include "common/comm/compressed.h"

#include <cmath>
#include <numeric>

#include "common/comm/communicator.h"
#include "kernels/runtime/random.h"
#include "tests/common/comm/devices.h"

namespace ladder::testing {
namespace {

constexpr Format kFormats[] = {Format::fp16,     Format::bf16, Format::fp8_e4m3,
                               Format::fp8_e5m2, Format::int8, Format::sign};
constexpr size_t kSegment = 300;  // elements of all slices: several segments
constexpr size_t kCounts[] = {0, 1, 33, 100, 1000, 3001};

template <class T>
using Numbers = std::vector<T>;

// What rank `rank` gives in round `round`.
template <class T>
Numbers<T> inputs(size_t n, size_t rank, size_t round) {
  const uint64_t key = random_key(5 + rank, concat("round", round));
  Numbers<T> x(n);
  for (size_t i = 0; i < n; ++i) {
    x[i] = static_cast<T>(random_normal_integer(key, i)) * static_cast<T>(0x1p-16);
  }
  return x;
}

// x, encoded and decoded in plain host memory; `held` may be null.
template <class T>
Numbers<T> through(const Codec& codec, const Numbers<T>& x, Numbers<T>* held) {
  Stream stream(DeviceType::cpu);
  const size_t n = x.size(), words = encoded_words(codec, n);
  if (n == 0) return {};
  std::vector<int32_t> encoded(words);
  Numbers<T> out(n);
  const auto view = [](auto& numbers) {
    return TensorView(numbers.data(), dtype_of<std::decay_t<decltype(numbers[0])>>, DeviceType::cpu,
                      {numbers.size()});
  };
  Numbers<T> in = x;
  encode(stream, view(encoded), held != nullptr ? view(*held) : TensorView(), view(in), codec);
  decode_sum(stream, view(out), view(encoded).reshape({1, words}), codec);
  return out;
}

// The whole sum as the header describes it, with what each rank holds.
template <class T>
struct Reference {
  Reference(const Codec& codec_, size_t n_, size_t size, bool feedback_)
      : codec(codec_), n(n_), feedback(feedback_), sent(size, Numbers<T>(n)), owned(n) {}

  Numbers<T> sum(const std::vector<Numbers<T>>& in) {
    Numbers<T> total(n);
    for (size_t r = 0; r < in.size(); ++r) {
      const Numbers<T> decoded = through(codec, in[r], feedback ? &sent[r] : nullptr);
      for (size_t i = 0; i < n; ++i) total[i] = r == 0 ? decoded[i] : total[i] + decoded[i];
    }
    return through(codec, total, feedback ? &owned : nullptr);
  }

  Codec codec;
  size_t n;
  bool feedback;
  std::vector<Numbers<T>> sent;
  Numbers<T> owned;  // slices are whole blocks, so they need not be told apart
};

struct Case {
  Communicator& group;
  DeviceType device;
  MemorySource* source;
  Stream& stream;
  bool background = false;
};

// Two rounds of a sum of n elements are, bit for bit, what the reference makes.
template <class T>
void test_sum(const Case& c, const Codec& codec, size_t n, bool feedback) {
  const size_t size = c.group.size(), rank = c.group.rank();
  Memory memory(c.device, "device", 0);
  const auto tensor = [&](size_t elements) {
    return Tensor(memory, Category::gradients, dtype_of<T>, {std::max<size_t>(elements, 1)});
  };
  const Tensor buffer = tensor(n), sent = tensor(n);
  const size_t own = CompressedSum::own_elements(codec, n, size, rank);
  const Tensor owned = tensor(own);
  CompressedAreas areas(memory, c.source, codec, dtype_of<T>, n, size, kSegment);
  CompressedSum::Options options = {.codec = codec};
  if (feedback) {
    options.sent = sent.view().rows(0, n);
    options.owned = owned.view().rows(0, own);
  }
  CompressedSum sum(areas, buffer.view().rows(0, n), options);
  Reference<T> reference(codec, n, size, feedback);
  for (size_t round = 0; round < 2; ++round) {
    std::vector<Numbers<T>> in;
    for (size_t r = 0; r < size; ++r) in.push_back(inputs<T>(n, r, round));
    to_device(sum.buffer(), in[rank]);
    c.group.all_reduce(c.stream, sum, {.purpose = Purpose::gradient, .background = c.background})
        .wait(c.stream);
    c.stream.synchronize();
    const Numbers<T> expected = size == 1 ? in[0] : reference.sum(in);
    require_elements<T>(sum.buffer(), [&](size_t i) { return expected[i]; });
    if (!feedback || size == 1) continue;
    require_elements<T>(options.sent, [&](size_t i) { return reference.sent[rank][i]; });
    const size_t begin = std::min(n, rank * CompressedSum::slice_elements(codec, n, size));
    require_elements<T>(options.owned, [&](size_t i) { return reference.owned[begin + i]; });
  }
}

void test_all(const Case& c, std::initializer_list<size_t> counts) {
  for (Format format : kFormats) {
    for (size_t n : counts) {
      INFO(name_of(format) << ", " << n << " elements, " << c.group.size() << " ranks"
                           << (c.background ? ", background" : ""));
      test_sum<float>(c, {format, 32}, n, true);
      test_sum<float>(c, {format, 64}, n, false);
      test_sum<double>(c, {format, 32}, n, true);
    }
  }
}

TEST_CASE("in shared memory: the sums, and what is held, of plain loops") {
  Ranks ranks;
  Communicator all(MpiTransport::make_world(world(), &ranks.node_memory));
  for (MemorySource* source :
       {static_cast<MemorySource*>(&ranks.node_memory), static_cast<MemorySource*>(nullptr)}) {
    for_groups(all, [&](Communicator& group) {
      // Registered memory must be allocated by all ranks of the node alike.
      if (source != nullptr && group.size() < all.size()) return;
      for (bool background : {false, true}) {
        test_all({group, DeviceType::cpu, source, ranks.stream, background},
                 {0, 1, 33, 1000, 3001});
      }
    });
  }
}

TEST_CASE("by messages: the same bits") {
  Ranks ranks;
  for (size_t segment : {size_t{37}, kSegmentElements}) {
    Communicator all(MpiTransport::make_world(world(), nullptr, {.segment_elements = segment}));
    for_groups(all, [&](Communicator& group) {
      test_all({group, DeviceType::cpu, nullptr, ranks.stream, true}, {100, 1000});
    });
  }
}

TEST_CASE("staged and by NCCL: the same bits") {
  const auto device = device_for_nccl();
  if (!device) return;
  Ranks ranks(*device);
  NcclMemory memory;
  for (bool nccl : {false, true}) {
    const auto all = nccl ? nccl_world(ranks, &memory) : staged_world(ranks, 400);
    for (bool background : {false, true}) {
      test_all({*all, *device, nullptr, ranks.stream, background}, {1000});
    }
  }
}

TEST_CASE("the bytes on the wire are those of the formula, scales and all") {
  Ranks ranks;
  for (NodeMemory* shared : {static_cast<NodeMemory*>(nullptr), &ranks.node_memory}) {
    Communicator all(MpiTransport::make_world(world(), shared));
    const size_t size = all.size();
    size_t payload = 0;
    for (Format format : kFormats) {
      const Codec codec = {format, 64};
      for (size_t n : kCounts) {
        test_sum<float>({all, DeviceType::cpu, shared, ranks.stream}, codec, n, false);
        payload += 2 * CompressedSum::payload_bytes(codec, n, size);  // two rounds
      }
    }
    const Traffic traffic = all.ledger().entries().at({Purpose::gradient, Collective::all_reduce});
    CHECK(traffic.payload_bytes == payload);
    CHECK(traffic.calls == 2 * std::size(kFormats) * std::size(kCounts));
    CHECK(static_cast<double>(traffic.moved.bytes) ==
          wire_bytes(Collective::all_reduce, size, payload));
  }
  // 4 ranks, 1000 elements, blocks of 64: 16 blocks, 4 a slice of 1 + 16 words each.
  CHECK(CompressedSum::payload_bytes({Format::int8, 64}, 1000, 4) == 4 * 4 * 17 * 4);
  CHECK(CompressedSum::payload_bytes({Format::bf16, 64}, 1000, 4) == 4 * 4 * 32 * 4);
  CHECK(CompressedSum::payload_bytes({Format::sign, 64}, 1000, 3) == 3 * 6 * 3 * 4);
}

TEST_CASE("what is applied and what is held make up the sum of all that was given") {
  Ranks ranks;
  Communicator all(MpiTransport::make_world(world(), &ranks.node_memory));
  constexpr size_t kN = 500, kRounds = 8;
  for (Format format : kFormats) {
    const Codec codec = {format, 32};
    Memory memory(DeviceType::cpu, "device", 0);
    const auto tensor = [&](size_t n) {
      return Tensor(memory, Category::gradients, DType::fp64, {std::max<size_t>(n, 1)});
    };
    const size_t own = CompressedSum::own_elements(codec, kN, all.size(), all.rank());
    const Tensor buffer = tensor(kN), sent = tensor(kN), owned = tensor(own);
    CompressedAreas areas(memory, &ranks.node_memory, codec, DType::fp64, kN, all.size(), kSegment);
    CompressedSum sum(areas, buffer,
                      {.codec = codec, .sent = sent, .owned = owned.view().rows(0, own)});
    Numbers<double> applied(kN), given(kN);
    for (size_t round = 0; round < kRounds; ++round) {
      to_device(buffer.view(), inputs<double>(kN, all.rank(), round));
      all.all_reduce(ranks.stream, sum, {}).wait(ranks.stream);
      for (size_t i = 0; i < kN; ++i) applied[i] += buffer.view().as<double>()[i];
      for (size_t r = 0; r < all.size(); ++r) {
        const Numbers<double> in = inputs<double>(kN, r, round);
        for (size_t i = 0; i < kN; ++i) given[i] += in[i];
      }
    }
    Numbers<double> held(sent.view().as<double>(), sent.view().as<double>() + kN);
    const size_t begin = all.rank() * CompressedSum::slice_elements(codec, kN, all.size());
    for (size_t i = 0; i < own; ++i) held[begin + i] += owned.view().as<double>()[i];
    const TensorView view(held.data(), DType::fp64, DeviceType::cpu, {kN});
    all.all_reduce(ranks.stream, view, {}).wait(ranks.stream);
    // Numbers are of size 4 at most, and the sums of 64 of them below 2^9. Each of the 9 encodings
    // of a round rounds twice, by 2^-53 of that.
    constexpr double kAllowed = kRounds * 9 * 2 * 0x1p-53 * 0x1p9;
    static_assert(kAllowed < 1e-11);
    for (size_t i = 0; i < kN; ++i) {
      if (!(std::abs(applied[i] + held[i] - given[i]) <= kAllowed)) {
        FAIL(concat(name_of(format), " element ", i, ": applied ", applied[i], " and held ",
                    held[i], ", given ", given[i]));
      }
    }
  }
}

TEST_CASE("stochastic rounding goes by key and round, and not by how the sum is cut") {
  Ranks ranks;
  Communicator all(MpiTransport::make_world(world(), &ranks.node_memory));
  const Codec codec = {Format::int8, 32};
  constexpr size_t kN = 640;
  Memory memory(DeviceType::cpu, "device", 0);
  const Tensor buffer(memory, Category::gradients, DType::fp32, {kN});
  const auto run = [&](uint64_t key, uint64_t round, size_t segment) {
    CompressedAreas areas(memory, nullptr, codec, DType::fp32, kN, all.size(), segment);
    CompressedSum sum(areas, buffer,
                      {.codec = codec, .rounding = {.stochastic = true, .key = key}});
    sum.set_round(round);
    to_device(buffer.view(), inputs<float>(kN, all.rank(), 0));
    all.all_reduce(ranks.stream, sum, {}).wait(ranks.stream);
    return to_host<float>(buffer);
  };
  const Numbers<float> expected = run(1, 1, kSegment);
  CHECK(run(1, 1, kSegment) == expected);
  CHECK(run(1, 1, 1) == expected);
  CHECK(run(1, 1, size_t{1} << 20) == expected);
  CHECK(run(1, 2, kSegment) != expected);
  CHECK(run(2, 1, kSegment) != expected);
}

TEST_CASE("a NaN of one rank reaches all") {
  Ranks ranks;
  Communicator all(MpiTransport::make_world(world(), &ranks.node_memory));
  for (Format format : kFormats) {
    Memory memory(DeviceType::cpu, "device", 0);
    const Tensor buffer(memory, Category::gradients, DType::fp32, {200});
    CompressedAreas areas(memory, nullptr, {format, 32}, DType::fp32, 200, all.size());
    CompressedSum sum(areas, buffer, {.codec = {format, 32}});
    Numbers<float> in(200, 1);
    if (all.rank() == all.size() - 1) in[70] = std::nanf("");
    to_device(buffer.view(), in);
    all.all_reduce(ranks.stream, sum, {}).wait(ranks.stream);
    const Numbers<float> out = to_host<float>(buffer);
    CHECK(std::isnan(out[70]));
    CHECK(std::isfinite(out[63]));
    CHECK(std::isfinite(out[96]));
  }
}

TEST_CASE("ranks whose codecs differ end with an error that names both") {
  Ranks ranks;
  Communicator all(MpiTransport::make_world(world(), &ranks.node_memory));
  if (all.size() == 1) return;
  Memory memory(DeviceType::cpu, "device", 0);
  const Tensor buffer(memory, Category::gradients, DType::fp32, {200});
  const Codec codec = {all.rank() == 0 ? Format::sign : Format::int8, 32};
  CompressedAreas areas(memory, nullptr, codec, DType::fp32, 200, all.size());
  CompressedSum sum(areas, buffer, {.codec = codec});
  CHECK_THROWS_WITH(all.all_reduce(ranks.stream, sum, {}).wait(ranks.stream),
                    ContainsSubstring("differs") && ContainsSubstring("all_to_all of"));
}

}  // namespace
}  // namespace ladder::testing
