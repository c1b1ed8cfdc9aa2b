"""Graded exercises: files of a lesson from which functions were taken out, for a learner to write."""

load("//tools/bazel:variant.bzl", "variant")

# For each lesson: the files and the functions. tools/course/grader/exercises.cc says what they must do.
EXERCISES = {
    "00_collectives": {
        "//lessons/00_collectives:plan.cc": ["ring_reduce_scatter", "ring_all_gather"],
    },
    "01_single_gpu": {
        "//lessons/01_single_gpu:trainer.cc": ["SingleGpuTrainer::step"],
    },
    "02_ddp": {
        "//lessons/02_ddp:buckets.cc": [
            "BucketSync::start",
            "BucketSync::hooks",
            "BucketSync::wait",
        ],
        "//common/comm:mpi_messages.cc": ["MpiTransport::all_reduce_by_messages"],
    },
    "03_zero1": {
        "//lessons/03_zero1:shards.cc": ["update_and_gather"],
    },
    "04_zero2": {
        "//lessons/04_zero2:gradients.cc": ["GradientShards::open", "GradientShards::close"],
    },
    "05_zero3": {
        "//lessons/05_zero3:gather.cc": ["UnitGatherer::plan"],
    },
    "06_offload": {
        "//lessons/06_offload:host_gradients.cc": [
            "HostGradients::keep",
            "HostGradients::add_arrived",
        ],
    },
    "07_tensor_parallel": {
        "//lessons/07_tensor_parallel:slices.cc": ["tensor_parallel_on"],
    },
    "08_pipeline_parallel": {
        "//lessons/08_pipeline_parallel:schedules.cc": ["num_warm_up", "make_schedule"],
    },
    "09_3d_parallel": {
        "//common/grid:process_grid.cc": ["ProcessGrid::stride", "ProcessGrid::group"],
        "//lessons/09_3d_parallel:trainer.cc": ["ThreeDTrainer::step"],
    },
    "10_mixed_precision": {
        "//lessons/10_mixed_precision:loss_scaler.cc": ["LossScaler::update"],
    },
    "11_activation_checkpointing": {
        "//lessons/11_activation_checkpointing:policy.cc": ["choose_drops"],
    },
    "12_gradient_compression": {
        "//kernels:cpu/codec.cc": ["encode", "decode_sum"],
    },
    "13_sequence_parallel": {
        "//lessons/13_sequence_parallel:tokens.cc": [
            "sequence_parallel_on",
            "sum_partial_gradients",
        ],
    },
    "14_context_parallel": {
        "//kernels:cpu/attention_merge.cc": ["attention_merge"],
        "//lessons/14_context_parallel:ring.cc": ["RingAttention::forward"],
    },
    "15_expert_parallel": {
        "//lessons/15_expert_parallel:routing.cc": ["assign_tokens", "order_arrivals"],
    },
    "16_pipeline_schedules": {
        "//lessons/16_pipeline_schedules:schedules.cc": ["zb_h1_work"],
    },
    "17_elastic": {
        "//common/checkpoint:overlap.cc": ["add_overlaps", "overlaps"],
    },
    "18_fine_tuning": {
        "//common/model:adapters.cc": ["Adapters::backward_input", "Adapters::backward_weight"],
    },
    "19_planning": {
        "//lessons/19_planning:choose.cc": ["price_of", "choose"],
    },
    "20_muon": {
        "//common/model:muon_homes.cc": ["MuonHomes::choose"],
        "//common/train/trainer:muon_state.cc": ["MuonState::run_round"],
    },
    "21_hybrid_shard": {
        "//lessons/21_hybrid_shard:replicated_shards.cc": [
            "ReplicatedShards::keep",
            "ReplicatedShards::wait",
        ],
    },
}

def _file_name(label):
    return label.split(":")[1].split("/")[-1]

def exercise(lesson):
    """Defines for one lesson:

    LESSON_unwritten    the files with the functions taken out, in the folder LESSON
    LESSON              the lesson's program with the learner's files, exercises/LESSON/*. Built only where
                        somebody asks for it: there may be none.
    """
    files = EXERCISES[lesson]
    for label, functions in files.items():
        native.genrule(
            name = "%s_%s" % (lesson, _file_name(label)),
            srcs = [
                "take_out",
                label,
            ],
            outs = ["unwritten/%s/%s" % (lesson, _file_name(label))],
            cmd = "$(location take_out) $(location %s) %s > $@" % (label, " ".join(functions)),
        )
    native.filegroup(
        name = lesson + "_unwritten",
        srcs = ["unwritten/%s/%s" % (lesson, _file_name(label)) for label in files],
    )
    exercise_program(
        name = lesson,
        lesson = lesson,
        replacements = ["//exercises:%s/%s" % (lesson, _file_name(label)) for label in files],
        tags = ["manual"],
    )

def exercise_program(name, lesson, replacements, **kwargs):
    """The program of a lesson with other files in it."""
    variant(
        name = name,
        replacements = replacements,
        deps = [
            "//lessons/%s:main" % lesson,
            "//tools/course/grader:timing",
        ],
        **kwargs
    )
