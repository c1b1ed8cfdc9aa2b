#include "kernels/emulator/thread.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <vector>

#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

constexpr size_t kMaxGroups = 8;  // that a message lists

// Threads of one warp, or of the thread block, that are in the same situation.
struct Group {
  const Thread* first;
  size_t size;
};

bool same_situation(const Thread& a, const Thread& b) {
  if (a.state != b.state) return false;
  if (a.state == ThreadState::returned) return true;
  if (!same_location(a.call.where, b.call.where)) return false;
  return a.state != ThreadState::at_warp ||
         (a.call.mask == b.call.mask && a.call.operation == b.call.operation);
}

std::string situation_of(const Thread& thread) {
  switch (thread.state) {
    case ThreadState::ready:
      break;
    case ThreadState::returned:
      return "returned";
    case ThreadState::at_block:
      return concat("in __syncthreads at ", text_of(thread.call.where));
    case ThreadState::at_warp:
      return concat("in ", name_of(thread.call.operation), " at ", text_of(thread.call.where),
                    " with mask 0x", std::hex, thread.call.mask);
  }
  return "running";
}

// Returns the threads that a message is about: the whole thread block if a thread waits for it,
// else the first warp with waiting threads.
std::span<const Thread> concerned(std::span<const Thread> threads) {
  const auto waits_at = [](ThreadState state) {
    return [state](const Thread& thread) { return thread.state == state; };
  };
  if (std::ranges::any_of(threads, waits_at(ThreadState::at_block))) return threads;
  const auto waiting = std::ranges::find_if(threads, waits_at(ThreadState::at_warp));
  const auto begin = static_cast<size_t>(waiting - threads.begin()) / kWarpSize * kWarpSize;
  return threads.subspan(begin, std::min(kWarpSize, threads.size() - begin));
}

std::vector<Group> group(std::span<const Thread> threads) {
  std::vector<Group> groups;
  for (const Thread& thread : threads) {
    bool found = false;
    for (Group& group : groups) {
      if (!same_situation(*group.first, thread)) continue;
      ++group.size;
      found = true;
      break;
    }
    if (!found) groups.push_back({&thread, 1});
  }
  return groups;
}

}  // namespace

std::string text_of(uint3 index) { return concat("(", index.x, ", ", index.y, ", ", index.z, ")"); }

std::string_view path_in_tree(std::string_view path) {
  for (const std::string_view prefix : {"/proc/self/cwd/", "./"}) {
    if (path.starts_with(prefix)) path.remove_prefix(prefix.size());
  }
  return path;
}

std::string text_of(const std::source_location& where) {
  return concat(path_in_tree(where.file_name()), ":", where.line());
}

const char* name_of(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::syncwarp:
      return "__syncwarp";
    case WarpOperation::shfl:
      return "__shfl_sync";
    case WarpOperation::shfl_up:
      return "__shfl_up_sync";
    case WarpOperation::shfl_down:
      return "__shfl_down_sync";
    case WarpOperation::shfl_xor:
      return "__shfl_xor_sync";
    case WarpOperation::any:
      return "__any_sync";
    case WarpOperation::all:
      return "__all_sync";
    case WarpOperation::ballot:
      return "__ballot_sync";
    case WarpOperation::ldmatrix:
      return "ldmatrix";
    case WarpOperation::ldmatrix_trans:
      return "ldmatrix.trans";
    case WarpOperation::mma_bf16:
      return "mma of bf16";
    case WarpOperation::mma_fp16:
      return "mma of fp16";
  }
  return "?";
}

bool same_location(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string describe_standstill(std::span<const Thread> threads) {
  const std::vector<Group> groups = group(concerned(threads));
  std::string text = "threads wait for others that will never come:";
  for (size_t i = 0; i < groups.size() && i < kMaxGroups; ++i) {
    const auto& [first, size] = groups[i];
    text += concat(i == 0 ? " " : "; ", size, size == 1 ? " thread, " : " threads, the first ",
                   text_of(first->index), ", ", situation_of(*first));
  }
  if (groups.size() > kMaxGroups) text += concat("; ", groups.size() - kMaxGroups, " more groups");
  return text;
}

}  // namespace ladder::emulator
