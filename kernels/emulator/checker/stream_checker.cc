#include "kernels/emulator/checker/stream_checker.h"

#include <sys/mman.h>

#include <algorithm>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/checker/debug_info.h"
#include "kernels/emulator/launch.h"
#include "kernels/runtime/check.h"

extern "C" char __executable_start[];  // the linker defines it

namespace ladder::emulator {
namespace {

constexpr size_t kWord = 4;
// When the host has waited for everything and so many words have been touched, the tables are given
// back.
constexpr size_t kManyWords = 16 << 20;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string bytes_text(size_t bytes) { return concat(bytes, bytes == 1 ? " byte" : " bytes"); }

}  // namespace

StreamChecker::StreamChecker() {
  const auto device = Arena::instance().addresses();
  begin_ = number(device.data());
  bytes_ = device.size();
  void* const mapped = mmap(nullptr, bytes_ / kWord * sizeof(Cell), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) fail("cannot reserve addresses for the checker's tables");
  cells_ = static_cast<Cell*>(mapped);
}

void StreamChecker::released(const void* begin, size_t bytes) {
  Cell* const first = cells_ + (number(begin) - begin_) / kWord;
  std::fill_n(first, (bytes + kWord - 1) / kWord, Cell());
}

bool StreamChecker::comes_before(WorkId earlier) {
  if (earlier == running_work) return true;
  if (known_for_ == running_work && known_ == earlier) return true;
  if (!comes_before_running(earlier)) return false;
  known_for_ = running_work;
  known_ = earlier;
  return true;
}

bool StreamChecker::collides(const Touch& earlier, const Touch& now) {
  return earlier.work != 0 && (earlier.bytes & now.bytes) != 0 &&
         !(earlier.is_atomic && now.is_atomic) && !comes_before(earlier.work);
}

void StreamChecker::remember_read(Cell& cell, const Touch& now) {
  auto& [first, second] = cell.reads;
  Touch& kept = first.work == 0 || comes_before(first.work) ? first : second;
  const auto bytes = kept.work == now.work ? kept.bytes : std::uint8_t{0};
  kept = now;
  kept.bytes |= bytes;
}

StreamChecker::Conflict StreamChecker::touch(std::uintptr_t begin, size_t bytes, AccessKind kind,
                                             std::uint32_t site) {
  const std::uintptr_t end = begin + bytes;
  for (std::uintptr_t word = begin / kWord * kWord; word < end; word += kWord) {
    const size_t from = std::max(begin, word) - word, to = std::min<size_t>(end - word, kWord);
    const auto mask = static_cast<std::uint8_t>(((1u << (to - from)) - 1) << from);
    const Touch now = {running_work, site, mask, kind == AccessKind::atomic};
    Cell& cell = cells_[(word - begin_) / kWord];
    num_touched_ += cell.write.work == 0 && cell.reads[0].work == 0;
    if (collides(cell.write, now)) return {&cell.write, true, word};
    if (kind == AccessKind::read) {
      remember_read(cell, now);
      continue;
    }
    for (const Touch& read : cell.reads) {
      if (collides(read, now)) return {&read, false, word};
    }
    const auto before = cell.write.work == now.work ? cell.write.bytes : std::uint8_t{0};
    cell = {now, {}};
    cell.write.bytes |= before;
  }
  return {};
}

void StreamChecker::access(const Access& access) {
  if (!contains(access.address) || running_work == 0) return;
  const auto site =
      static_cast<std::uint32_t>(number(access.return_address) - number(__executable_start));
  const Conflict conflict = touch(access.address, access.bytes, access.kind, site);
  if (conflict.earlier == nullptr) return;
  const char* const names[] = {"reads", "writes", "changes atomically"};
  stop_thread(concat("race of streams: ", names[static_cast<int>(access.kind)], " ",
                     bytes_text(access.bytes), " of global memory at ",
                     source_line(access.return_address), describe(conflict)));
}

void StreamChecker::touch_range(const void* begin, size_t bytes, AccessKind kind) {
  if (!contains(number(begin)) || running_work == 0) return;
  const Conflict conflict = touch(number(begin), bytes, kind, 0);
  if (conflict.earlier == nullptr) return;
  throw Error(concat("race of streams: ", names_[running_work],
                     kind == AccessKind::read ? " reads " : " writes ", bytes_text(bytes),
                     describe(conflict)));
}

void StreamChecker::written(const void* begin, size_t bytes) {
  touch_range(begin, bytes, AccessKind::write);
}

void StreamChecker::read(const void* begin, size_t bytes) {
  touch_range(begin, bytes, AccessKind::read);
}

// read() has been told of what is read.
void StreamChecker::copied(const void* to, const void* /*from*/, size_t bytes) {
  touch_range(to, bytes, AccessKind::write);
}

void StreamChecker::work_is(std::string_view what) {
  if (names_.size() <= running_work) names_.resize(2 * size_t{running_work} + 1);
  names_[running_work] = what;
}

void StreamChecker::launch_begins(const KernelCall& call) { work_is(call.name); }

std::string StreamChecker::name_of(const Touch& touch) const {
  const std::string_view name = names_[touch.work];
  return concat(touch.site == 0 ? "" : "kernel ", name, " on stream ", stream_of(touch.work));
}

std::string StreamChecker::describe(const Conflict& conflict) const {
  const auto& [earlier, writes, word] = conflict;
  const auto* const at = reinterpret_cast<const char*>(word);
  const auto memory = Arena::instance().allocation_before(at);
  const std::string location =
      earlier->site == 0 ? std::string()
                         : concat(" at ", source_line(__executable_start + earlier->site));
  return concat(", byte ", at - memory.data(), " of the ", bytes_text(memory.size()), " at ",
                static_cast<const void*>(memory.data()), ", on stream ", stream_of(running_work),
                "; ", name_of(*earlier), writes ? " wrote" : " read", " it", location,
                ", and neither an event nor a wait of the host orders the two");
}

void StreamChecker::host_copy_given(const void* begin, size_t bytes, bool writes,
                                    std::uint32_t work) {
  pinned_.add(begin, bytes, writes, work);
}

void StreamChecker::host_waited() {
  pinned_.forget_waited();
  if (num_touched_ < kManyWords || !host_has_waited_for_all()) return;
  num_touched_ = 0;
  madvise(cells_, bytes_ / kWord * sizeof(Cell), MADV_DONTNEED);
}

}  // namespace ladder::emulator
