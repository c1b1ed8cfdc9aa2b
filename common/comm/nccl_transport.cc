#include "common/comm/nccl_transport.h"

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "common/comm/nccl_check.h"
#include "common/comm/one_rank.h"
#include "kernels/runtime/device_wait.h"

namespace ladder {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::fp64:
      return ncclFloat64;
    case DType::int32:
      return ncclInt32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
  }
  fail("a collective: a dtype that NCCL is not given");
}

ncclRedOp_t nccl_op(Reduction reduction) { return reduction == Reduction::sum ? ncclSum : ncclMax; }

// Calls of NCCL that begin together, at end(). If an exception unwinds the stack before, they are
// ended all the same: as long as a group is open, NCCL carries out nothing that the thread asks
// for, ncclCommAbort neither.
class Group {
 public:
  Group() { nccl_check(ncclGroupStart(), "ncclGroupStart"); }
  ~Group() {
    if (is_open_) ncclGroupEnd();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  void end() {
    is_open_ = false;
    nccl_check(ncclGroupEnd(), "ncclGroupEnd");
  }

 private:
  bool is_open_ = true;
};

}  // namespace

struct NcclTransport::Live {
  std::mutex mutex;
  std::vector<NcclTransport*> transports;
  const WaitCheck check{check_all};
};

NcclTransport::Live& NcclTransport::live() {
  static auto* const all = new Live;  // never destroyed: static objects may wait
  return *all;
}

std::unique_ptr<Transport> NcclTransport::make(std::unique_ptr<Transport> host, DeviceType device,
                                               NcclMemory* memory, bool compare,
                                               const NcclOptions& options) {
  if (host->size() == 1) return std::make_unique<OneRank>(device);
  ncclComm* const nccl = make_nccl(*host, options);
  return std::unique_ptr<Transport>(
      new NcclTransport(std::move(host), nccl, device, memory, compare, options));
}

NcclTransport::NcclTransport(std::unique_ptr<Transport> host, ncclComm* nccl, DeviceType device,
                             NcclMemory* memory, bool compare, const NcclOptions& options)
    : Transport(host->rank(), host->size(), device, true),
      host_(std::move(host)),
      memory_(memory),
      compare_(compare),
      options_(options),
      nccl_(nccl) {
  try {
    if (memory_ != nullptr) memory_->add(nccl_, *host_);
  } catch (...) {
    ncclCommAbort(nccl_);  // nothing runs there yet, so it waits for nobody
    throw;
  }
  const std::lock_guard lock(live().mutex);
  live().transports.push_back(this);
}

NcclTransport::~NcclTransport() {
  {
    const std::lock_guard lock(live().mutex);
    std::erase(live().transports, this);
  }
  // ncclCommDestroy waits for the peers. While an exception unwinds the stack they may never come;
  // give_up() has then aborted NCCL's communicator, and there is nothing left to destroy.
  if (nccl_ == nullptr) return;
  if (memory_ != nullptr) memory_->remove(nccl_, false);
  ncclCommDestroy(nccl_);
}

std::unique_ptr<Transport> NcclTransport::split(size_t color) {
  std::unique_ptr<Transport> host = host_->split(color);
  if (!options_.split || !nccl_has_come(21800)) {
    return make(std::move(host), device(), memory_, compare_, options_);
  }
  ncclComm* const part = split_nccl(nccl_, color, *host);
  if (part == nullptr) return std::make_unique<OneRank>(device());
  return std::unique_ptr<Transport>(
      new NcclTransport(std::move(host), part, device(), memory_, compare_, options_));
}

void NcclTransport::give_up() {
  Transport::give_up();
  host_->give_up();
  abort_all();
}

// One after the other could wait without end: ncclCommAbort may wait for the whole device, on which
// a kernel of the next communicator waits for its peers
// (github.com/NVIDIA/nccl/issues/1013, github.com/pytorch/pytorch/issues/119797).
void NcclTransport::abort_all() {
  const std::lock_guard lock(live().mutex);
  ncclGroupStart();
  for (const NcclTransport* transport : live().transports) {
    if (transport->nccl_ != nullptr) ncclCommAbort(transport->nccl_);
  }
  ncclGroupEnd();
  for (NcclTransport* const transport : live().transports) {
    if (transport->nccl_ == nullptr) continue;
    transport->Transport::give_up();
    transport->host_->give_up();
    if (transport->memory_ != nullptr) transport->memory_->remove(transport->nccl_, true);
    transport->nccl_ = nullptr;
  }
}

std::string NcclTransport::version() {
  int code = 0;
  nccl_check(ncclGetVersion(&code), "ncclGetVersion");
  return concat(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

void NcclTransport::check_peers() {
  check(nccl_ != nullptr, "given up after an error");
  ncclResult_t error = ncclSuccess;
  nccl_check(ncclCommGetAsyncError(nccl_, &error), "ncclCommGetAsyncError");
  nccl_check(error, "an operation that was queued before");
}

void NcclTransport::check_all() {
  const std::lock_guard lock(live().mutex);
  for (NcclTransport* const transport : live().transports) transport->check_peers();
}

void NcclTransport::enqueue(const Request& request, Stream& queue) {
  check_peers();
  const auto& [collective, out, in, peer, reduction, counts] = request;
  const bool is_transfer = collective == Collective::send || collective == Collective::recv;
  if (compare_ && !is_transfer) host_->compare(request);

  const size_t n = in.empty() ? out.num_elements() : in.num_elements();
  const ncclDataType_t type = nccl_type(in.empty() ? out.dtype() : in.dtype());
  const ncclRedOp_t op = nccl_op(reduction);
  const int other = static_cast<int>(peer);
  cudaStream_t const stream = queue.native();
  switch (collective) {
    case Collective::all_reduce:
      return nccl_check(ncclAllReduce(in.data(), out.data(), n, type, op, nccl_, stream),
                        "ncclAllReduce");
    case Collective::reduce_scatter:
      return nccl_check(
          ncclReduceScatter(in.data(), out.data(), out.num_elements(), type, op, nccl_, stream),
          "ncclReduceScatter");
    case Collective::all_gather:
      return nccl_check(ncclAllGather(in.data(), out.data(), n, type, nccl_, stream),
                        "ncclAllGather");
    case Collective::broadcast:
      return nccl_check(ncclBroadcast(in.data(), out.data(), n, type, other, nccl_, stream),
                        "ncclBroadcast");
    case Collective::reduce: {
      void* const sum = rank() == peer ? out.data() : nullptr;
      return nccl_check(ncclReduce(in.data(), sum, n, type, op, other, nccl_, stream),
                        "ncclReduce");
    }
    case Collective::all_to_all: {
      Group group;
      for (size_t r = 0; r < size(); ++r) {
        const int to = static_cast<int>(r);
        const ConstTensorView sent =
            in.elements(counts.begin_sent(rank(), r), {counts.of(rank(), r)});
        const TensorView received =
            out.elements(counts.begin_received(r, rank()), {counts.of(r, rank())});
        nccl_check(ncclSend(sent.data(), sent.num_elements(), type, to, nccl_, stream), "ncclSend");
        nccl_check(ncclRecv(received.data(), received.num_elements(), type, to, nccl_, stream),
                   "ncclRecv");
      }
      return group.end();
    }
    case Collective::send:
      return nccl_check(ncclSend(in.data(), n, type, other, nccl_, stream), "ncclSend");
    case Collective::recv:
      return nccl_check(ncclRecv(out.data(), n, type, other, nccl_, stream), "ncclRecv");
    case Collective::barrier:
      return;
  }
}

}  // namespace ladder
