#include "common/train/report/metrics_file.h"

#include <nlohmann/json.hpp>

#include "common/io/path.h"

namespace ladder {
namespace {

using Json = nlohmann::ordered_json;

// Returns the step of a metrics file's line, or nothing if it is not such a line.
std::optional<int64_t> step_of(std::string_view line) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step")) return std::nullopt;
  const Json& step = object["step"];
  return step.is_number_integer() ? std::optional<int64_t>(step) : std::nullopt;
}

// Returns how many bytes of a metrics file the lines up to `last_step` have.
size_t bytes_up_to(std::string_view text, int64_t last_step, const std::string& path) {
  int64_t before = 0;
  size_t begin = 0, number = 1;
  for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1, ++number) {
    const std::optional<int64_t> step = step_of(text.substr(begin, end - begin));
    if (!step || *step <= before) {
      throw UserError(concat(path, ": line ", number, " is not the metrics of a step after step ",
                             before, ", so this run cannot be added; name another file"));
    }
    if (*step > last_step) break;
    before = *step;
  }
  return begin;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, int64_t resumed_step, const std::string& run)
    : run_(run),
      file_(
          path, resumed_step == 0 ? LineFile::Kept() : [&](std::string_view text) {
            const bool is_other = !text.empty() && text.find(run) == text.npos;
            if (is_other) throw UserError(concat(path, ": ", kOtherRun));
            return bytes_up_to(text, resumed_step, path);
          }) {}

void MetricsFile::write(const Step& step, const Memory& device_memory,
                        const TrafficEntries& communicated) {
  Json line;
  line["step"] = step.step;
  if (!run_.empty()) line["run"] = run_;
  line["loss"] = step.result.has_loss ? Json(step.result.loss) : Json();
  line["grad_norm"] = step.result.grad_norm;
  line["learning_rate"] = step.result.learning_rate;
  if (step.result.loss_scale) {
    line["loss_scale"] = *step.result.loss_scale;
    line["skipped"] = step.result.skipped;
  }
  line["step_ms"] = step.step_ms;
  line["tokens_per_second"] = step.tokens_per_second;
  if (step.mfu) line["mfu"] = *step.mfu;
  if (step.validation_loss) line["validation_loss"] = *step.validation_loss;
  if (step.accuracy) line["validation_accuracy"] = *step.accuracy;
  for (Category category : kCategories) {
    line["peak_device_bytes"][std::string(name_of(category))] = device_memory.peak()[category];
  }
  Json& collectives = line["collectives"] = Json::object();
  for (const auto& [key, traffic] : communicated) {
    const Traffic& before = before_[key];
    collectives[name_of(key, '.')] = {
        {"calls", traffic.calls - before.calls},
        {"payload_bytes", traffic.payload_bytes - before.payload_bytes},
        {"busy_ms", 1e3 * (traffic.busy_seconds - before.busy_seconds)},
        {"exposed_ms", 1e3 * (traffic.exposed_seconds - before.exposed_seconds)}};
  }
  before_ = communicated;
  named_by("--metrics", [&] { file_.write(line.dump() + "\n"); });
}

void MetricsFile::finish() {
  named_by("--metrics", [&] { file_.finish(); });
}

}  // namespace ladder
