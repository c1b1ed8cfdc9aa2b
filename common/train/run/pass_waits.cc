#include "common/train/run/pass_waits.h"

namespace ladder {

PassWaits::Pass PassWaits::pass_of(std::string_view name) {
  const std::string_view what = name.substr(name.rfind(' ') + 1);  // of "h.0 forward"
  if (what == "forward" || what == "classifier") return Pass::forward;
  if (what == "AdamW" || what == "Muon") return Pass::optimizer;
  return Pass::backward;
}

void PassWaits::on_begin(std::string_view name) {
  if (next_ != nullptr) next_->on_begin(name);
  const Pass pass = pass_of(name);
  if (pass == pass_ && name != first_) return;
  pass_ = pass;
  first_ = name;
  stream_.synchronize();
}

void PassWaits::on_range(std::string_view name, Time begin, Time end) {
  if (next_ != nullptr) next_->on_range(name, begin, end);
}

}  // namespace ladder
