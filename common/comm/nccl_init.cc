#include "common/comm/nccl_init.h"

#include <cstring>

#include "common/comm/nccl_check.h"

namespace ladder {
namespace {

// Returns the id that rank 0 makes, on all ranks. Collective over `host`.
ncclUniqueId shared_id(Transport& host) {
  ncclUniqueId id = {};
  if (host.rank() == 0) nccl_check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  int32_t words[sizeof id / sizeof(int32_t)];
  std::memcpy(words, &id, sizeof id);
  const TensorView view(words, DType::int32, DeviceType::cpu, {std::size(words)});
  host.execute({Collective::broadcast, view, view});
  std::memcpy(&id, words, sizeof id);
  return id;
}

}  // namespace

ncclComm* make_nccl(Transport& host, const NcclOptions& options) {
  ncclComm* nccl = nullptr;
  const int size = static_cast<int>(host.size()), rank = static_cast<int>(host.rank());
  const ncclUniqueId id = shared_id(host);
  if (options.max_thread_blocks == 0) {
    nccl_check(ncclCommInitRank(&nccl, size, id, rank), "ncclCommInitRank");
    return nccl;
  }
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 1;
  config.maxCTAs = static_cast<int>(options.max_thread_blocks);
  nccl_check(ncclCommInitRankConfig(&nccl, size, id, rank, &config), "ncclCommInitRankConfig");
  return nccl;
}

ncclComm* split_nccl(ncclComm* parent, size_t color, const Transport& host) {
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const bool is_alone = host.size() == 1;
  ncclComm* part = nullptr;
  nccl_check(ncclCommSplit(parent, is_alone ? NCCL_SPLIT_NOCOLOR : static_cast<int>(color),
                           static_cast<int>(host.rank()), &part, nullptr),
             "ncclCommSplit");
  return part;
}

}  // namespace ladder
