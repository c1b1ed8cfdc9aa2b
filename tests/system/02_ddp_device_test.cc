// Lessons 01 and 02 on the device of this build, as a user runs them.
#include <catch2/catch.hpp>

#include "kernels/runtime/check.h"
#include "kernels/runtime/device.h"
#include "tests/system/mpirun.h"
#include "tests/system/scratch.h"

namespace ladder {
namespace {

using Catch::Matchers::Contains;

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

// "emulator", or "cuda" where there is a GPU; else the test is skipped, which is said.
std::string device_name() {
  const DeviceType device = cuda_device_of_build();
  if (num_devices(device) > 0) return std::string(name_of(device));
  WARN("skipped: no GPU");
  return "";
}

void require_success(const ProcessResult& result) {
  CAPTURE(result.out, result.err);
  REQUIRE(result.status == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, !Contains("differs"));  // memory is as predicted
}

TEST_CASE("02: on a device, by NCCL and staged, what lesson 01 computes on the CPU") {
  const std::string device = device_name();
  if (device.empty()) return;
  const Scratch folder;
  const ProcessOptions options = {.folder = folder.path()};
  require_success(run_single_gpu(kNanoRun + Flags{"--device", "cpu", "--dump", "cpu"}, options));
  const auto check_same = [&](const std::string& dump) {
    const ProcessResult compared = run_process(
        {program_path("tools/compare/compare"), "cpu", dump, "--tolerance", "1e-11"}, options);
    CAPTURE(dump, compared.out, compared.err);
    CHECK(compared.status == 0);
  };
  const Flags on_device = kNanoRun + Flags{"--device", device, "--dump"};
  const ProcessResult one = run_single_gpu(on_device + Flags{"one"}, options);
  require_success(one);
  CHECK_THAT(one.out, Contains("  device   " + device + " ("));
  check_same("one");
  const auto run_two = [&](const std::string& dump, const Flags& flags) {
    const ProcessResult result =
        run_ranks(2, Flags{ddp_path()} + on_device + Flags{dump} + flags, options);
    require_success(result);
    check_same(dump);
    return result.out;
  };
  CHECK_THAT(run_two("staged", {"--communication", "staged", "--bucket-bytes", "4KiB"}),
             Contains("ranks    2, communication: staged through host memory"));
  if (device == "cuda" && num_devices(DeviceType::cuda) < 2) {
    CHECK_THAT(run_two("auto", {}), Contains("staged through host memory: 2 ranks share 1 GPU"));
    check_user_error(run_ranks(2, Flags{ddp_path(), "--device", "cuda", "--communication", "nccl"}),
                     {"--communication nccl", "2 ranks share 1 GPU", "--communication staged"});
    return;
  }
  const std::string by_nccl =
      run_two("auto", {"--bucket-bytes", "4KiB", "--check-collectives", "--trace", "trace.json"});
  CHECK_THAT(by_nccl, Contains("NCCL"));
  CHECK_THAT(read_text(folder.path() / "trace.json"), Contains("gradient all_reduce"));
}

TEST_CASE("02: over the device's memory, the report") {
  const std::string device = device_name();
  if (device.empty()) return;
  const ProcessResult result = run_ranks(
      2, Flags{ddp_path()} + kNanoRun + Flags{"--device", device, "--device-memory", "1MiB"});
  CAPTURE(result.out, result.err);
  CHECK(result.status == 1);
  CHECK_THAT(result.err, Contains("out of device memory") && Contains("no room"));
}

TEST_CASE("02: --communication where there is no device for it") {
  for (const std::string transport : {"nccl", "staged"}) {
    check_user_error(run_ranks(2, {ddp_path(), "--device", "cpu", "--communication", transport}),
                     {"--communication " + transport, "the device is the cpu", "--device cuda"});
  }
}

}  // namespace
}  // namespace ladder
