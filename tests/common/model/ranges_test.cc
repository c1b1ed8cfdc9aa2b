// Ranges that a profiler sees: of every unit in every pass, and collectives. NVTX is there in
// --config=cuda only, GPU or not; this program then is the profiler that listens.
#include "kernels/runtime/range.h"

#include "common/comm/communicator.h"
#include "common/comm/one_rank.h"
#include "tests/catch.h"
#include "tests/common/model/support.h"

namespace {

// Names of ranges as they begin, ")" where one ends.
std::vector<std::string>& seen() {
  static std::vector<std::string> names;
  return names;
}

}  // namespace

#if !LADDER_CUDA_EMULATOR
#include <nvtx3/nvToolsExt.h>

namespace {

int push(const char* name) {
  seen().emplace_back(name);
  return 0;
}

int pop() {
  seen().emplace_back(")");
  return 0;
}

int attach(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size);
  *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

// NVTX looks for a profiler at the first range, here among others.
[[maybe_unused]] const bool attached = [] {
  InitializeInjectionNvtx2_fnptr = attach;
  return true;
}();

}  // namespace
#endif

namespace ladder::testing {
namespace {

// What the body shows a profiler; in the default build nothing, which is said.
template <class Body>
std::vector<std::string> ranges_of(Body body) {
  seen().clear();
  body();
  return seen();
}

void check_ranges(const std::vector<std::string>& got, const std::vector<std::string>& expected) {
#if LADDER_CUDA_EMULATOR
  WARN("skipped: this build has no NVTX");
  CHECK(got.empty());
  static_cast<void>(expected);
#else
  CHECK(got == expected);
#endif
}

TEST_CASE("A range has a name of one or two words, cut after 63 characters") {
  const std::string long_name(60, 'x');
  check_ranges(ranges_of([&] {
                 const Range outer("outer");
                 { const Range inner("inner", "part"); }
                 { const Range cut(long_name, "part"); }
                 { const Range cut(long_name + long_name, "part"); }
               }),
               {"outer", "inner part", ")", long_name + " pa", ")", long_name + "xxx", ")", ")"});
}

TEST_CASE("Units, passes and collectives are ranges") {
  const ModelConfig config = {
      .num_layers = 1, .num_heads = 1, .hidden = 16, .vocab_size = 17, .sequence_length = 4};
  TestModel model(config, DType::fp32, 1, 4);
  const Tokens tokens(1, 4, config.vocab_size, "tokens");
  check_ranges(ranges_of([&] { model.accumulate(tokens.all(), tokens.all(), 1); }),
               {"forward",
                "wte forward",
                ")",
                "wpe forward",
                ")",
                "h.0 forward",
                ")",
                "ln_f forward",
                ")",
                ")",
                "wte classifier",
                ")",
                "backward",
                "ln_f backward",
                ")",
                "h.0 backward",
                ")",
                "wpe backward",
                ")",
                "wte backward",
                ")",
                ")"});
  Communicator world{std::make_unique<OneRank>()};
  check_ranges(
      ranges_of([&] {
        world.all_reduce(stream(), model.gradients, {.purpose = Purpose::gradient}).wait(stream());
      }),
      {"gradient all_reduce", ")"});
}

}  // namespace
}  // namespace ladder::testing
