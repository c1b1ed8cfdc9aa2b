// Regions of machine code, and instructions of a warp, for kernels in which both can be counted by
// hand.
#include "tests/kernels/cuda/code_regions.h"

#include <sstream>
#include <vector>

#include "tests/catch.h"

namespace ladder {
namespace {

using emulator::Event, emulator::Events, emulator::of;

// Reads instructions as cuobjdump prints them, but without their addresses: line i is at 0x10 * i.
std::vector<MachineInstruction> read_code(const std::string& text) {
  std::vector<MachineInstruction> code;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::ostringstream address;
    address << std::hex << 0x10 * code.size();
    const auto instruction = read_instruction("        /*" + address.str() + "*/   " + line +
                                              " ;     /* 0x00000a00ff017b82 */");
    REQUIRE(instruction);
    code.push_back(*instruction);
  }
  return code;
}

std::string regions(const std::vector<MachineInstruction>& code) {
  return text_of("kernel", regions_of(code));
}

// A loop that may have no round, a reciprocal that is called for if a number is unusual, a shuffle.
const char* const kSum = R"(LDC R1, c[0x0][0x28]
S2R R0, SR_TID.X
ISETP.GE.AND P0, PT, R2, R3, PT
@P0 BRA 0xa0
IMAD.WIDE R8, R0, 0x10, R8
LDG.E.128 R4, desc[UR4][R8.64]
FADD R10, R10, R4
MUFU.EX2 R11, R5
ISETP.GE.AND P1, PT, R2, R3, PT
@!P1 BRA 0x50
MUFU.RCP R12, R10
@P2 BRA 0xe0
CALL.REL.NOINC 0x140
BRA 0xf0
FMUL R12, R12, R10
BRA.DIV UR4, 0x160
SHFL.BFLY PT, R13, R12, 0x1, 0x1f
@P3 EXIT
STG.E desc[UR4][R8.64], R13
EXIT
MUFU.RSQ R12, R12
RET.REL.NODEC R14 0x0
WARPSYNC R15
BRA 0x110)";

TEST_CASE("machine code: what runs once, an arm, a loop") {
  CHECK(regions(read_code(kSum)) ==
        "kernel\n"
        "  straight 0 10 shuffle=1\n"
        "  arm 0 1\n"
        "  arm 0 2 global-write=4\n"  // after a conditional return
        "  loop 0 5 global-read=16 exponential=1\n");
}

TEST_CASE("machine code: the counted bytes say how often a warp comes to a loop") {
  const roofline::KernelCode code = regions_of(read_code(kSum));
  Events counted{};
  of(counted, Event::global_write) = 4;
  of(counted, Event::shuffle) = 1;
  for (const double rounds : {0.0, 0.5, 1.0, 10.0}) {
    of(counted, Event::global_read) = 16 * rounds;
    of(counted, Event::exponential) = rounds;
    CHECK(instructions_of_warp(code, counted) == Approx(13 + 5 * rounds));
  }
  // Where two events disagree, the truth is taken to be between them.
  of(counted, Event::global_read) = 16 * 8;
  const double between = instructions_of_warp(code, counted);
  CHECK(between > 13 + 5 * 8);
  CHECK(between < 13 + 5 * 10);
}

TEST_CASE("machine code: loops within loops, and unrolled parts of one loop") {
  const std::vector<MachineInstruction> code = read_code(R"(S2R R0, SR_TID.X
BAR.SYNC.DEFER_BLOCKING 0x0
LDS.64 R4, [R2]
STS.U16 [R2], R4
@P0 BRA 0x20
LDS R4, [R2]
STS [R2], R4
@P1 BRA 0x50
@P2 BRA 0x10
EXIT)");
  CHECK(regions(code) ==
        "kernel\n"
        "  straight 0 2\n"
        "  loop 0 2 barrier=1\n"
        "  loop 1 6 shared-read=12 shared-write=6\n");
}

TEST_CASE("machine code: the code for what packs leave over does not count") {
  CHECK(regions(read_code(R"(@P0 BRA 0x40
LDG.E.128 R4, desc[UR4][R8.64]
STG.E.64 desc[UR4][R8.64], R4
EXIT
LDG.E.U16 R4, desc[UR4][R8.64]
STG.E.U16 desc[UR4][R8.64], R4
EXIT)")) == "kernel\n  straight 0 4 global-read=16 global-write=8\n");
  CHECK(regions(read_code(R"(STG.E.64 desc[UR4][R8.64], R4
@P0 BRA 0x40
STG.E.U16 desc[UR4][R8.64], R4
STG.E.U16 desc[UR4][R8.64], R5
EXIT)")) == "kernel\n  straight 0 3 global-write=8\n");
  CHECK(regions(read_code(R"(STG.E.64 desc[UR4][R8.64], R4
@P0 EXIT
STG.E.U16 desc[UR4][R8.64], R4
EXIT)")) == "kernel\n  straight 0 2 global-write=8\n");
}

TEST_CASE("machine code: a mask in a loop with mma runs once for a warp, an arm elsewhere always") {
  std::string text = R"(S2R R0, SR_TID.X
HMMA.16816.F32.BF16 R4, R4, R8, R12
@P0 BRA 0x50
FSEL R4, R4, R5, P1
FSEL R6, R6, R7, P1
LDSM.16.M88.4 R4, [R2]
@P2 BRA 0x10
EXIT)";
  Events counted{};
  of(counted, Event::mma) = 10;
  of(counted, Event::shared_read) = 160;
  const auto count = [&] { return instructions_of_warp(regions_of(read_code(text)), counted); };
  CHECK(count() == Approx(2 + 10 * 4 + 2));
  text.replace(text.find("HMMA.16816.F32.BF16"), 19, "MUFU.EX2");
  of(counted, Event::exponential) = 10;
  of(counted, Event::mma) = 0;
  CHECK(count() == Approx(2 + 10 * 4 + 10 * 2));
}

TEST_CASE("machine code: a table is read as it was written, and what is none is refused") {
  const roofline::KernelCode code = regions_of(read_code(kSum));
  const std::string text = text_of("kernel<8, float>", code);
  const auto kernels = roofline::read_kernels("# a comment\n" + text);
  REQUIRE(kernels.size() == 1);
  CHECK(text_of("kernel<8, float>", kernels.at("kernel<8, float>")) == text);
  CHECK_THROWS_WITH(roofline::read_kernels("  loop 0 1\n"), ContainsSubstring("without a kernel"));
  CHECK_THROWS_WITH(roofline::read_kernels("k\n  loop 1 1\n"), ContainsSubstring("its parent"));
  CHECK_THROWS_WITH(roofline::read_kernels("k\n  part 0 1\n"), ContainsSubstring("no region"));
  CHECK_THROWS_WITH(roofline::read_kernels("k\n  loop 0 1 x=1\n"), ContainsSubstring("no event"));
}

}  // namespace
}  // namespace ladder
