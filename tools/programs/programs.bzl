"""Names of programs."""

# The programs of tools/ that have flags, by the folder below tools/.
PROGRAMS_WITH_FLAGS = [
    "course/grader:grader",
    "course/pictures:timeline",
    "measure/calibrator:calibrator",
    "state/checkpoints:checkpoints",
    "state/comparison:comparison",
    "state/inspector:inspector",
    "state/logits:logits",
]
