"""A lesson: the library of its idea, and its program."""

def lesson(parents = []):
    """Defines :trainer, all sources of the folder but main.cc, :main, and the program named as the folder.

    Args:
      parents: the lessons that this one adds its idea to, by their folders. It may use their
        libraries and those of their own parents, and no others: a test reads these lists
        (tests/tree), and so do tools/lesson_diff and the map of the course.
    """
    folder = native.package_name().split("/")[-1]
    native.exports_files(native.glob(["*.cc"]))
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
        deps = [":main"],
    )
