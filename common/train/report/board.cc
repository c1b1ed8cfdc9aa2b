#include "common/train/report/board.h"

#include <algorithm>
#include <vector>

#include "common/io/path.h"
#include "common/io/printable.h"

namespace ladder {

namespace {

// Lines that are indented by four spaces are code in Markdown, which is shown as it is.
EventSummary code(const char* tag, std::string_view text) {
  std::string indented = "    ";
  for (const char c : text) indented += c == '\n' ? "\n    " : std::string(1, c);
  EventSummary summary;
  summary.add_text(tag, indented);
  return summary;
}

}  // namespace

Board::Board(const std::string& folder, std::optional<int64_t> resumed_step, const std::string& run)
    : run_(run), folder_(folder, "--tensorboard"), resumed_step_(resumed_step.value_or(0)) {
  bool is_this_runs = resumed_step_ == 0, has_curves = false;
  for (const std::string& name : folder_.names()) {
    if (!is_event_file(name)) continue;
    if (!resumed_step) {
      folder_.refuse(concat("has the event file ", quoted_name(name),
                            " of an earlier run, whose curves would mix with this run's; remove "
                            "it, name another folder, or go on with that run by --resume"));
    }
    has_curves = true;
    is_this_runs |= name.ends_with(run);
  }
  if (has_curves && !is_this_runs) folder_.refuse(kOtherRun);
}

void Board::begin() {
  const std::vector<std::string> others = folder_.names();
  const std::string name = concat(event_file_name(others), run_.empty() ? "" : ".", run_);
  file_.emplace(folder_.path() + "/" + name, resumed_step_ + 1);
  if (!description_.empty()) file_->write(resumed_step_ + 1, code("run", description_));
}

void Board::write(int64_t step, const EventSummary& summary) {
  named_by("--tensorboard", [&] {
    if (!file_) begin();
    file_->write(step, summary);
  });
}

void Board::write(const MetricsFile::Step& step, const Memory& device_memory) {
  EventSummary summary;
  const auto add = [&](const std::string& tag, std::optional<double> value) {
    if (value) summary.add_scalar(tag, *value);
  };
  if (step.result.has_loss) add("loss/train", step.result.loss);
  add("loss/validation", step.validation_loss);
  add("accuracy/validation", step.accuracy);
  add("optimizer/grad_norm", step.result.grad_norm);
  add("optimizer/learning_rate", step.result.learning_rate);
  add("optimizer/loss_scale", step.result.loss_scale);
  add("speed/tokens_per_second", step.tokens_per_second);
  add("speed/samples_per_second", step.sequences_per_second);
  add("speed/mfu", step.mfu);
  // On a GPU the two times come from two clocks, so that the waiting may seem the longer one.
  add("speed/device_busy", std::max(0.0, 1 - step.exposed_ms / step.step_ms));
  add("speed/exposed_ms", step.exposed_ms);
  for (Category category : kCategories) {
    add(concat("memory_MiB/", name_of(category)),
        static_cast<double>(device_memory.peak()[category]) * 0x1p-20);
  }
  write(step.step, summary);
}

void Board::write_sample(int64_t step, const std::string& text) {
  write(step, code("sample", text));
}

void Board::finish() {
  if (file_) named_by("--tensorboard", [&] { file_->finish(); });
}

double exposed_ms(const TrafficEntries& communicated) {
  double seconds = 0;
  for (const auto& [key, traffic] : communicated) seconds += traffic.exposed_seconds;
  return 1e3 * seconds;
}

}  // namespace ladder
