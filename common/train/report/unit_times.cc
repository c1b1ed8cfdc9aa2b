#include "common/train/report/unit_times.h"

#include <algorithm>
#include <chrono>

namespace ladder {
namespace {

double seconds_at(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

void UnitTimes::on_range(std::string_view name, Time begin, Time end) {
  ranges_.push_back({seconds_at(begin), seconds_at(end), {.name = std::string(name)}});
  match();
}

void UnitTimes::add(const DeviceSpan& span) {
  // A time in the middle of queueing, so that it is not on the border between two ranges.
  const double queued =
      launch_seconds_ > 0 ? span.issued - launch_seconds_ / 2 : (span.issued + span.end) / 2;
  operations_.push_back({queued, span.begin, span.end});
  match();
}

// Operations that no range has queued belong to none.
void UnitTimes::match() {
  while (!ranges_.empty() && !operations_.empty()) {
    const Operation& operation = operations_.front();
    Range& range = ranges_.front();
    if (operation.queued > range.end) {
      end_first();
      continue;
    }
    if (operation.queued >= range.begin) {
      UnitTime& work = range.work;
      if (work.busy == 0) work.begin = operation.begin;
      work.end = std::max(work.end, operation.end);
      work.busy += operation.end - operation.begin;
    }
    operations_.pop_front();
  }
}

void UnitTimes::end_first() {
  const Range range = std::move(ranges_.front());
  ranges_.pop_front();
  if (range.work.busy > 0) done_(range.work);
}

void UnitTimes::finish() {
  operations_.clear();
  while (!ranges_.empty()) end_first();
}

}  // namespace ladder
