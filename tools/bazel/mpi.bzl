"""Tests that run under mpirun."""

load("//tools/bazel:cases.bzl", "cases")

# Open MPI names its files in /dev/shm after mpirun's process number. In Bazel's sandbox every test
# counts its processes from 1, so two of them would share these files and crash: such tests run
# outside of it, where numbers are unique.
MPI_TAGS = ["local"]

# For those that measure time or expect something within a second: nothing else runs.
ALONE_TAGS = MPI_TAGS + ["exclusive"]

def mpi_test(
        name,
        srcs,
        deps,
        ranks = 8,
        size = "medium",
        delays = [],
        streams = ["immediate"],
        tags = MPI_TAGS,
        **kwargs):
    """A Catch2 test whose cases run on `ranks` MPI ranks at once, with tests/mpi_main.cc as main.

    The sources define test cases only. Cases take what they need of the ranks by splitting.

    `streams` are the orders of the emulator's streams (kernels/emulator/streams.h) that the cases
    run in: the test of the first one has the name, those of others also say the order.

    `delays`: names of cases that also run with ranks held back at places where they might race, as
    NAME_delays, with one seed or, exhaustively, a few; ["*"] for all.
    """
    cases(
        name = name + "_cases",
        srcs = srcs,
        deps = deps + ["//tests:mpi_main"],
    )
    native.cc_binary(
        name = name + "_program",
        testonly = True,
        visibility = ["//tests:__subpackages__"],
        deps = [":" + name + "_cases"],
    )
    for order in streams:
        test = name if order == streams[0] else "%s_%s" % (name, order)
        _run(test, name + "_program", ranks, [], size, order, tags, kwargs)
    if delays:
        _run(name + "_delays", name + "_program", ranks, delays, size, streams[0], tags, kwargs)

def _run(name, program, ranks, delayed_cases, size, order, tags, kwargs):
    native.sh_test(
        name = name,
        size = size,
        srcs = ["//tools/bazel:mpi_test.sh"],
        args = [
            "$(location //tools:mpirun)",
            str(ranks),
            "$(location :%s)" % program,
        ] + ["'%s'" % case for case in delayed_cases],
        data = [
            ":" + program,
            "//tools:mpirun",
        ],
        env = {"LADDER_EMULATOR_STREAMS": order},
        tags = tags,
        **kwargs
    )
