"""Tests whose cases can be linked into another program too: the bug zoo plants bugs under them."""

def cases(name, srcs, deps):
    """The library of a test's cases, with all that they need, and main."""
    native.cc_library(
        name = name,
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        visibility = [
            "//tests:__subpackages__",
            "//zoo:__pkg__",
        ],
        deps = deps,
    )

def cases_test(name, srcs, deps, **kwargs):
    """A Catch2 test in one process, and the library NAME_cases that it is linked from."""
    cases(
        name = name + "_cases",
        srcs = srcs,
        deps = deps + ["//tests:catch_main"],
    )
    native.cc_test(
        name = name,
        deps = [":" + name + "_cases"],
        **kwargs
    )
