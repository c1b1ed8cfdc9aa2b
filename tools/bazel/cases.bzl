"""Tests whose cases can be linked into another program too: the bug zoo plants bugs under them."""

# Who may link the cases of a test.
CASES_VISIBILITY = [
    "//tests:__subpackages__",
    "//zoo:__pkg__",
]

def cases_test(name, srcs, deps, **kwargs):
    """A Catch2 test in one process, and the library NAME_cases that it is linked from."""
    native.cc_library(
        name = name + "_cases",
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        visibility = CASES_VISIBILITY,
        deps = deps + ["//tests:catch_main"],
    )
    native.cc_test(
        name = name,
        deps = [":" + name + "_cases"],
        **kwargs
    )
