#include "common/comm/contests.h"

#include <array>
#include <memory>
#include <optional>

#include "common/comm/compressed.h"
#include "common/comm/mpi_world.h"
#include "kernels/collective.h"
#include "kernels/elementwise.h"

namespace ladder {
namespace {

// The buffer of `bench` cut into equal parts, one for each rank.
std::vector<TensorView> parts_of(const CollectiveBench& bench, const TensorView& buffer, size_t n) {
  const size_t each = n / bench.ranks.size();
  std::vector<TensorView> parts;
  for (size_t r = 0; r < bench.ranks.size(); ++r)
    parts.push_back(buffer.elements(r * each, {each}));
  return parts;
}

// MPI counts are int: 500 MB of fp32 fit.
int count(size_t n) { return static_cast<int>(n); }

// An all_reduce of n gradients that travel encoded.
class EncodedSum {
 public:
  EncodedSum(const CollectiveBench& bench, const Codec& codec, bool error_feedback, size_t n)
      : bench_(bench),
        gradients_(memory_, Category::gradients, DType::fp32, {n}),
        buffer_(memory_, Category::gradients, DType::fp32, {n}),
        sent_(memory_, Category::optimizer, DType::fp32, {n}),
        owned_(memory_, Category::optimizer, DType::fp32,
               {CompressedSum::own_elements(codec, n, bench.ranks.size(), bench.ranks.rank())}),
        areas_(memory_, nullptr, codec, DType::fp32, n, bench.ranks.size()),
        sum_(areas_, buffer_,
             error_feedback ? CompressedSum::Options{.codec = codec, .sent = sent_, .owned = owned_}
                            : CompressedSum::Options{.codec = codec}) {
    fill_normal(bench.stream, gradients_, bench.ranks.rank(), 0, 1e-3);
  }
  size_t num_elements() const { return buffer_.view().num_elements(); }
  // Sums of sums would grow until fp16 overflows, and blocks of NaN are encoded faster.
  void prepare() {
    copy(bench_.stream, buffer_, gradients_);
    fill(bench_.stream, sent_, 0);
    fill(bench_.stream, owned_, 0);
  }
  void run() { bench_.ranks.all_reduce(bench_.stream, sum_, {}).wait(bench_.stream); }

 private:
  const CollectiveBench& bench_;
  Memory memory_{DeviceType::cpu, "device", 0};
  Tensor gradients_, buffer_, sent_, owned_;  // buffer_ is what is summed
  CompressedAreas areas_;
  CompressedSum sum_;
};

}  // namespace

std::vector<Contest> contests(const CollectiveBench& bench) {
  const auto mine = [&bench](const TensorView& buffer, size_t n) {
    return parts_of(bench, buffer, n)[bench.ranks.rank()];
  };
  void* const memory = bench.private_bytes.data();
  const Contest all_reduce = {
      "all_reduce",
      [&bench](size_t n) {
        bench.ranks.all_reduce(bench.stream, bench.shared.elements(0, {n}), {}).wait(bench.stream);
      },
      // Each rank reads and writes 1/N of N buffers: as many streams, as much as one whole buffer.
      [&bench](size_t n) {
        reduce_to_all(parts_of(bench, bench.private_bytes, n), Reduction::sum);
      },
      [memory](size_t n) {
        mpi_check(
            MPI_Allreduce(MPI_IN_PLACE, memory, count(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      }};
  const Contest reduce_scatter = {
      "reduce_scatter",
      [&bench, mine](size_t n) {
        const TensorView buffer = bench.shared.elements(0, {n});
        bench.ranks.reduce_scatter(bench.stream, mine(buffer, n), buffer, {}).wait(bench.stream);
      },
      [&bench](size_t n) {
        const std::vector<TensorView> parts = parts_of(bench, bench.private_bytes, n);
        const std::vector<ConstTensorView> in(parts.begin(), parts.end());
        reduce_to_one(parts[0], in, Reduction::sum);
      },
      [memory, &bench](size_t n) {
        mpi_check(MPI_Reduce_scatter_block(MPI_IN_PLACE, memory, count(n / bench.ranks.size()),
                                           MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
      }};
  const Contest all_gather = {
      "all_gather",
      [&bench, mine](size_t n) {
        const TensorView buffer = bench.shared.elements(0, {n});
        bench.ranks.all_gather(bench.stream, buffer, mine(buffer, n), {}).wait(bench.stream);
      },
      // Each rank copies (N-1)/N of the buffer; from the part before, so that it is not in a cache.
      [&bench](size_t n) {
        const std::vector<TensorView> parts = parts_of(bench, bench.private_bytes, n);
        for (size_t r = 1; r < parts.size(); ++r) copy_in_thread(parts[r], parts[r - 1]);
      },
      [memory, &bench](size_t n) {
        mpi_check(MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, memory, count(n / bench.ranks.size()),
                                MPI_FLOAT, MPI_COMM_WORLD));
      }};
  // The vector's halves are what a rank sends and what it receives.
  const auto halves = [](const TensorView& buffer, size_t n) {
    return std::array{buffer.elements(0, {n / 2}), buffer.elements(n / 2, {n / 2})};
  };
  const Contest all_to_all = {
      "all_to_all",
      [&bench, halves](size_t n) {
        const auto [in, out] = halves(bench.shared, n);
        bench.ranks.all_to_all(bench.stream, out, in, {}).wait(bench.stream);
      },
      // Each rank copies N parts: its own one, and one from each peer.
      [&bench, halves](size_t n) {
        const auto [in, out] = halves(bench.private_bytes, n);
        const std::vector<TensorView> from = parts_of(bench, in, n / 2);
        const std::vector<TensorView> to = parts_of(bench, out, n / 2);
        for (size_t r = 0; r < to.size(); ++r) copy_in_thread(to[r], from[r]);
      },
      [memory, &bench](size_t n) {
        const int each = count(n / 2 / bench.ranks.size());
        mpi_check(MPI_Alltoall(memory, each, MPI_FLOAT, static_cast<float*>(memory) + n / 2, each,
                               MPI_FLOAT, MPI_COMM_WORLD));
      }};
  // There and back between two ranks.
  const auto ping_pong = [&bench](const auto& send, const auto& recv) {
    const size_t me = bench.ranks.rank(), peer = me ^ 1;
    if (peer >= bench.ranks.size()) return;
    if (me % 2 == 0) send(peer);
    recv(peer);
    if (me % 2 == 1) send(peer);
  };
  const Contest send_recv = {
      "send_recv",
      [&bench, ping_pong](size_t n) {
        const TensorView x = bench.shared.elements(0, {n});
        ping_pong([&](size_t to) { bench.ranks.send(bench.stream, x, to, {}).wait(bench.stream); },
                  [&](size_t r) { bench.ranks.recv(bench.stream, x, r, {}).wait(bench.stream); });
      },
      all_gather.limit,
      [memory, ping_pong](size_t n) {
        ping_pong(
            [&](size_t to) {
              mpi_check(MPI_Send(memory, count(n), MPI_FLOAT, count(to), 0, MPI_COMM_WORLD));
            },
            [&](size_t from) {
              mpi_check(MPI_Recv(memory, count(n), MPI_FLOAT, count(from), 0, MPI_COMM_WORLD,
                                 MPI_STATUS_IGNORE));
            });
      }};
  std::vector<Contest> all = {all_reduce, reduce_scatter, all_gather, all_to_all, send_recv};
  for (size_t format = 0; format < kNumFormats; ++format) {
    for (const bool feedback : {false, true}) {
      const Codec codec = {static_cast<Format>(format), 256};
      const auto sum = std::make_shared<std::optional<EncodedSum>>();
      all.push_back({std::string(name_of(codec.format)) + (feedback ? "-feedback" : ""),
                     [sum](size_t) { (*sum)->run(); }, all_reduce.limit, all_reduce.mpi,
                     [&bench, sum, codec, feedback](size_t n) {
                       if (!*sum || (*sum)->num_elements() != n) {
                         sum->emplace(bench, codec, feedback, n);
                       }
                       (*sum)->prepare();
                     }});
    }
  }
  return all;
}

}  // namespace ladder
