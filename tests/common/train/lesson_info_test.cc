// What LessonInfo says of a lesson lets its flags through or refuses them.
#include <string>
#include <vector>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/options.h"
#include "kernels/runtime/check.h"
#include "tests/catch.h"

namespace ladder {
namespace {

// The dtype that a lesson of these precisions takes, or what it says instead.
std::string dtype_or_fault(Precisions precisions, const char* name) {
  const char* const argv[] = {"00_test", "--device", "cpu", "--dtype", name};
  const LessonInfo lesson = {"00_test", "Tests flags.", precisions};
  try {
    Options options(lesson, [](FlagTable&) {});
    options.parse(5, argv);
    return std::string(name_of(options.resolve({}).dtype));
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST_CASE("a lesson takes the dtypes that it has, and says who has the others") {
  using enum Precisions;
  for (Precisions precisions : {full, Precisions::bf16, all}) {
    CHECK(dtype_or_fault(precisions, "fp32") == "fp32");
    CHECK(dtype_or_fault(precisions, "fp64") == "fp64");
    for (const char* const name : {"fp8", "float", "BF16"}) {
      CHECK(dtype_or_fault(precisions, name) ==
            concat("--dtype ", name, ": expected fp32, fp64, bf16 or fp16"));
    }
  }
  CHECK(dtype_or_fault(Precisions::bf16, "bf16") == "bf16");
  CHECK(dtype_or_fault(all, "bf16") == "bf16");
  CHECK(dtype_or_fault(all, "fp16") == "fp16");
  CHECK(dtype_or_fault(Precisions::bf16, "fp16") ==
        "--dtype fp16: 00_test has no loss scale, without which small gradients vanish; take "
        "10_mixed_precision");
  for (const char* const name : {"bf16", "fp16"}) {
    CHECK(dtype_or_fault(full, name) ==
          concat("--dtype ", name,
                 ": 00_test updates what it has on the host, in fp32 or "
                 "fp64; take 10_mixed_precision"));
  }
}

// The optimizer that a lesson takes from these flags, or throws.
OptimizerConfig optimizer_of(const std::vector<const char*>& flags, bool has_muon = true) {
  std::vector<const char*> argv = {"00_test"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  const LessonInfo lesson = {
      .name = "00_test", .description = "Tests flags.", .gives_matrices = has_muon};
  Options options(lesson, [](FlagTable&) {});
  options.parse(static_cast<int>(argv.size()), argv.data());
  return options.resolve({}).optimizer;
}

TEST_CASE("SGD is done by every lesson, and its flags are refused without it") {
  const OptimizerConfig plain = optimizer_of({"--optimizer", "sgd"}, false);
  CHECK(plain.name == "sgd");
  CHECK(plain.momentum == 0);
  CHECK_FALSE(plain.nesterov);
  const OptimizerConfig ahead =
      optimizer_of({"--optimizer", "sgd", "--momentum", "0.9", "--nesterov"}, false);
  CHECK(ahead.momentum == 0.9);
  CHECK(ahead.nesterov);
  CHECK(optimizer_of({"--optimizer", "muon", "--momentum", "0.8"}).muon_momentum == 0.8);
  CHECK_THROWS_WITH(optimizer_of({"--momentum", "0.9"}),
                    "--momentum needs --optimizer sgd or muon");
  CHECK_THROWS_WITH(optimizer_of({"--nesterov"}), "--nesterov needs --optimizer sgd");
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "sgd", "--nesterov"}),
                    "--nesterov needs --momentum above 0");
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "sgd", "--beta1", "0.8"}),
                    "--beta1 is AdamW's; --optimizer sgd has none");
  CHECK_THROWS_WITH(
      optimizer_of({"--optimizer", "muon", "--momentum", "0.9", "--muon-momentum", "0.9"}),
      "--momentum and --muon-momentum are the same for Muon; give one of them");
}

TEST_CASE("Muon is done or refused") {
  CHECK(optimizer_of({}).name == "adamw");
  CHECK(optimizer_of({"--optimizer", "adamw"}, false).name == "adamw");
  const OptimizerConfig muon = optimizer_of({"--optimizer", "muon"});
  CHECK(muon.name == "muon");
  CHECK(muon.muon_scale == MuonScale::rms);
  CHECK(muon.splits_qkv);
  CHECK(muon.muon_momentum == 0.95);
  const OptimizerConfig other = optimizer_of({"--optimizer", "muon", "--muon-scale", "spectral",
                                              "--muon-qkv", "together", "--muon-momentum", "0.9"});
  CHECK(other.muon_scale == MuonScale::spectral);
  CHECK_FALSE(other.splits_qkv);
  CHECK(other.muon_momentum == 0.9);
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "muon"}, false),
                    "--optimizer muon: it needs whole matrices, which 00_test gives to no rule; "
                    "lessons 01 to 05, "
                    "07, 09, 15, 20 and 21 do");
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "lion"}),
                    ContainsSubstring("lion not in {adamw,sgd,muon}"));
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "muon", "--muon-scale", "none"}),
                    ContainsSubstring("none not in {rms,spectral}"));
  for (const auto& [flag, value] :
       {std::pair("--muon-scale", "rms"), {"--muon-qkv", "apart"}, {"--muon-momentum", "0.9"}}) {
    CHECK_THROWS_WITH(optimizer_of({flag, value}), concat(flag, " needs --optimizer muon"));
  }
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "muon", "--train", "lora"}),
                    ContainsSubstring("no matrix of a block is trained"));
  CHECK_THROWS_WITH(optimizer_of({"--optimizer", "muon", "--train", "bias"}),
                    ContainsSubstring("no matrix of a block is trained"));
  CHECK_THROWS_WITH(
      optimizer_of({"--optimizer", "muon", "--model", "nano-llama", "--muon-qkv", "together"}),
      "--muon-qkv together: only GPT-2 stores q, k and v side by side");
}

}  // namespace
}  // namespace ladder
