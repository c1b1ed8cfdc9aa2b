#include "common/comm/call.h"

#include "kernels/runtime/check.h"

namespace ladder {

bool same_call(const Call& a, const Call& b) {
  return a.collective == b.collective && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.peer == b.peer && a.elements == b.elements;
}

std::string to_string(const Call& call) {
  std::string text(name_of(call.collective));
  if (call.collective == Collective::barrier) return text;
  if (call.reduction == Reduction::max) text += " (max)";
  text += concat(" of ", call.elements, " ", name_of(call.dtype));
  if (call.collective == Collective::broadcast || call.collective == Collective::reduce) {
    text += concat(" with root ", call.peer);
  }
  return text;
}

void require_same_call(uint64_t number, const std::vector<std::string>& names, size_t own_rank,
                       const Call& own, size_t their_rank, const Call& theirs) {
  if (same_call(own, theirs)) return;
  fail(concat("collective number ", number, " differs: ", names[own_rank], " calls ",
              to_string(own), ", ", names[their_rank], " calls ", to_string(theirs)));
}

}  // namespace ladder
