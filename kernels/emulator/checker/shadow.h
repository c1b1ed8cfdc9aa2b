// What the checker knows about each byte of a range of memory, in tables beside it. Their pages
// come when they are first written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder::emulator {

// Who accessed a byte, when and where. It has no bit-fields, because g++ keeps those in memory.
class Mark {
 public:
  static constexpr std::uint32_t kMaxTime = (1u << 22) - 1;

  Mark() = default;  // nobody
  Mark(std::uint32_t block, std::uint32_t time, size_t thread, std::uint32_t site, bool atomic)
      : block_(block),
        time_and_thread_(time << 10 | static_cast<std::uint32_t>(thread)),
        site_and_atomic_(site << 1 | std::uint32_t{atomic}) {}

  std::uint32_t block() const { return block_; }  // its number, counted over all launches from 1
  std::uint32_t time() const { return time_and_thread_ >> 10; }  // see ThreadOrder
  size_t thread() const { return time_and_thread_ & 1023; }      // its index in the block
  std::uint32_t site() const { return site_and_atomic_ >> 1; }   // the place in the program
  bool atomic() const { return (site_and_atomic_ & 1) != 0; }

 private:
  std::uint32_t block_ = 0, time_and_thread_ = 0, site_and_atomic_ = 0;
};

// The accesses that the checker remembers of a word, or of a byte.
struct Cell {
  Mark write;              // the last plain write
  Mark others[2];          // reads and atomic operations
  std::uint32_t split_in;  // of a word: the launch in which its bytes have cells of their own
};

// The states of a byte.
enum class ByteState : std::uint8_t { missing = 0, undefined = 0x0f, written = 0xff };

class Shadow {
 public:
  static constexpr size_t kWord = 4;

  Shadow() = default;  // of no memory
  // REQUIRES: `begin` is a multiple of 4.
  Shadow(std::uintptr_t begin, size_t bytes);

  bool contains(std::uintptr_t address) const { return address - begin_ < bytes_; }

  // Returns the states of the four bytes of a word: one bit each that says whether the byte exists,
  // and four bits higher whether it was written. REQUIRES: contains(address).
  std::uint8_t& states(std::uintptr_t address) { return states_[word(address)]; }
  Cell& cell(std::uintptr_t address) { return cells_[word(address)]; }
  // Returns the first of the four cells of the word's bytes.
  Cell* byte_cells(std::uintptr_t address) { return byte_cells_ + word(address) * kWord; }

  void set(std::uintptr_t begin, size_t bytes, ByteState state);
  // Gives bytes of this range the states of others.
  void copy(std::uintptr_t to, std::uintptr_t from, size_t bytes);
  // Forgets all accesses. The memory goes back to the operating system.
  void forget_accesses();

 private:
  size_t word(std::uintptr_t address) const { return (address - begin_) / kWord; }
  bool has(std::uintptr_t address, unsigned bit) { return states(address) >> bit & 1; }

  std::uintptr_t begin_ = 0;
  size_t bytes_ = 0;
  std::uint8_t* states_ = nullptr;  // by word
  Cell* cells_ = nullptr;           // by word
  Cell* byte_cells_ = nullptr;      // by byte
};

}  // namespace ladder::emulator
