#include <algorithm>

#include "common/model/description.h"
#include "common/model/divisible.h"
#include "common/train/report/report.h"
#include "lessons/19_planning/report.h"

namespace ladder {
namespace {

// One measure against running out of memory, and a candidate that takes it and those before.
struct Measure {
  const char* text;
  Candidate candidate;
};

Candidate on_all_ranks(const char* lesson, int zero_stage, const PlanRequest& request) {
  return {
      .lesson = lesson, .data = request.num_ranks, .zero_stage = zero_stage, .recompute = "block"};
}

std::vector<Measure> measures_of_one() {
  return {{"one device, micro-batches of one sequence", {}},
          {"recompute norms and activation functions", {.recompute = "cheap"}},
          {"recompute attention", {.recompute = "attention"}},
          {"recompute whole blocks", {.recompute = "block"}},
          {"keep the optimizer on the host, in fp32",
           {.lesson = "06_offload", .zero_stage = 2, .recompute = "block"}},
          {"keep the parameters there, too",
           {.lesson = "06_offload",
            .zero_stage = 3,
            .offload_parameters = true,
            .recompute = "block"}}};
}

// With many ranks the measures go on from whole blocks on one device.
std::vector<Measure> measures_of_many(const PlanRequest& request, const ModelConfig& model) {
  Candidate grid = on_all_ranks("09_3d_parallel", 0, request);
  grid.tensor = std::min(request.num_ranks, request.cluster.devices_per_node);
  while (!can_split(model, grid.tensor) || request.num_ranks % grid.tensor != 0) --grid.tensor;
  grid.sequence_parallel = grid.tensor > 1;
  grid.data = request.num_ranks / grid.tensor;
  grid.zero_stage = grid.data > 1 ? 1 : 0;
  std::vector<Measure> measures = {
      {"share the moments (ZeRO-1)", on_all_ranks("03_zero1", 1, request)},
      {"share the gradients, too (ZeRO-2)", on_all_ranks("04_zero2", 2, request)},
      {"share the parameters, too (ZeRO-3)", on_all_ranks("05_zero3", 3, request)},
  };
  if (grid.tensor > 1) measures.push_back({"or: split weights in a node, ZeRO-1 between", grid});
  if (grid.data > 1 && grid.data <= model.num_layers) {
    grid.pipeline = grid.data;
    grid.data = 1;
    grid.zero_stage = 0;
    measures.push_back({"or: stages of a pipeline instead of replicas", grid});
  }
  return measures;
}

std::string measure_text(const Measure& measure, const PlanRequest& request) {
  std::string text = format("  %-46s %-16s ", measure.text, measure.candidate.lesson.c_str());
  try {
    const MemoryNeed need = memory_need(measure.candidate, request);
    return text + format("%10s  %s\n", gib(need.device.total()).c_str(),
                         need.fits ? "fits" : "does not fit");
  } catch (const UserError& error) {
    return text + format("%10s  %s\n", "-", error.what());
  }
}

// Returns the bytes of all that training keeps for one parameter.
size_t state_bytes(const PlanRequest& request) {
  const bool has_masters = request.dtype == "bf16" || request.dtype == "fp16";
  if (has_masters) return 2 + 4 + 12;  // with moments
  return request.dtype == "fp64" ? 4 * 8 : 4 * 4;
}

std::string one_device_text(const PlanRequest& request, const ModelConfig& model) {
  const size_t num_parameters = describe(model).num_parameters();
  const size_t bytes = state_bytes(request) * num_parameters;
  const size_t memory = request.cluster.device_memory;
  return concat("\n  One device. The model's state takes ", state_bytes(request),
                " bytes a parameter: ", gib(bytes), " GiB of ", gib(memory), ".\n",
                bytes < memory
                    ? "  -> It fits. Take the largest micro-batch that still fits. Recompute the "
                      "cheapest\n     steps first, and only if activations do not fit.\n"
                    : "  -> It does not fit, so smaller micro-batches and recomputation cannot "
                      "help: both\n     save activations. Share the state among ranks, or keep it "
                      "on the host.\n");
}

std::string node_text(const PlanRequest& request) {
  const Cluster& cluster = request.cluster;
  const double rate = cluster.node_link.rate() / 1e9;
  return format("\n  Several devices in a node (%zu here, %.0f GB/s each way between them).\n",
                cluster.devices_per_node, rate) +
         "  -> A replica fits on a device: 02_ddp. It does not: share moments, then gradients, "
         "then\n     parameters (03, 04, 05). Each of these steps saves memory. 04 and 05 send for "
         "every\n     micro-batch: take few and large ones.\n"
         "  -> One block's activations do not fit, or there are fewer sequences than ranks: "
         "split\n     the weights (09, tensor), with --sequence-parallel.\n";
}

std::string nodes_text(const PlanRequest& request) {
  const Cluster& cluster = request.cluster;
  const double of_device = cluster.network.rate() * static_cast<double>(cluster.nics_per_node) /
                           static_cast<double>(cluster.devices_per_node);
  return format(
             "\n  Several nodes (%zu here, %.1f GB/s for each device, 1/%.0f of the node's "
             "link).\n",
             cluster.num_nodes, of_device / 1e9, cluster.node_link.rate() / of_device) +
         "  -> Tensor groups stay in a node: they exchange activations in every block, and "
         "nothing\n     hides it. Pipelines cross nodes: a stage sends one activation to the "
         "next.\n"
         "  -> Take as few stages as fit. With 1F1B the bubble is (p - 1) / (m + p - 1) for p "
         "stages and m\n     micro-batches, so m should be several times p.\n"
         "  -> All other ranks are replicas, with ZeRO-1. The global batch limits their number.\n";
}

}  // namespace

std::string explanation(const PlanRequest& request, const ModelConfig& model) {
  std::string text = format("\n  %-46s %-16s %10s\n", "Out of memory? One measure after another",
                            "lesson", "GiB a rank");
  for (const Measure& measure : measures_of_one()) text += measure_text(measure, request);
  const bool has_many = request.num_ranks > 1;
  if (has_many) {
    text += format("  With whole blocks recomputed, on %zu ranks:\n", request.num_ranks);
    for (const Measure& one : measures_of_many(request, model)) text += measure_text(one, request);
  }
  text += one_device_text(request, model);
  if (has_many && request.cluster.devices_per_node > 1) text += node_text(request);
  return request.num_ranks > request.cluster.devices_per_node ? text + nodes_text(request) : text;
}

}  // namespace ladder
