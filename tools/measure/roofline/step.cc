#include "tools/measure/roofline/step.h"

#include "common/data/corpus.h"
#include "kernels/emulator/device_model.h"
#include "kernels/emulator/launch.h"
#include "lessons/01_single_gpu/trainer.h"

namespace ladder::roofline {

std::vector<emulator::Profile> profile_step(const RunConfig& config, const Cluster& gpu,
                                            size_t most_blocks) {
  const emulator::WithDeviceModel limits(gpu.emulated);
  const emulator::SampledLaunches sampled(most_blocks);
  const Corpus corpus = Corpus::king_james();
  Memory device(config.device, "device", 0);
  Memory host(DeviceType::cpu, "host", 0, host_memory_for(config.device));
  Stream stream(config.device);
  SingleGpuTrainer trainer({config, corpus, device, host, stream}, {});
  emulator::Profiler profiler(cache_of(gpu));
  trainer.step();
  stream.synchronize();
  return profiler.take();
}

}  // namespace ladder::roofline
