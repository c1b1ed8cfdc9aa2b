#include "kernels/cudnn/graph.h"
#include "kernels/runtime/check.h"

namespace ladder::cudnn {
namespace {

// Gets at most so many elements of an attribute, or none; returns how many there are.
size_t get(const Descriptor& of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           size_t most, void* values) {
  int64_t count = 0;
  const cudnnStatus_t status =
      library().get_attribute(of.get(), name, type, static_cast<int64_t>(most), &count, values);
  check_status(status, "cudnnBackendGetAttribute", of.what());
  return static_cast<size_t>(count);
}

// Returns the engines that cuDNN suggests, best first, with their settings.
std::vector<Descriptor> suggested(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  const auto kName = CUDNN_ATTR_ENGINEHEUR_RESULTS;
  const auto kType = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, concat(graph.what(), ", heuristics"));
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  heuristics.finalize();
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  const size_t most = get(heuristics, kName, kType, 0, nullptr);
  for (size_t i = 0; i < most; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, concat(graph.what(), ", engine ", i));
    raw.push_back(configs.back().get());
  }
  // Only now does cuDNN ask the engines whether they take the graph, so fewer may come.
  const size_t count = most == 0 ? 0 : get(heuristics, kName, kType, most, raw.data());
  while (configs.size() > count) configs.pop_back();
  return configs;
}

}  // namespace

Plan::Plan(const Handle& handle, const Descriptor& graph) {
  std::string refusals;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const Descriptor& config : suggested(graph, mode)) {
      try {
        plan_.emplace(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, config.what());
        plan_->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle.get());
        plan_->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        plan_->finalize();
        int64_t bytes = 0;
        get(*plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
        workspace_bytes_ = static_cast<size_t>(bytes);
        return;
      } catch (const Error& refusal) {
        refusals += concat("\n  ", refusal.what());
      }
    }
  }
  fail(concat("cuDNN ", version_text(library().get_version()), " has no kernel for ", graph.what(),
              refusals.empty() ? "; CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=stderr make it say why"
                               : refusals));
}

void Plan::run(const Handle& handle, std::span<const Bound> tensors, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<const void*> addresses;
  for (const Bound& bound : tensors) {
    ids.push_back(bound.id);
    addresses.push_back(bound.address);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, plan_->what());
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses.size(),
           addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  check_status(library().execute(handle.get(), plan_->get(), pack.get()), "cudnnBackendExecute",
               plan_->what());
}

}  // namespace ladder::cudnn
