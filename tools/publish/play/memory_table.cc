// Prints, as JSON, what a rank of each lesson holds in memory for every choice of the page of
// memory. The trainers themselves predict it: trainers have kernels, threads and files below them,
// which a page need not load.
#include <algorithm>
#include <iostream>
#include <map>

#include "common/io/text.h"
#include "common/train/program/needed_memory.h"
#include "common/train/run/simulated_rank.h"
#include "kernels/runtime/cost.h"
#include "tools/programs/lessons.h"
#include "tools/publish/play/json.h"

namespace ladder {
namespace {

const std::vector<std::string> kModels = {"gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "70b"};
const std::vector<std::string> kDtypes = {"fp32", "bf16", "fp16"};
const std::vector<std::string> kRecompute = {"none", "cheap", "attention",
                                             "mlp",  "block", "every-4"};
const std::vector<size_t> kRanks = {1, 2, 4, 8, 16, 32, 64}, kBatches = {1, 2, 4, 8, 16, 32, 64};

// A lesson with these flags.
struct Bar {
  std::string name, lesson, note, flags;
};
const std::vector<Bar> kBars = {
    {"01", "01_single_gpu", "", ""},
    {"02", "02_ddp", "", ""},
    {"03", "03_zero1", "", ""},
    {"04", "04_zero2", "", ""},
    {"05", "05_zero3", "", ""},
    {"06", "06_offload", "", ""},
    {"06p", "06_offload", "parameters too", "--zero-stage 3 --offload optimizer,parameters"},
    {"07", "07_tensor_parallel", "", ""},
    {"08", "08_pipeline_parallel", "", ""},
    {"09", "09_3d_parallel", "tensor 2, pipeline 2, ZeRO-1",
     "--tensor-parallel-size 2 --pipeline-parallel-size 2 --zero-stage 1"},
    {"10", "10_mixed_precision", "ZeRO-1", "--zero-stage 1"},
    {"12", "12_gradient_compression", "", ""},
    {"13", "13_sequence_parallel", "", ""},
    {"14", "14_context_parallel", "", ""},
    {"15", "15_expert_parallel", "8 experts", ""},
    {"16", "16_pipeline_schedules", "zb-v", "--schedule zb-v"},
};

// Texts or lists that stand in the table once, and their numbers.
class Numbered {
 public:
  size_t number_of(const Json& json) {
    const auto [found, is_new] = numbers_.try_emplace(json.text, all_.size());
    if (is_new) all_.push_back(json);
    return found->second;
  }
  Json all() const { return json(all_); }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<Json> all_;
};

// Returns what a run on the virtual device says before it trains.
NeededMemory need_of(const Bar& bar, const std::string& choice, size_t n, size_t batch) {
  const Program program = program_of(bar.lesson);
  const bool is_distributed = program.lesson.is_distributed;
  const size_t num_ranks = is_distributed ? n : 1;
  std::string flags = concat("--device virtual --cluster h100x8x8 --global-batch-size ", n * batch,
                             " --micro-batch-size ", batch, choice, bar.flags);
  if (is_distributed) flags += concat(" --ranks ", n);
  const RunConfig config = resolve_flags(program, words_of(flags), num_ranks);
  const Program planned = program.planned(config, program.grid(num_ranks, 0));
  return memory_of_stages(planned, config, num_ranks);
}

// Returns the bytes of a category for all batches: those for the first two batches say a line, on
// which most others lie; then how far the others are from it.
Json line_json(const std::vector<size_t>& bytes) {
  const double first = number_of(bytes[0]), slope = number_of(bytes[1]) - first;
  std::vector<double> line = {first, slope};
  for (size_t i = 2; i < bytes.size(); ++i) {
    line.push_back(number_of(bytes[i]) - first - slope * number_of(kBatches[i] - kBatches[0]));
  }
  while (line.size() > 2 && line.back() == 0) line.pop_back();
  while (line.size() > 1 && line.back() == 0) line.pop_back();
  return json(line);
}

// Returns the numbers of the lines of a choice: of the device's categories, and of the host's if
// that holds anything but workspace. Or, where the lesson refuses, the number of its words.
Json choice_json(const Bar& bar, const std::string& choice, size_t n, Numbered& lines,
                 Numbered& refusals) {
  std::vector<std::vector<size_t>> device(kCategories.size()), host = device;
  bool has_host = false;
  try {
    for (const size_t batch : kBatches) {
      const NeededMemory need = need_of(bar, choice, n, batch);
      has_host |= need.host.total() > need.host[Category::workspace];
      for (const Category category : kCategories) {
        device[static_cast<size_t>(category)].push_back(need.device[category]);
        host[static_cast<size_t>(category)].push_back(need.host[category]);
      }
    }
  } catch (const UserError& why) {
    return json(refusals.number_of(json(why.what())));
  }
  if (has_host) device.insert(device.end(), host.begin(), host.end());
  std::vector<size_t> numbers;
  for (const std::vector<size_t>& bytes : device)
    numbers.push_back(lines.number_of(line_json(bytes)));
  return json(numbers);
}

Json bar_json(const Bar& bar, Numbered& lines, Numbered& refusals) {
  std::vector<Json> needs;
  for (const std::string& model : kModels) {
    for (const size_t n : kRanks) {
      for (const std::string& dtype : kDtypes) {
        for (const std::string& mode : kRecompute) {
          const std::string choice =
              concat(" --model ", model, " --dtype ", dtype, " --recompute ", mode, " ");
          needs.push_back(choice_json(bar, choice, n, lines, refusals));
        }
      }
    }
  }
  return json({{"name", json(bar.name)},
               {"lesson", json(bar.lesson)},
               {"note", json(bar.note)},
               {"flags", json(bar.flags)},
               {"ranked", json(size_t{program_of(bar.lesson).lesson.is_distributed})},
               {"needs", json(needs)}});
}

Json table_json() {
  Numbered lines, refusals;
  std::vector<Json> bars;
  for (const Bar& bar : kBars) bars.push_back(bar_json(bar, lines, refusals));
  std::vector<Json> categories;
  for (const Category category : kCategories) categories.push_back(json(name_of(category)));
  std::vector<size_t> tokens;
  for (const std::string& model : kModels) {
    tokens.push_back(find_preset(model).config.sequence_length);
  }
  return json({{"models", json(kModels)},
               {"tokens", json(tokens)},
               {"ranks", json(kRanks)},
               {"dtypes", json(kDtypes)},
               {"recompute", json(kRecompute)},
               {"batches", json(kBatches)},
               {"categories", json(categories)},
               {"bars", json(bars)},
               {"lines", lines.all()},
               {"refusals", refusals.all()}});
}

}  // namespace
}  // namespace ladder

int main() { std::cout << ladder::table_json().text << "\n"; }
