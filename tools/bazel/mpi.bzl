"""Tests that run under mpirun."""

# Open MPI names its files in /dev/shm after mpirun's process number. In Bazel's sandbox every test
# counts its processes from 1, so two of them would share these files and crash: such tests run
# outside of it, where numbers are unique. They bring more ranks than there are cores, and some
# expect a rank within half a second: one at a time.
MPI_TAGS = [
    "exclusive",
    "local",
]

def mpi_test(name, srcs, deps, ranks = 8, size = "medium", streams = ["immediate"]):
    """A Catch2 test whose cases run on `ranks` MPI ranks at once, with tests/mpi_main.cc as main.

    The sources define test cases only. Cases take what they need of the ranks by splitting.
    `streams` are the orders of the emulator's streams (kernels/emulator/streams.h) that the cases
    run in: the test of the first one has the name, those of others also say the order.
    """
    native.cc_binary(
        name = name + "_program",
        testonly = True,
        srcs = srcs,
        deps = deps + ["//tests:mpi_main"],
    )
    for order in streams:
        native.sh_test(
            name = name if order == streams[0] else "%s_%s" % (name, order),
            size = size,
            srcs = ["//tools/bazel:mpi_test.sh"],
            args = [
                "$(location //tools:mpirun)",
                str(ranks),
                "$(location :%s_program)" % name,
            ],
            data = [
                ":%s_program" % name,
                "//tools:mpirun",
            ],
            env = {"LADDER_EMULATOR_STREAMS": order},
            tags = MPI_TAGS,
        )
