// Shadow memory: what the checker knows about each byte of a range of memory. It lies in tables of
// its own, with entries for words (4 bytes), because most accesses are of whole words:
//
//   memory       | byte 0  byte 1  byte 2  byte 3 | the next word
//   states         1 byte: which bytes exist, and which were written
//   cells          1 Cell: the last accesses of the word
//   byte_cells     4 Cells: those of each byte, used once an access is narrower than the word
//
// The tables are reserved addresses; the operating system gives them pages where they are written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ladder::emulator {

// An access: who made it, when, and by which instruction. Three numbers of 32 bits hold it. (They
// are no bit-fields, because g++ keeps those in memory.)
class Mark {
 public:
  static constexpr std::uint32_t kMaxTime = (1u << 22) - 1;  // 22 bits for the time, 10 the thread

  Mark() = default;  // no access: its thread block is 0
  // REQUIRES: time <= kMaxTime, thread < 1024, site < 2^31.
  Mark(std::uint32_t block, std::uint32_t time, size_t thread, std::uint32_t site, bool atomic)
      : block_(block),
        time_and_thread_(time << 10 | static_cast<std::uint32_t>(thread)),
        site_and_atomic_(site << 1 | std::uint32_t{atomic}) {}

  // The thread block, counted from 1 over all launches in the order in which they ran.
  std::uint32_t block() const { return block_; }
  // How many barriers and fences its thread block had passed (ThreadOrder).
  std::uint32_t time() const { return time_and_thread_ >> 10; }
  // The thread's index in its thread block.
  size_t thread() const { return time_and_thread_ & 1023; }
  // The instruction: its address, counted from the begin of the program.
  std::uint32_t site() const { return site_and_atomic_ >> 1; }
  bool atomic() const { return (site_and_atomic_ & 1) != 0; }

 private:
  std::uint32_t block_ = 0, time_and_thread_ = 0, site_and_atomic_ = 0;
};

// The accesses that the checker remembers of a word, or of a byte. A race is an access without an
// order to one of them, of which one writes.
struct Cell {
  Mark write;      // the last plain write
  Mark others[2];  // two reads or atomic operations
  // In the cell of a word: the launch in which an access was narrower than the word. During that
  // launch the four cells of its bytes are used instead of this one.
  std::uint32_t split_in;
};

// What is known of a byte; the value is that of a states() in which all four bytes are alike.
enum class ByteState : std::uint8_t {
  missing = 0,       // there is no such memory: every access is a mistake
  undefined = 0x0f,  // there is, but nobody has written it: a read is a mistake
  written = 0xff,    // it may be read
};

// The tables for the memory [begin, begin + bytes). Nothing here locks: one thread uses it at a
// time.
class Shadow {
 public:
  static constexpr size_t kWord = 4;

  Shadow() = default;  // of no memory
  // Reserves the tables: all bytes are missing and nobody has accessed them. They are never given
  // back. Throws an Error if the addresses cannot be reserved. REQUIRES: `begin` is a multiple
  // of 4.
  Shadow(std::uintptr_t begin, size_t bytes);

  bool contains(std::uintptr_t address) const { return address - begin_ < bytes_; }

  // All functions below require contains() of every address.

  // Returns the states of the four bytes of the word that has this address. Bit i says whether byte
  // i exists, bit 4 + i whether it was written.
  std::uint8_t& states(std::uintptr_t address) { return states_[word(address)]; }
  // Returns the cell of the word that has this address.
  Cell& cell(std::uintptr_t address) { return cells_[word(address)]; }
  // Returns the first of the four cells of the word's bytes.
  Cell* byte_cells(std::uintptr_t address) { return byte_cells_ + word(address) * kWord; }

  // Sets the states of bytes [begin, begin + bytes).
  void set(std::uintptr_t begin, size_t bytes, ByteState state);
  // Gives bytes [to, to + bytes) the states of [from, from + bytes), which may overlap them only if
  // all three arguments are multiples of 4.
  void copy(std::uintptr_t to, std::uintptr_t from, size_t bytes);
  // Forgets all accesses, but not the states. The cells' pages go back to the operating system.
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
