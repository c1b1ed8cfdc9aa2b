#include "tools/course/pictures/memory_bars.h"

#include <algorithm>

#include "common/io/svg.h"
#include "common/train/program/prediction.h"
#include "lessons/01_single_gpu/trainer.h"
#include "lessons/02_ddp/trainer.h"
#include "lessons/03_zero1/trainer.h"
#include "lessons/04_zero2/trainer.h"
#include "lessons/05_zero3/trainer.h"
#include "lessons/06_offload/trainer.h"
#include "lessons/11_activation_checkpointing/trainer.h"
#include "lessons/13_sequence_parallel/trainer.h"

namespace ladder {
namespace {

constexpr size_t kRanks = 4;

constexpr Colour colour_of(Category category) {
  switch (category) {
    case Category::parameters:
      return Colour::parameters;
    case Category::gradients:
      return Colour::gradients;
    case Category::optimizer:
      return Colour::optimizer;
    case Category::activations:
      return Colour::activations;
    case Category::communication:
      return Colour::communication;
    case Category::workspace:
      return Colour::workspace;
  }
  return Colour::plain;
}

RunConfig config_of_gpt2() {
  const ModelPreset& preset = find_preset("gpt2");
  RunConfig config;
  config.model_name = preset.name;
  config.model = preset.config;
  config.global_batch_size = kRanks;
  config.micro_batch_size = 1;
  return config;
}

template <class T>
Prediction predicted(const typename T::Flags& flags = {}) {
  return predict<T>(config_of_gpt2(), {.data_size = kRanks}, flags);
}

}  // namespace

std::string draw_memory_bars(const std::string& title, const std::vector<MemoryBar>& bars) {
  constexpr double kLeft = 240, kTop = 44, kWidth = 388, kRow = 34, kBar = 24;
  size_t largest = 0;
  for (const MemoryBar& bar : bars) largest = std::max(largest, bar.use.total());
  const double bottom = kTop + kRow * static_cast<double>(bars.size());
  Svg svg(kLeft + kWidth + 86, bottom + 32);
  svg.title(title);
  double y = kTop;
  for (const MemoryBar& bar : bars) {
    svg.text(10, y + 17, bar.name);
    double x = kLeft;
    for (Category category : kCategories) {
      const double width =
          kWidth * static_cast<double>(bar.use[category]) / static_cast<double>(largest);
      if (width == 0) continue;
      svg.box(colour_of(category), x, y, width, kBar,
              concat(name_of(category), ": ", human_bytes(bar.use[category])));
      x += width;
    }
    svg.text(x + 8, y + 17, human_bytes(bar.use.total()));
    y += kRow;
  }
  double x = 10;
  for (Category category : kCategories) {
    x = svg.legend(x, bottom + 8, colour_of(category), name_of(category));
  }
  return svg.str();
}

std::string memory_bars() {
  const Prediction offload = predicted<OffloadTrainer>();
  const Prediction all_offloaded =
      predicted<OffloadTrainer>({.zero_stage = 3, .offload_parameters = true, .gather = {}});
  return draw_memory_bars(
      concat("Memory of one of ", kRanks, " ranks: GPT-2 124M, fp32, one sequence at a time"),
      {{"01 single gpu (one rank)", predict<SingleGpuTrainer>(config_of_gpt2(), {}, {}).device},
       {"02 ddp", predicted<DdpTrainer>().device},
       {"03 zero1", predicted<Zero1Trainer>().device},
       {"04 zero2", predicted<Zero2Trainer>().device},
       {"05 zero3", predicted<Zero3Trainer>().device},
       {"06 offload: on the device", offload.device},
       {"06 offload: on the host", offload.host},
       {"06, parameters too: on the device", all_offloaded.device},
       {"06, parameters too: on the host", all_offloaded.host}});
}

std::string recompute_bars() {
  RunConfig config = config_of_gpt2();
  config.global_batch_size = config.micro_batch_size = 16;
  std::vector<MemoryBar> bars;
  for (const char* mode : {"none", "cheap", "attention", "mlp", "block", "every-2", "every-4"}) {
    config.recompute = parse_recompute(mode);
    bars.push_back(
        {concat("--recompute ", mode), predict<CheckpointingTrainer>(config, {}, {}).device});
  }
  return draw_memory_bars("Memory: GPT-2 124M, fp32, 16 sequences of 1,024 tokens at a time", bars);
}

std::string sequence_bars() {
  RunConfig config = config_of_gpt2();
  config.global_batch_size = config.micro_batch_size = 16;
  std::vector<MemoryBar> bars = {
      {"01 single gpu", predict<SingleGpuTrainer>(config, {}, {}).device}};
  const auto add_bars = [&]<class T>(const std::string& name, const typename T::Flags& flags = {}) {
    for (size_t ranks : {4, 12}) {
      bars.push_back({concat(name, ", ", ranks, " ranks"),
                      predict<T>(config, {.tensor_size = ranks}, flags).device});
    }
  };
  add_bars.operator()<TensorParallelTrainer>("07 tensor parallel");
  add_bars.operator()<SequenceParallelTrainer>("13, --gathered keep",
                                               {.tensor = {}, .tokens = {.gathered = "keep"}});
  add_bars.operator()<SequenceParallelTrainer>("13 sequence parallel");
  return draw_memory_bars("Memory of one rank: GPT-2 124M, fp32, 16 sequences of 1,024 tokens",
                          bars);
}

}  // namespace ladder
