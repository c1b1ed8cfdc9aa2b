"""The bug zoo: programs of this tree with one published bug planted, and the proof that a test sees it."""

load("//tools/bazel:mpi.bzl", "MPI_TAGS")
load("//tools/bazel:variant.bzl", "edited_source", "replaced")

def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"

def _settings_impl(context):
    lines = []
    for name, value in context.attr.texts.items():
        lines.append("%s=%s" % (name, _quoted(value)))
    for name, values in context.attr.lists.items():
        lines.append("%s=(%s)" % (name, " ".join([_quoted(value) for value in values])))
    file = context.actions.declare_file(context.label.name)
    context.actions.write(file, "\n".join(lines) + "\n")
    return [DefaultInfo(files = depset([file]), runfiles = context.runfiles([file]))]

# A file of bash variables, for tools/zoo and prove.sh to read.
_settings = rule(
    implementation = _settings_impl,
    attrs = {
        "lists": attr.string_list_dict(),
        "texts": attr.string_dict(),
    },
)

def bug(
        name,
        lesson,
        source,
        edits,
        ranks,
        flags,
        look,
        test,
        case,
        expect = "",
        test_ranks = 8,
        environment = [],
        data = [],
        hangs = False,
        in_ci = False):
    """Plants a bug: zoo_NN is the lesson's program with it, zoo_NN_test proves that it is caught.

    Args:
      name: two digits; NAME.md beside this file tells the bug's story.
      lesson: the folder of the lesson that the bug belongs to.
      source: the file that is changed, and
      edits: old text to new text; each has to change something, or the proof fails.
      ranks, flags: the run of the lesson's program that shows the symptom; flags as one would type
        them, and
      look: what to look at in what it prints.
      test: the program that catches the bug, by the library of its cases, and
      case: the name of the case.
      expect: text that the failing case prints, of a bug that does not hang.
      test_ranks: 1 = without mpirun.
      environment: variables of both runs, as NAME=VALUE.
      data: files that the test program reads.
      hangs: the bug is caught by the time limit, and nothing else.
      in_ci: the proof is one of the few that `tools/test` runs; `tools/test --zoo` runs all.
    """
    if hangs == bool(expect):
        fail("bug %s: either it hangs, or it says what it expects" % name)
    zoo = "zoo_" + name
    tags = [] if in_ci else ["manual"]
    edited_source(
        name = zoo + "_source",
        source = source,
        edits = edits,
        tags = tags,
    )

    # Each edit alone, to see that it changes something.
    parts = []
    for i, (old, new) in enumerate(edits.items()):
        parts.append("%s_edit_%d" % (zoo, i + 1))
        edited_source(
            name = parts[-1],
            source = source,
            edits = {old: new},
            tags = tags,
        )
    replaced(
        name = zoo + "_planted",
        replacements = [zoo + "_source"],
        tags = tags,
        deps = ["//lessons/%s:trainer" % lesson],
    )
    native.cc_binary(
        name = zoo,
        tags = ["manual"],
        deps = [
            zoo + "_planted",
            "//lessons/%s:main" % lesson,
        ],
    )
    native.cc_binary(
        name = zoo + "_cases",
        testonly = True,
        tags = tags,
        deps = [
            zoo + "_planted",
            test,
        ],
    )
    _settings(
        name = zoo + "_settings",
        lists = {
            "environment": environment,
            "flags": flags.split(" "),
        },
        tags = tags,
        texts = {
            "case": case,
            "expect": expect,
            "hangs": "1" if hangs else "",
            "lesson": lesson,
            "look": look,
            "ranks": str(ranks),
            "test": test.replace("_cases", ""),
            "test_ranks": str(test_ranks),
        },
    )
    native.sh_test(
        name = zoo + "_test",
        size = "medium",
        srcs = ["prove.sh"],
        args = ["$(location %s)" % target for target in [
            zoo + "_settings",
            "//tools:mpirun",
            zoo + "_cases",
            source,
        ] + parts],
        data = data + parts + [
            zoo + "_cases",
            zoo + "_settings",
            source,
            "//tools:mpirun",
        ],
        tags = tags + MPI_TAGS,
    )
