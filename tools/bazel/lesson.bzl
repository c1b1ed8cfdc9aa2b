"""A lesson: the library of its idea, and its program."""

def lesson(parents = [], supervised = False):
    """Defines :trainer, all sources of the folder but main.cc, and the program named as the folder.

    :main is main.cc, for programs in which some source of the lesson is replaced (variant.bzl).

    Args:
      parents: the lessons that this one adds its idea to, by their folders. It may use their
        libraries and those of their own parents, and no others: a test reads these lists
        (tests/tree), and so do tools/lesson_diff and the map of the course.
      supervised: whether the program itself starts its ranks, given --mpirun and --ranks. tools/run
        reads it here.
    """
    folder = native.package_name().split("/")[-1]
    native.cc_library(
        name = "trainer",
        srcs = native.glob(
            ["*.cc"],
            exclude = [
                "main.cc",
                "benchmark.cc",
            ],
        ),
        hdrs = native.glob(["*.h"]),
        deps = [
            "//common/comm",
            "//common/model",
            "//common/pipeline",
            "//common/schedule",
            "//common/train",
            "//kernels",
        ] + ["//lessons/%s:trainer" % parent for parent in parents],
    )
    native.cc_library(
        name = "main",
        srcs = ["main.cc"],
        alwayslink = True,
        deps = [":trainer"],
    )
    native.cc_binary(
        name = folder,
        deps = [
            ":main",
            "//common/io:revision",
        ],
    )

    # The functions that tools/puzzle hands out; a test tries them.
    native.filegroup(
        name = "puzzles",
        srcs = native.glob(["puzzles/*.cc", "puzzles/*.txt"]),
    )

    # Exercises and the bug zoo replace sources; a test compares what the README says with what the
    # program prints.
    native.exports_files(native.glob(["*.cc"]) + ["README.md", "example.toml", "reference.md"])
