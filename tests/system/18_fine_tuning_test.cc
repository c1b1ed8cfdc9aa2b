// Fine-tuning as one does it: weights of lesson 01, adapters that lesson 18 trains and exports, a
// run that goes on with them, and a merged model.

#include <filesystem>

#include "kernels/runtime/check.h"
#include "tests/catch.h"
#include "tests/system/mpirun.h"
#include "tests/system/single_gpu.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

const Flags kShort = {"--threads", "1", "--evaluate-every", "0",   "--sample", "0",
                      "--steps",   "3", "--dtype",          "fp64"};

Flags fine_tuning(const Flags& flags) {
  return Flags{lesson_path("18_fine_tuning")} + kShort + flags;
}

// A model with a folder of weights and one of adapters.
struct Trained {
  Trained() {
    require_success(run_single_gpu(kShort + Flags{"--model", "nano", "--export", "base"}, options));
    require_success(run_process(
        fine_tuning({"--init", "base", "--lora-rank", "4", "--lora-targets", "qkv,mlp-proj",
                     "--learning-rate", "1e-2", "--export", "adapters", "--dump", "dumped"}),
        options));
  }
  Scratch folder;
  ProcessOptions options = {.folder = folder.path()};
};

TEST_CASE("adapters are exported, a run goes on with them, and the merged model is the same") {
  const Trained trained;
  const fs::path adapters = trained.folder.path() / "adapters";
  CHECK(fs::exists(adapters / "adapter_config.json"));
  CHECK_FALSE(fs::exists(adapters / "config.json"));
  const Safetensors file = Safetensors::parse(read_text(adapters / "adapter_model.safetensors"));
  CHECK(file.header.contains("base_model.model.transformer.h.1.mlp.c_proj.lora_B.weight"));
  CHECK(file.header.size() == 1 + 2 * 2 * 2);  // with the metadata

  // Two ranks that split the layers read their parts.
  const ProcessResult on = run_ranks(
      2,
      fine_tuning({"--init", "base", "--init-adapter", "adapters", "--tensor-parallel-size", "2"}),
      trained.options);
  require_success(on);
  CHECK_THAT(on.out, ContainsSubstring("--train lora, rank 4, alpha 16 on attn.c_attn,mlp.c_proj"));
  require_success(run_process(
      {program_path("tools/state/checkpoints/checkpoints"), "merge", "base", "adapters", "merged"},
      trained.options));
  const ProcessResult merged =
      run_process(fine_tuning({"--init", "merged", "--train", "last-1"}), trained.options);
  require_success(merged);
  const ProcessResult plain =
      run_process(fine_tuning({"--init", "base", "--train", "last-1"}), trained.options);
  require_success(plain);
  // Adapters are rounded to fp32, and merged weights too: the fourth decimal is the same.
  const auto first_loss = [](const ProcessResult& result) {
    const size_t at = result.out.find("step 1/3  loss ");
    REQUIRE(at != std::string::npos);
    return result.out.substr(at, std::string("step 1/3  loss 5.5555").size());
  };
  CHECK(first_loss(merged) == first_loss(on));
  CHECK(first_loss(plain) != first_loss(on));
}

TEST_CASE("adapters that do not fit are refused in one line") {
  const Trained trained;
  const auto refused = [&](const Flags& flags, const std::string& why) {
    check_user_error(run_process(fine_tuning(flags), trained.options), {why});
  };
  const Flags both = {"--init", "base", "--init-adapter", "adapters"};
  refused({"--init-adapter", "adapters"}, "--init-adapter: goes with --init");
  refused(both + Flags{"--train", "all"}, "--init-adapter: goes with --train lora");
  refused(both + Flags{"--lora-rank", "3"},
          "has adapters of rank 4, alpha 16 on attn.c_attn,mlp.c_proj, and the flags --lora-* ask "
          "for rank 3");
  refused(both + Flags{"--lora-alpha", "8"}, "ask for rank 4, alpha 8");
  refused(both + Flags{"--lora-targets", "qkv"}, "on attn.c_attn; leave them out");
  refused({"--init", "base", "--init-adapter", "base"}, "adapter_config.json: cannot be read");
  refused({"--model", "nano", "--lora-rank", "33"}, "--lora-rank 33: attn.c_attn has 32 inputs");
  refused({"--model", "nano", "--lora-targets", "gate"}, "'gate' is no linear layer");
  require_success(run_single_gpu(
      kShort + Flags{"--model", "nano", "--hidden", "48", "--export", "wider"}, trained.options));
  refused({"--init", "wider", "--init-adapter", "adapters"},
          "has shape (4, 32), the model needs (4, 48)");
}

}  // namespace
}  // namespace ladder
