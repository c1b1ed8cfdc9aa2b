"""The lessons by their folders, for tests that ask all of them, and their tests on devices."""

load("//tools/bazel:mpi.bzl", "mpi_test")

# Those with a trainer.h, which `bazel build //lessons/NAME:trainer` has.
TRAINERS = [
    "01_single_gpu",
    "02_ddp",
    "03_zero1",
    "04_zero2",
    "05_zero3",
    "06_offload",
    "07_tensor_parallel",
    "08_pipeline_parallel",
    "09_3d_parallel",
    "10_mixed_precision",
    "11_activation_checkpointing",
    "12_gradient_compression",
    "13_sequence_parallel",
    "14_context_parallel",
    "15_expert_parallel",
    "16_pipeline_schedules",
    "17_elastic",
    "18_fine_tuning",
    "20_muon",
    "21_hybrid_shard",
]

LESSONS = TRAINERS + [
    "00_collectives",
    "19_planning",
]

def device_test(ranks, lesson = None):
    """device_test.cc, of a lesson [that of the folder]; streams are deferred in the emulator."""
    mpi_test(
        name = "device_test",
        srcs = ["device_test.cc"],
        ranks = ranks,
        streams = ["deferred"],
        deps = [
            "//lessons/%s:trainer" % (lesson or native.package_name().split("/")[-1]),
            "//tests/lessons:device",
        ],
    )
