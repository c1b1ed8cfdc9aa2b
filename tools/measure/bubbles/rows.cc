#include "tools/measure/bubbles/rows.h"

#include <cmath>

#include "common/cluster/cluster_json.h"
#include "common/schedule/search.h"
#include "kernels/runtime/check.h"

namespace ladder::bubbles {
namespace {

Row row_of(const Json& json, const Json& file, const std::string& where) {
  const ClusterFileContext context = {.where = where};
  const auto count = [&](const char* key) {
    return whole(number_in(json, key, NumberRange::count, context));
  };
  const auto milliseconds = [&](const char* key) {
    return number_in(json, key, NumberRange::rate, context);
  };
  Row row = {.model = text_of(json, "model", context),
             .stages = count("stages"),
             .micro_batches = count("micro_batches"),
             .chunks = count("chunks"),
             .forward = milliseconds("forward_ms"),
             .input = milliseconds("backward_input_ms"),
             .weight = milliseconds("backward_weight_ms"),
             .send = number_in(json, "send_ms", NumberRange::seconds, context),
             .sequence_length = number_in(file, "sequence_length", NumberRange::count, context),
             .hidden = number_in(json, "hidden", NumberRange::count, context),
             .heads = number_in(json, "heads", NumberRange::count, context),
             .published = {}};
  for (const Column& column : kColumns) {
    row.published.push_back(number_in(json, column.key, NumberRange::share, context));
  }
  if (row.micro_batches % row.stages != 0) {
    refuse(context, "micro_batches", row.micro_batches, " on ", row.stages,
           " stages: ", "interleaved needs whole groups of them");
  }
  return row;
}

std::vector<VirtualStageTimes> times_of(const Row& row, const ChunkPlacement& at) {
  const double part = 1 / static_cast<double>(at.num_chunks);
  return std::vector<VirtualStageTimes>(at.num_virtual_stages(),
                                        {part * row.forward, part * row.input, part * row.weight});
}

Schedule work_of(const Row& row, const Column& column, const ChunkPlacement& at) {
  if (column.pipelines == 0) return make_work(column.order, at, row.micro_batches);
  const ScheduleProblem problem = {
      .placement = at,
      .num_micro_batches = row.micro_batches,
      .times = times_of(row, at),
      .message = row.send,
      .max_buffers = std::vector<size_t>(row.stages, column.pipelines * row.stages),
      .kept_for_weights = row.kept_for_weights(),
      .links = Links::eager,
      .ends_together = false};
  std::vector<Schedule> known;
  for (Order order : {Order::one_f_one_b, Order::zb_h1, Order::zb_h2}) {
    known.push_back(make_work(order, at, row.micro_batches));
  }
  return find_work(problem, known, 0);
}

}  // namespace

std::vector<Row> read_rows(const std::string& path) {
  const Json file = read_json_object(path, 100'000);
  std::vector<Row> rows;
  for (const Json& json : objects_of(file, "rows", {.where = path})) {
    rows.push_back(row_of(json, file, concat(path, ": row ", rows.size() + 1)));
  }
  if (rows.empty()) throw UserError(concat(path, ": no rows"));
  return rows;
}

Simulated simulated(const Row& row, const Column& column) {
  const ChunkPlacement at = placement_of(column.order, row.stages, row.chunks);
  const Schedule schedule = complete(work_of(row, column, at), at, false);
  const Timeline timeline =
      simulate(schedule, costs_of(at, times_of(row, at), row.send), Links::eager);
  const double work =
      static_cast<double>(row.micro_batches) * (row.forward + row.input + row.weight);
  return {1 - work / longest_stage(schedule, timeline), extent_of(timeline).length()};
}

long digits(double bubble) { return std::lround(1e4 * bubble); }

}  // namespace ladder::bubbles
