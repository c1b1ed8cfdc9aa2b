// Lessons 01 and 02 on the device of this build, as a user runs them.

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/catch.h"
#include "tests/system/failures.h"
#include "tests/system/mpirun.h"
#include "tools/programs/scratch.h"

namespace ladder {
namespace {

const Flags kNanoRun = {"--model",
                        "nano",
                        "--threads",
                        "1",
                        "--dtype",
                        "fp64",
                        "--steps",
                        "2",
                        "--evaluate-every",
                        "2",
                        "--global-batch-size",
                        "4",
                        "--evaluate-batches",
                        "1"};

// And memory and bytes are as predicted.
void require_predicted(const ProcessResult& result) {
  require_success(result);
  CHECK_THAT(result.out, !ContainsSubstring("differs"));
}

TEST_CASE("02: on a device, by NCCL and staged, what lesson 01 computes on the CPU") {
  const std::string device = device_name();
  if (device.empty()) return;
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_predicted(run_single_gpu(kNanoRun + Flags{"--device", "cpu", "--dump", "cpu"}, options));
  const auto check_same = [&](const std::string& dump) {
    check_equal_dumps("cpu", dump, "1e-11", options);
  };
  const Flags on_device = kNanoRun + Flags{"--device", device, "--dump"};
  const ProcessResult one = run_single_gpu(on_device + Flags{"one"}, options);
  require_predicted(one);
  CHECK_THAT(one.out, ContainsSubstring("  device   " + device + " ("));
  check_same("one");
  const auto run_two = [&](const std::string& dump, const Flags& flags) {
    const ProcessResult result =
        run_ranks(2, Flags{lesson_path("02_ddp")} + on_device + Flags{dump} + flags, options);
    require_predicted(result);
    check_same(dump);
    return result.out;
  };
  CHECK_THAT(run_two("staged", {"--communication", "staged", "--bucket-bytes", "4KiB"}),
             ContainsSubstring("ranks    2, communication: staged through host memory"));
  if (device == "cuda" && num_devices(DeviceType::cuda) < 2) {
    CHECK_THAT(run_two("auto", {}),
               ContainsSubstring("staged through host memory: 2 ranks share 1 GPU"));
    check_user_error(
        run_ranks(2, Flags{lesson_path("02_ddp"), "--device", "cuda", "--communication", "nccl"}),
        {"--communication nccl", "2 ranks share 1 GPU", "--communication staged"});
    check_user_error(run_ranks(2, {lesson_path("02_ddp"), "--device", "cuda", "--nccl-windows"}),
                     {"--nccl-windows", "2 ranks share 1 GPU"});
    return;
  }
  const std::string by_nccl =
      run_two("auto", {"--bucket-bytes", "4KiB", "--check-collectives", "--trace", "trace.json"});
  CHECK_THAT(by_nccl, ContainsSubstring("NCCL"));
  CHECK_THAT(read_text(folder.path() / "trace.json"), ContainsSubstring("gradient all_reduce"));
}

// Two ranks on the emulator, of which rank 1 has this in its environment.
ProcessResult run_with(const std::string& variable, const Flags& flags, const Scratch& folder) {
  const Flags run = Flags{lesson_path("02_ddp")} + kNanoRun + Flags{"--device", "emulator"} + flags;
  return run_each({run, Flags{"env", variable} + run},
                  {.folder = folder.path(), .time_limit = std::chrono::seconds(60)});
}
// The same, where rank 1 has calls of this kind refused (kernels/emulator/refusals.h).
ProcessResult run_refused(const std::string& calls, const Flags& flags, const Scratch& folder) {
  return run_with("LADDER_EMULATOR_REFUSES=" + calls, flags, folder);
}

TEST_CASE("02: one rank that NCCL registers no memory for") {
  if (device_name() != "emulator") return;
  const Scratch folder;
  const ProcessResult usual = run_refused("nothing 0 0", {"--dump", "usual"}, folder);
  require_predicted(usual);
  CHECK_THAT(usual.out, ContainsSubstring("communication: emulated NCCL\n"));
  const ProcessResult plain = run_refused("ncclCommRegister 5 1", {"--dump", "plain"}, folder);
  require_predicted(plain);
  CHECK_THAT(plain.out, ContainsSubstring("emulated NCCL, which does not register buffers"));
  check_equal_dumps("usual", "plain", "0", {.folder = folder.path()});
  // Once they have agreed there is no way back.
  check_one_error(run_refused("ncclCommRegister 5 2", {}, folder),
                  {"ncclCommRegister was refused"});
}

TEST_CASE("02: windows, a limit of thread blocks, and what ends them") {
  if (device_name() != "emulator") return;
  const Scratch folder;
  const Flags windows = {"--nccl-windows", "--nccl-ctas", "8"};
  const std::string limited = "communication: emulated NCCL in at most 8 thread blocks, ";
  const ProcessResult usual =
      run_refused("nothing 0 0", windows + Flags{"--dump", "usual"}, folder);
  require_predicted(usual);
  CHECK_THAT(usual.out, ContainsSubstring(limited + "symmetric windows\n"));
  const ProcessResult plain = run_refused(
      "ncclCommWindowRegister 0 1", windows + Flags{"--no-nccl-split", "--dump", "plain"}, folder);
  require_predicted(plain);
  CHECK_THAT(plain.out, ContainsSubstring(limited + "no windows here\n"));
  check_equal_dumps("usual", "plain", "0", {.folder = folder.path()});
  // An error is no answer: rank 0 waits for rank 1 within NCCL.
  for (const char* const calls : {"ncclCommWindowRegister 5 1", "ncclCommWindowRegister 5 2"}) {
    check_one_error(run_refused(calls, windows, folder), {"ncclCommWindowRegister was refused"});
  }
  check_one_error(run_refused("ncclCommSplit 5 1", Flags{"--dump", "x"}, folder),
                  {"ncclCommSplit was refused"});
  check_user_error(run_with("LADDER_EMULATOR_NCCL_VERSION=22100", {}, folder),
                   {"NCCL: ", "2.27.0 on rank 0", "2.21.0 on rank 1"});
}

// The emulated NCCL refuses buffers that do not lie in the same place on all ranks.
TEST_CASE("05, 13: with windows, what goes on without them") {
  if (device_name() != "emulator") return;
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  for (const Flags& lesson :
       {Flags{lesson_path("05_zero3")}, Flags{lesson_path("13_sequence_parallel")}}) {
    const auto run = [&](const Flags& flags) {
      return run_ranks(2, lesson + kNanoRun + Flags{"--device", "emulator"} + flags, options);
    };
    require_predicted(run({"--dump", "plain"}));
    const ProcessResult windows = run({"--dump", "windows", "--nccl-windows"});
    require_predicted(windows);
    CHECK_THAT(windows.out, ContainsSubstring("emulated NCCL, symmetric windows"));
    check_equal_dumps("plain", "windows", "0", options);
  }
}

// Of free memory each rank counts on its part, though other programs may take some between two
// looks at it.
TEST_CASE("02: ranks divide memory, and CUDA loads all kernels at once, unless the user objects") {
  const std::string program = program_path("tests/common/comm/module_loading");
  const auto loading = [&](size_t num_ranks, const std::string& of_user) {
    ProcessOptions options;
    if (!of_user.empty()) options.environment = {{"CUDA_MODULE_LOADING", of_user}};
    return run_ranks(num_ranks, {program}, options).out;
  };
  CHECK(loading(2, "") == "kernels: EAGER, memory: 1/2\nkernels: EAGER, memory: 1/2\n");
  CHECK(loading(2, "LAZY") == "kernels: LAZY, memory: 1/2\nkernels: LAZY, memory: 1/2\n");
  CHECK(loading(1, "") == "kernels: not said, memory: 1/1\n");
}

TEST_CASE("02: over the device's memory, the report") {
  const std::string device = device_name();
  if (device.empty()) return;
  const ProcessResult result =
      run_ranks(2, Flags{lesson_path("02_ddp")} + kNanoRun +
                       Flags{"--device", device, "--device-memory", "1MiB"});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, ContainsSubstring("out of device memory") && ContainsSubstring("no room"));
}

TEST_CASE("02: --communication where there is no device for it") {
  for (const std::string transport : {"nccl", "staged"}) {
    check_user_error(
        run_ranks(2, {lesson_path("02_ddp"), "--device", "cpu", "--communication", transport}),
        {"--communication " + transport, "the device is the cpu", "--device cuda"});
  }
  const std::string device = device_name();
  for (const Flags& flag : {Flags{"--nccl-ctas", "8"}, Flags{"--nccl-windows"}}) {
    const Flags run = Flags{lesson_path("02_ddp")} + flag;
    check_user_error(run_ranks(2, run + Flags{"--device", "cpu"}), {flag[0], "--device cuda"});
    if (device.empty()) continue;
    check_user_error(run_ranks(2, run + Flags{"--device", device, "--communication", "staged"}),
                     {flag[0], "--communication staged"});
  }
}

}  // namespace
}  // namespace ladder
