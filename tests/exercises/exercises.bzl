"""Tests that grading sees what is right and what is wrong."""

load("//tools/bazel:mpi.bzl", "MPI_TAGS")
load("//tools/bazel:variant.bzl", "edited_source")
load("//tools/grader:exercises.bzl", "EXERCISES", "exercise_program")

def grade_test(lesson, full, wrong):
    """Grades the lesson's own program, the work copy as it is handed out, and wrong solutions.

    Args:
      lesson: its folder.
      full: the points of every check of the lesson's own program, such as "3 2".
      wrong: for each wrong solution, by name: its points, the file, and the edits that make it from
        the lesson's own file.
    """
    solutions = {"//lessons/%s" % lesson: full}
    exercise_program(
        name = lesson + "_not_written",
        lesson = lesson,
        replacements = ["//tools/grader:unwritten/%s/%s" % (lesson, label.split(":")[1].split("/")[-1]) for label in EXERCISES[lesson]],
    )
    solutions[":" + lesson + "_not_written"] = " ".join(["0"] * len(full.split(" ")))
    for name, (points, file, edits) in wrong.items():
        program = "%s_%s" % (lesson, name)
        edited_source(
            name = program + "_source",
            source = file,
            edits = edits,
        )
        exercise_program(
            name = program,
            lesson = lesson,
            replacements = [":" + program + "_source"],
        )
        solutions[":" + program] = points
    native.sh_test(
        name = lesson + "_test",
        size = "medium",
        srcs = ["grade_test.sh"],
        args = [
            "$(location //tools/grader)",
            "$(location //tools:mpirun)",
            "$(location //lessons/01_single_gpu)",
            lesson,
            "$(location //lessons/%s)" % lesson,
        ] + [
            argument
            for program, points in solutions.items()
            for argument in ["$(location %s)" % program, "'%s'" % points]
        ],
        data = solutions.keys() + [
            "//tools/grader",
            "//tools:mpirun",
        ] + ([] if lesson == "01_single_gpu" else ["//lessons/01_single_gpu"]),
        tags = MPI_TAGS,
    )
