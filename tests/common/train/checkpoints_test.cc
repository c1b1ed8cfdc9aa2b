// A checkpoint has what the device had after its step, however late the device is, and whatever
// training does while the checkpoint is written.
#include "common/train/run/checkpoints.h"

#include "common/train/trainer/model_state.h"
#include "kernels/elementwise.h"

#if LADDER_CUDA_EMULATOR
#include "kernels/emulator/streams.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"
#endif

namespace ladder {
namespace {

#if LADDER_CUDA_EMULATOR

// A trainer that has a state and does nothing with it.
class StateKeeper final : public Trainer {
 public:
  explicit StateKeeper(ModelState& state) : state_(state) {}
  ModelState& state() override { return state_; }
  StepResult step() override { return {}; }
  double evaluate(size_t) override { return 0; }

 private:
  ModelState& state_;
};

TEST_CASE("a checkpoint waits for the copies off the device, in the background too") {
  RunConfig config;
  config.device = DeviceType::emulator;
  config.model = {
      .num_layers = 1, .num_heads = 1, .hidden = 8, .vocab_size = 256, .sequence_length = 16};
  config.optimizer.num_steps = 10;
  const TestFolder folder;
  config.checkpoint = {.path = folder / "c", .every = 1, .async = GENERATE(false, true)};
  INFO((config.checkpoint.async ? "in the background" : "at once"));
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0);
  Memory host(DeviceType::cpu, "host", 0, host_memory_for(config.device));
  Stream stream(config.device);
  const Layout layout(config.model, 1);
  ModelState state({config, corpus, device, host, stream}, layout);
  StateKeeper trainer(state);
  Job job;
  job.connect({});
  const ProcessGrid grid;
  Vocabulary vocabulary;
  Checkpoints checkpoints(config, grid, job, {"01_single_gpu", ""}, corpus, vocabulary);
  checkpoints.prepare(host, stream, trainer);
  const auto set = [&](double value) {
    for (const TensorView buffer : {state.parameters.view(), state.optimizer.buffer(kExpAvg),
                                    state.optimizer.buffer(kExpAvgSq)}) {
      fill(stream, buffer, value);
    }
  };
  state.optimizer.num_updates = 1;
  emulator::set_stream_order(emulator::StreamOrder::deferred);
  for (state.step = 1; state.step <= 10; ++state.step) {
    set(static_cast<double>(state.step));
    checkpoints.after_step(state.step, trainer);
    // The next step overwrites everything, before the checkpoint is there or after. (Half of the
    // time the stream is not late; see kernels/emulator/streams.h.)
    if (state.step % 2 == 0) checkpoints.finish();
    set(-1);
    if (state.step % 2 == 1) stream.synchronize();
    checkpoints.finish();
    CheckpointReader reader(checkpoint_path(config.checkpoint.path, state.step));
    for (const auto& [name, slice] : trainer.stored()) {
      std::vector<float> elements(slice.view.num_elements());
      reader.read(name, elements_of(slice),
                  {elements.data(), DType::fp32, DeviceType::cpu, {elements.size()}});
      INFO(name << " after step " << state.step);
      CHECK(elements == std::vector<float>(elements.size(), static_cast<float>(state.step)));
    }
  }
  emulator::set_stream_order(emulator::StreamOrder::immediate);
}

#endif

}  // namespace
}  // namespace ladder
