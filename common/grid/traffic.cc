#include "common/grid/traffic.h"

#include "kernels/runtime/check.h"

namespace ladder {

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::gradient:
      return "gradient";
    case Purpose::parameter:
      return "parameter";
    case Purpose::activation:
      return "activation";
    case Purpose::update:
      return "update";
    case Purpose::control:
      return "control";
  }
  return "?";
}

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
    case Collective::reduce:
      return "reduce";
    case Collective::all_to_all:
      return "all_to_all";
    case Collective::send:
      return "send";
    case Collective::recv:
      return "recv";
    case Collective::barrier:
      return "barrier";
  }
  return "?";
}

std::string name_of(const TrafficKey& key, char separator) {
  const std::string name = concat(name_of(key.purpose), separator, name_of(key.collective));
  return key.axis == Axis::world ? name : concat(name_of(key.axis), separator, name);
}

double wire_bytes(Collective collective, size_t size, size_t bytes) {
  const double n = static_cast<double>(size), payload = static_cast<double>(bytes);
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n * payload;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
      return (n - 1) / n * payload;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send:
      return size > 1 ? payload : 0;
    case Collective::recv:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

size_t group_bytes(Collective collective, size_t size, size_t bytes) {
  switch (collective) {
    case Collective::all_reduce:
      return 2 * (size - 1) * bytes;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::broadcast:
    case Collective::reduce:
      return (size - 1) * bytes;
    case Collective::send:
      return size > 1 ? bytes : 0;
    case Collective::recv:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

double wire_bytes(Collective collective, size_t size, const Traffic& predicted) {
  const size_t all = predicted.group_sent_bytes;
  if (all == 0) return wire_bytes(collective, size, predicted.payload_bytes);
  return static_cast<double>(all) / static_cast<double>(size);
}

size_t group_bytes(Collective collective, size_t size, const Traffic& predicted) {
  const size_t all = predicted.group_sent_bytes;
  return all == 0 ? group_bytes(collective, size, predicted.payload_bytes) : all;
}

size_t bytes_between(Collective collective, const std::vector<size_t>& machine_of, size_t bytes) {
  const size_t size = machine_of.size();
  std::map<size_t, size_t> ranks_on;
  for (size_t machine : machine_of) ++ranks_on[machine];
  const size_t others = ranks_on.size() - 1;
  size_t pairs = size * size;
  for (const auto& [machine, ranks] : ranks_on) pairs -= ranks * ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others * bytes;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send:
      return others * bytes;
    case Collective::all_to_all:
      return pairs * (bytes / size);
    case Collective::recv:
    case Collective::barrier:
      return 0;
  }
  return 0;
}

Traffic& Traffic::operator+=(const Traffic& more) {
  calls += more.calls;
  payload_bytes += more.payload_bytes;
  group_sent_bytes += more.group_sent_bytes;
  busy_seconds += more.busy_seconds;
  exposed_seconds += more.exposed_seconds;
  moved += more.moved;
  by_formula = by_formula || more.by_formula;
  encoded = encoded || more.encoded;
  at_most = at_most || more.at_most;
  return *this;
}

}  // namespace ladder
