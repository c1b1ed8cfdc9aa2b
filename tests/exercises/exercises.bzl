"""Tests that grading sees what is right and what is wrong."""

load("//tools/bazel:mpi.bzl", "MPI_TAGS")
load("//tools/bazel:variant.bzl", "edited_source")
load("//tools/course/grader:exercises.bzl", "EXERCISES", "exercise_program")

def grade_test(lesson, full, wrong):
    """Grades the lesson's own solution, the work copy as it is handed out, and wrong solutions.

    LESSON_test has the first of these, LESSON_others_test the others: `tools/test --exhaustive`
    runs it.

    Args:
      lesson: its folder.
      full: the points of every check of the lesson's own solution, such as "3 2".
      wrong: for each wrong solution, by name: its points, the file, and the edits that make it from
        the lesson's own file.
    """
    exercise_program(
        name = lesson + "_own",
        lesson = lesson,
        replacements = EXERCISES[lesson].keys(),
    )
    exercise_program(
        name = lesson + "_not_written",
        lesson = lesson,
        replacements = ["//tools/course/grader:unwritten/%s/%s" % (lesson, label.split(":")[1].split("/")[-1]) for label in EXERCISES[lesson]],
    )
    first = {
        ":" + lesson + "_own": full,
        ":" + lesson + "_not_written": " ".join(["0"] * len(full.split(" "))),
    }
    others = {}
    for i, (name, (points, file, edits)) in enumerate(wrong.items()):
        program = "%s_%s" % (lesson, name)
        tags = [] if i == 0 else ["manual"]
        edited_source(
            name = program + "_source",
            source = file,
            edits = edits,
            tags = tags,
        )
        exercise_program(
            name = program,
            lesson = lesson,
            replacements = [":" + program + "_source"],
            tags = tags,
        )
        (first if i == 0 else others)[":" + program] = points
    _grade(lesson + "_test", lesson, first, MPI_TAGS)
    if others:
        _grade(lesson + "_others_test", lesson, others, MPI_TAGS + ["manual"])

def _grade(name, lesson, solutions, tags):
    native.sh_test(
        name = name,
        size = "medium",
        srcs = ["grade_test.sh"],
        args = [
            "$(location //tools/course/grader)",
            "$(location //tools:mpirun)",
            "$(location //lessons/01_single_gpu)",
            lesson,
            "$(location //lessons/%s)" % lesson,
        ] + [
            argument
            for program, points in solutions.items()
            for argument in ["$(location %s)" % program, "'%s'" % points]
        ],
        data = {target: None for target in solutions.keys() + [
            "//lessons/01_single_gpu",
            "//lessons/%s" % lesson,
            "//tools/course/grader",
            "//tools:mpirun",
        ]}.keys(),
        tags = tags,
    )
