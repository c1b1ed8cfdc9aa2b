// Named ranges in the timelines of NVIDIA's profilers (nsys profile), by NVTX.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <string_view>

namespace ladder {

// From here to its end this thread works on `what` (and `of` it, after a blank); ranges nest. The
// profiler also finds what the thread meanwhile queued on a device. Costs a few nanoseconds while
// no profiler listens; nothing in the default build.
class Range {
 public:
  explicit Range(std::string_view what, std::string_view of = {}) {
    std::array<char, 64> text;  // longer names are cut: this must not allocate
    size_t size = what.copy(text.data(), text.size() - 1);
    if (!of.empty() && size + 2 < text.size()) {
      text[size++] = ' ';
      size += of.copy(text.data() + size, text.size() - 1 - size);
    }
    text[size] = '\0';
    nvtxRangePushA(text.data());
  }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace ladder
