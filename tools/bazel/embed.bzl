"""A file as read-only data of a program: no compiler has to parse it as an array."""

def embedded(name, file):
    """Defines NAME.pic.o, which NAME.s makes by .incbin of the file. It belongs into a library's srcs.

    The compiler calls its own assembler, which is another one than the system's where it compiles for
    another processor.

    Args:
      name: of the assembly file, without its ending.
      file: the name of the file in it; a label of this package.
    """
    native.genrule(
        name = name + "_object",
        srcs = [
            name + ".s",
            file,
        ],
        outs = [name + ".pic.o"],
        cmd = "$(CC) -Wa,--fatal-warnings -Wa,-I,$$(dirname $(location %s)) -c -o $@ $(location %s.s)" % (file, name),
        toolchains = ["@bazel_tools//tools/cpp:current_cc_toolchain"],
    )
