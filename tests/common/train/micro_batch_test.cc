#include "common/train/trainer/micro_batch.h"

#include "kernels/elementwise.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/streams.h"
#include "tests/catch.h"
#endif

namespace ladder {
namespace {

#if LADDER_CUDA_EMULATOR

TEST_CASE("a micro-batch is loaded while the device still computes with the one before") {
  RunConfig config;
  config.device = DeviceType::emulator;
  config.model = {
      .num_layers = 1, .num_heads = 1, .hidden = 8, .vocab_size = 256, .sequence_length = 16};
  config.global_batch_size = 4;
  config.micro_batch_size = 2;
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0);
  Memory host(DeviceType::cpu, "host", 0, host_memory_for(config.device));
  Stream stream(config.device);
  BatchLoader loader({config, corpus, device, host, stream}, {});
  const Tensor computed(device, Category::workspace, DType::fp32, {1});
  const Tensor first(host, Category::workspace, DType::int32, {2, 16});
  emulator::set_stream_order(emulator::StreamOrder::deferred);
  // After three waits of the host no stream is early for a while, in every run.
  for (int i = 0; i < 3; ++i) stream.synchronize();

  loader.load(Split::train, 1, 0);
  const auto loaded = emulator::mark_of(stream.native());
  copy(stream, first, loader.tokens());
  fill(stream, computed, 1);
  const auto end_of_computation = emulator::mark_of(stream.native());
  loader.load(Split::train, 1, 2);
  CHECK(emulator::has_passed(loaded));  // or the host would overwrite what is being copied
  CHECK_FALSE(emulator::has_passed(end_of_computation));

  const Tensor second(host, Category::workspace, DType::int32, {2, 16});
  copy(stream, second, loader.tokens());
  stream.synchronize();
  emulator::set_stream_order(emulator::StreamOrder::immediate);
  const auto tokens = [](const Tensor& tensor) {
    const int32_t* const begin = tensor.view().as<int32_t>();
    return std::vector<int32_t>(begin, begin + 32);
  };
  CHECK(tokens(first) != tokens(second));
  loader.load(Split::train, 1, 0);
  copy(stream, second, loader.tokens());
  stream.synchronize();
  CHECK(tokens(first) == tokens(second));
}

#endif

}  // namespace
}  // namespace ladder
