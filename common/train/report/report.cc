#include "common/train/report/report.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/io/printable.h"
#include "common/model/family.h"
#include "common/model/train_choice.h"
#include "kernels/cudnn_attention.h"
#include "kernels/runtime/gpu.h"
#include "kernels/runtime/threads.h"

namespace ladder {
namespace {

// Returns a line such as "12 MiB predicted: parameters 4 MiB, gradients 8 MiB\n". `use` is that of
// the rank that needs most. If that is not rank 0, which prints the line, the line says so.
std::string by_category(const MemoryUse& use, size_t rank) {
  std::string text = concat(human_bytes(use.total()), " predicted");
  if (rank != 0) text += concat(" for rank ", rank, " (ranks differ, and this one needs the most)");
  const char* separator = ": ";
  for (Category category : kCategories) {
    if (use[category] == 0) continue;
    text += concat(separator, name_of(category), " ", human_bytes(use[category]));
    separator = ", ";
  }
  return text + "\n";
}

// Returns a line with the choices that make the model's family, as their flags have them; nothing
// of a GPT-2, whose choices are the defaults.
std::string family_text(const ModelConfig& model) {
  std::string text;
  for (const auto& [choice, value] : chosen(model)) {
    text += concat(text.empty() ? "  family   " : ", ", choice->name, " ", value);
  }
  return text.empty() ? text : text + "\n";
}

// Returns a line with what is trained and how many parameters these are; nothing if all are.
std::string trained_text(const ModelDescription& model) {
  if (model.config.frozen.empty()) return "";
  const size_t trained = model.num_trained_parameters(), all = model.num_parameters();
  return format("  trained  %s: %s of %s parameters (%.3g %%)\n", train_text(model.config).c_str(),
                with_commas(trained).c_str(), with_commas(all).c_str(),
                100.0 * static_cast<double>(trained) / static_cast<double>(all));
}

std::string examples_text(const Corpus& corpus) {
  const size_t validation = corpus.num_examples(Split::validation);
  return concat(with_commas(corpus.num_examples(Split::train) + validation), " examples (",
                with_commas(validation), " for validation), ");
}

// Describes the run's device, and says why --device auto took it.
std::string device_text(const RunConfig& config) {
  const auto flag = config.flags.find("--device");
  const bool is_auto = flag != config.flags.end() && flag->second.value == "auto";
  const std::string why = is_auto ? why_cpu().value_or("a GPU is visible") : "";
  return description_of(config.device) + (why.empty() ? "" : concat(" (auto: ", why, ")"));
}

}  // namespace

std::string flags_text(const RunConfig& config) {
  std::string text;
  for (const auto& [name, flag] : config.flags) {
    text += concat(name, " ", flag.value, flag.is_default ? " (default)\n" : "\n");
  }
  return text;
}

std::string header_text(const LessonInfo& lesson, const RunConfig& config, const ProcessGrid& grid,
                        const Corpus& corpus, const NeededMemory& memory,
                        const std::string& communication) {
  const ModelConfig& model = config.model;
  const ModelDescription described = describe(model);
  const size_t micro_batches = config.num_micro_batches(grid.data_size);
  std::string text = concat(lesson.name, ": ", lesson.description, "\n", config.flags_note);
  text += concat("  model    ", config.model_name, ": ", counted(model.num_layers, "layer"), ", ",
                 counted(model.num_heads, "head"), ", hidden ", model.hidden,
                 model.ffn == 0 ? "" : concat(", inner layer ", model.ffn), ", vocabulary ",
                 with_commas(model.vocab_size), model.untied ? " (untied)" : "", ", ",
                 model.labels.empty() ? "" : concat(counted(model.labels.size(), "label"), ", "),
                 "sequence length ", model.sequence_length, "; ",
                 with_commas(described.num_parameters()), " parameters\n");
  text += family_text(model) + trained_text(described);
  text += concat("  batch    ", counted(config.global_batch_size, "sequence"), " a step, ",
                 counted(micro_batches, "micro-batch"), " of ", config.micro_batch_size, "; ",
                 with_commas(config.tokens_per_step()),
                 config.tokens_per_step() == 1 ? " token a step\n" : " tokens a step\n");
  const bool is_real = config.simulated.empty();
  text +=
      concat("  device   ", is_real ? device_text(config) : config.simulated, ", ",
             name_of(config.dtype), is_real ? ", " + counted(config.threads, "thread") : "", "\n");
  if (config.attention_kernel == AttentionKernel::cudnn) {
    text += concat("  attention ", CudnnAttention::name(),
                   ", the same bits in every run, others than those of our own kernels\n");
  }
  if (grid.world_size() > 1) {
    const bool shares_batch = grid.data_size == grid.world_size();
    text += concat("  ranks    ", grid.world_size(),
                   shares_batch ? "" : concat(" (", layout_text(grid), ")"),
                   ", communication: ", communication, "\n");
  }
  const size_t num_files = corpus.files().size();
  text += concat("  data     ", one_line(corpus.name()), ", ",
                 num_files > 1 ? concat(num_files, " files, ") : "",
                 corpus.has_examples() ? examples_text(corpus) : "",
                 with_commas(corpus.num_tokens()), " tokens\n");
  if (const auto masking = config.masking()) {
    text +=
        concat("  masked   ", kChosenPercent, " % of the tokens are to be told from the others; ",
               "the mask is token ", masking->mask_token(), "\n");
  }
  text += "  memory   " + by_category(memory.device, memory.device_rank);
  // Without offloading the host has only some workspace, which is not worth a line.
  if (memory.host.total() > memory.host[Category::workspace]) {
    text += "  host     " + by_category(memory.host, memory.host_rank);
  }
  return text;
}

namespace {

void add_arena(std::string& text, const Memory& memory, const MemoryUse& predicted) {
  for (Category category : kCategories) {
    const size_t measured = memory.peak()[category];
    if (predicted[category] == 0 && measured == 0) continue;
    text +=
        format("  %-6s %-14s %18s %18s%s\n", memory.arena().c_str(),
               std::string(name_of(category)).c_str(), with_commas(predicted[category]).c_str(),
               with_commas(measured).c_str(), predicted[category] == measured ? "" : "  differs");
  }
}

}  // namespace

std::string memory_table(const Prediction& prediction, const Memory& device, const Memory& host) {
  std::string text = format("\n  %-21s %18s %18s\n", "peak memory, bytes", "predicted", "measured");
  add_arena(text, device, prediction.device);
  add_arena(text, host, prediction.host);
  return text;
}

namespace {

// One row of the table of communication.
struct CommunicationRow {
  // Bytes of one rank in one step.
  std::string predicted = "-", measured, predicted_between = "-", between;
  bool differs;
};

std::string rounded(double bytes) {
  return with_commas(static_cast<uint64_t>(std::llround(bytes)));
}

// Returns the bytes that leave machines where a group moves `payload`, or where this rank does in a
// send. A rank sends to the next or to the previous rank. Returns nothing if that is not known.
std::optional<size_t> predict_between(const TrafficKey& key, bool encoded, size_t payload,
                                      const ProcessGrid& grid,
                                      const std::vector<size_t>& machine_of) {
  if (machine_of.empty()) return std::nullopt;
  std::vector<size_t> machines;  // of the group's ranks
  for (size_t rank : grid.ranks_of_group(key.axis)) machines.push_back(machine_of[rank]);
  if (key.collective == Collective::send) {
    const size_t size = machines.size(), own = grid.group(key.axis).rank;
    const auto to = [&](size_t peer) {
      return bytes_between(key.collective, {machines[own], machines[peer % size]}, payload);
    };
    return to(own + 1) == to(own + size - 1) ? std::optional(to(own + 1)) : std::nullopt;
  }
  if (!encoded) return bytes_between(key.collective, machines, payload);
  return bytes_between(Collective::all_to_all, machines, payload) +
         bytes_between(Collective::all_gather, machines, payload);
}

CommunicationRow communication_row(const TrafficKey& key, const Traffic& traffic,
                                   const Traffic* predicted, const ProcessGrid& grid,
                                   const std::vector<size_t>& machine_of, size_t num_steps) {
  const size_t size = grid.size(key.axis);
  // A send counts for its own rank. The bytes of a collective are those of all ranks together.
  const double ranks = key.collective == Collective::send ? 1 : static_cast<double>(size);
  const double moved = static_cast<double>(traffic.moved.bytes) / ranks;
  CommunicationRow row;
  row.measured =
      traffic.by_formula ? "by formula" : rounded(moved / static_cast<double>(num_steps));
  const auto per_rank = [&](size_t bytes) {
    return rounded(static_cast<double>(bytes) / ranks / static_cast<double>(num_steps));
  };
  row.between = per_rank(traffic.moved.between);
  // Nobody predicts control traffic.
  row.differs = predicted == nullptr && key.purpose != Purpose::control;
  if (predicted == nullptr) return row;
  const Traffic all_steps = predicted->times(num_steps);
  if (predicted->at_most) {
    row.predicted = concat("<= ", with_commas(predicted->payload_bytes));
    row.differs = traffic.calls != all_steps.calls || moved > all_steps.payload_bytes;
    return row;
  }
  const size_t bytes = group_bytes(key.collective, size, all_steps);
  row.predicted = rounded(wire_bytes(key.collective, size, *predicted));
  row.differs = traffic != all_steps || (!traffic.by_formula && traffic.moved.bytes != bytes);
  // What leaves a machine differs by rank.
  if (bytes != group_bytes(key.collective, size, all_steps.payload_bytes)) return row;
  const auto between =
      predict_between(key, traffic.encoded, all_steps.payload_bytes, grid, machine_of);
  if (!between) return row;
  row.predicted_between = per_rank(*between);
  row.differs = row.differs || traffic.moved.between != *between;
  return row;
}

}  // namespace

std::string communication_table(const Prediction& prediction, const TrafficEntries& communicated,
                                const ProcessGrid& grid, int64_t num_steps, int threads,
                                const Placement& placement) {
  if (grid.world_size() == 1) return "\n  communication: none, one rank\n";
  if (num_steps == 0) return "\n  communication: no step was trained\n";
  int width = 25;
  bool has_machines = false;  // whether some bytes went from one machine to another
  // A row for each key that was predicted or measured.
  TrafficEntries rows = communicated;
  for (const auto& [key, traffic] : prediction.step) rows.try_emplace(key);
  for (const auto& [key, traffic] : rows) {
    width = std::max(width, static_cast<int>(name_of(key).size()));
    has_machines = has_machines || traffic.moved.between > 0;
  }
  const auto between = [&](const std::string& predicted, const std::string& measured) {
    return has_machines ? format(" %17s %16s", predicted.c_str(), measured.c_str()) : "";
  };
  std::string text =
      format("\n  %-*s %16s %16s%s %10s %10s\n", width, "communication, a step", "predicted bytes",
             "measured bytes", between("predicted between", "measured between").c_str(),
             "exposed ms", "hidden ms");
  const double steps = static_cast<double>(num_steps);
  bool hides = false;
  for (const auto& [key, traffic] : rows) {
    const auto found = prediction.step.find(key);
    const Traffic* const predicted = found == prediction.step.end() ? nullptr : &found->second;
    const CommunicationRow row = communication_row(
        key, traffic, predicted, grid, placement.machine_of, static_cast<size_t>(num_steps));
    const double exposed = traffic.exposed_seconds, hidden = traffic.busy_seconds - exposed;
    hides = hides || hidden > 0;
    text += format("  %-*s %16s %16s%s %10.2f %10.2f%s\n", width, name_of(key).c_str(),
                   row.predicted.c_str(), row.measured.c_str(),
                   between(row.predicted_between, row.between).c_str(), 1e3 * exposed / steps,
                   1e3 * std::max(0.0, hidden) / steps, row.differs ? "  differs" : "");
  }
  if (hides && placement.node_size * (static_cast<size_t>(threads) + 1) >
                   static_cast<size_t>(num_available_cores())) {
    text += "  Computation and communication share the cores here: hidden time is no gain.\n";
  }
  return text;
}

std::string out_of_memory_text(const OutOfMemory& error, const RunConfig& config,
                               const Prediction& prediction) {
  const MemoryUse& needed = error.arena == "host" ? prediction.host : prediction.device;
  std::string text =
      format("  %-14s %14s %14s\n", (error.arena + " memory").c_str(), "in use", "needed");
  for (Category category : kCategories) {
    text +=
        format("  %-14s %14s %14s%s\n", std::string(name_of(category)).c_str(),
               human_bytes(error.in_use[category]).c_str(), human_bytes(needed[category]).c_str(),
               category == error.category ? "  <- no room" : "");
  }
  text += format("  %-14s %14s %14s  of %s\n", "total", human_bytes(error.in_use.total()).c_str(),
                 human_bytes(needed.total()).c_str(),
                 error.limit > 0 ? human_bytes(error.limit).c_str() : "what the machine has");
  text += "  What to try:\n";
  // A smaller micro-batch makes only activations and workspace smaller. The rest is fixed.
  const size_t fixed = needed.total() - needed[Category::activations] - needed[Category::workspace];
  if (config.micro_batch_size > 1 && (error.limit == 0 || fixed < error.limit)) {
    text += concat("  - a smaller --micro-batch-size than ", config.micro_batch_size,
                   ": fewer activations, the same gradients\n");
  }
  const bool has_many_activations = needed[Category::activations] > needed.total() / 4;
  if (config.recompute.dropped.none() && error.arena == "device" && has_many_activations) {
    text +=
        "  - --recompute block: activations are computed again instead of kept, the same bits\n";
  }
  text += "  - a smaller --model, or fewer --layers\n";
  if (config.dtype == DType::fp64) text += "  - --dtype fp32: half of everything\n";
  const bool on_gpu = config.device == DeviceType::cuda && error.arena == "device";
  text += concat("  - a larger --", error.arena, "-memory, if the ",
                 on_gpu ? "GPU has it beside what cuBLAS and NCCL need\n" : "machine has it\n");
  return text + "  - more ranks, in a lesson whose ranks share what is large here: 03 to 09\n";
}

}  // namespace ladder
