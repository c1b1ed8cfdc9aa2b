#include "tools/course/grader/exercises.h"

#include <map>

#include "kernels/runtime/check.h"
#include "tools/course/grader/later_exercises.h"
#include "tools/course/grader/printed.h"

namespace ladder {
namespace {

std::vector<Check> collectives() {
  return {
      right_sums(3, "reduce_scatter",
                 "The sum of part c begins at rank c + 1, goes once around the ring and ends at "
                 "rank c. In round i rank r sends part r - i - 1 and receives part r - i - 2."),
      right_sums(3, "all_gather",
                 "Part r is at rank r. In round i rank r passes on what it has received in round "
                 "i - 1: part r - i. What it receives it stores, and does not add."),
      ring_cost(2, RingCost::numbers_sent,
                "In a round a rank sends one part, a quarter of the vector, and not the whole "
                "vector. It sends N - 1 of the N parts."),
      ring_cost(2, RingCost::rounds,
                "A rank sends to the next one and receives from the one before in the same round: "
                "N - 1 rounds are enough."),
  };
}

// ---- 01 to 06: data

std::vector<Check> single_gpu() {
  const Training whole = any_bits({}), parts = any_bits({.flags = "--micro-batch-size 3"});
  return {
      gradients(3, "gradients of one micro-batch", whole,
                "The loss is a mean over all tokens of the step: each weighs 1 / counted_tokens(). "
                "Which tokens these are is decided by the step's number, and steps count from 1."),
      gradients(3, "gradients of four micro-batches", parts,
                "Micro-batches are added up: gradients are set to zero once a step, before the "
                "first one, and a token weighs the same in whichever micro-batch it is."),
      update(
          2, "parameters, moments, loss and norm", parts,
          "The norm is that of the summed gradient. update(norm) makes of it the numbers of this "
          "update, and the step's number has to be right before any data is loaded."),
      bytes_held(2, parts, "Only one micro-batch at a time has activations."),
  };
}

std::vector<Check> ddp() {
  const std::string small = "--bucket-bytes 20000";
  const Training two = with_races({2, small});
  const Training parts = with_races({2, small + " --micro-batch-size 2"});
  const Training messages = with_races({3, "--no-shared-memory --micro-batch-size 2"});
  return {
      gradients(3, "gradients on 2 ranks", two,
                "Every bucket is summed once over the ranks after the last use of all its units "
                "(Use::gradient_is_final), and nobody reads the sum before wait() has waited."),
      gradients(1, "gradients of three micro-batches a rank", parts,
                "Only the backward of the last micro-batch gets the hooks, and a new step begins "
                "with the first bucket again."),
      bytes_sent(1, messages,
                 "Each bucket is summed once a step, not once a micro-batch; of each a rank sends "
                 "2 (N-1)/N."),
      overlap(2, two, "gradient all_reduce", "backward",
              "A bucket can start as soon as its last unit is done, while backward goes on. What "
              "starts in wait() overlaps with nothing."),
      update(
          3, "all_reduce by messages on 3 ranks", messages,
          "Two halves: rank r collects slice r of all ranks and sums it (reduce_scatter), "
          "then sends the sum to all (all_gather). It adds the slices in the order of the ranks, "
          "wherever its own is among them. The count need not divide by the ranks. Small sums, "
          "such as the norm, go by messages in every run."),
  };
}

std::vector<Check> zero1() {
  const Training two = with_races({2}), three = with_races({3});
  return {
      update(3, "parameters and moments on 2 ranks", two,
             "Each rank updates its own shard of every unit, and then needs the shards that the "
             "others have updated: whole parameters, the same on all ranks."),
      update(2, "parameters and moments on 3 ranks", three,
             "Units are padded so that every rank has a shard of the same size."),
      bytes_held(1, two, "The moments of other ranks' shards are never needed."),
      bytes_sent(2, two, "One all_gather of each unit's shards a step."),
      overlap(2, two, "parameter all_gather", "update",
              "A unit's shards can travel while the next unit is updated: start all, wait for all "
              "at the end."),
  };
}

std::vector<Check> zero2() {
  const Training one = with_races({2}), parts = with_races({2, "--micro-batch-size 2"});
  return {
      gradients(3, "gradients of one micro-batch a rank", one,
                "open() gives scratch that is zero; close() sums it over the ranks and keeps this "
                "rank's shard."),
      gradients(2, "gradients of three micro-batches a rank", parts,
                "Shards are added up in the state's gradients over the micro-batches, and a buffer "
                "is given away again only when what was in it has been kept."),
      bytes_held(2, parts, "Two buffers are enough: units take turns."),
      bytes_sent(2, parts, "Each unit's gradient is reduced once a micro-batch."),
      overlap(1, one, "gradient reduce_scatter", "backward",
              "The sum runs in the background while backward is at the next unit. It is kept when "
              "the buffer is needed again, or one unit later."),
  };
}

std::vector<Check> zero3() {
  const Training usual = {2}, kept = {2, "--keep-embedding"};
  const Training stays = {2, "--no-reshard-after-forward"};
  return {
      update(3, "parameters and moments", usual,
             "One read for each use of the walk that reads weights, in the same order."),
      bytes_sent(2, usual,
                 "A unit is gathered for forward and once more for backward, because its memory "
                 "goes to another unit meanwhile."),
      bytes_held(1, usual,
                 "After a read the unit's memory is released, unless a later read finds "
                 "it there."),
      bytes_sent(2, kept,
                 "With keep_embedding the classifier finds the token embedding that forward has "
                 "gathered: the read before does not release it, and this one gathers nothing.",
                 "bytes sent with --keep-embedding"),
      bytes_sent(2, stays,
                 "Without resharding every later read of a unit finds what the first has gathered.",
                 "bytes sent with --no-reshard-after-forward"),
  };
}

std::vector<Check> offload() {
  const Training one = with_races({2}), parts = with_races({2, "--micro-batch-size 2"});
  return {
      gradients(3, "gradients of one micro-batch a rank", one,
                "The shard may be copied only when its sum has ended: the copy stream waits for "
                "it."),
      update(3, "gradients and parameters of three micro-batches a rank", parts,
             "In a step the first shard of each unit is copied to its place; later ones arrive in "
             "a buffer, and are added on the host when their copy has ended."),
      bytes_held(2, parts, "One buffer on the host is enough, for the largest shard."),
      bytes_sent(2, parts,
                 "Copies to the host are no communication: ranks send what they did in "
                 "lesson 04."),
  };
}

// ---- 07 to 10

std::vector<Check> tensor_parallel() {
  const auto training = [](const char* flags) { return any_bits(with_races({2, flags})); };
  const Training two = training(""), parts = training("--micro-batch-size 6");
  const Training messages = training("--no-shared-memory");
  return {
      update(3, "gradients and parameters on 2 ranks", two,
             "f passes its input on and sums in backward; g sums in forward and passes the "
             "gradient on. One of the two directions of each is the identity."),
      gradients(3, "gradients on 2 ranks, two micro-batches", parts,
                "The sums are over the ranks of one micro-batch, in place."),
      gradients(2, "gradients by messages", messages,
                "Whoever starts a sum has to see to it that its end is waited for."),
      bytes_sent(2, two,
                 "Two sums a block in forward and two in backward, and three numbers a "
                 "token for the classifier."),
  };
}

std::vector<Check> pipeline() {
  const Training two = {2, "--micro-batch-size 3"}, many = {4, "--micro-batch-size 2"};
  return {
      gradients(3, "1F1B: gradients on 2 stages, 4 micro-batches", two,
                "Every stage forwards and takes back each micro-batch once, in order, and receives "
                "before it computes. At the end both holders of the embedding add it up."),
      gradients(1, "fewer micro-batches than stages", {4, "--micro-batch-size 6"},
                "With m < p a stage cannot run ahead by more than the m forwards there are."),
      bytes_held(2, many,
                 "Stage i of p holds at most p - i micro-batches: it uses so many buffers, "
                 "one after the other."),
      bytes_sent(1, many, "An activation goes down once, its gradient up once."),
      bubble(2, "bubble of 1F1B",
             "A stage runs ahead by as many forwards as there are stages after it; then forward "
             "and backward take turns. The bubble is (p-1)/(m+p-1)."),
      gradients(1, "GPipe and naive still work", {2, "--micro-batch-size 3 --schedule gpipe"},
                "The kinds differ in how many forwards a stage runs ahead: none (naive), all "
                "(gpipe), as many as there are stages after it (1f1b)."),
  };
}

Training grid(size_t ranks, size_t tensor, size_t pipeline, const std::string& more = "") {
  return any_bits({ranks, concat("--tensor-parallel-size ", tensor, " --pipeline-parallel-size ",
                                 pipeline, " --micro-batch-size 3 ", more)});
}

std::vector<Check> three_d() {
  return {
      gradients(1, "data x tensor", grid(4, 2, 1),
                "rank = ((pipeline * data_size + data) * context_size + context) * tensor_size + "
                "tensor: tensor is the fastest digit. A group has the ranks that differ in one "
                "digit only."),
      gradients(1, "data x context", grid(4, 1, 1, "--context-parallel-size 2"),
                "Context ranks have different tokens of the same sequences: gradients are summed "
                "over data_context, whose ranks differ in these two digits."),
      gradients(2, "data x pipeline", grid(6, 1, 3),
                "The first and the last stage add up the token embedding's gradient after the data "
                "axis has summed it. A stage between them is a group of its own on that axis."),
      update(2, "pipeline x tensor, with the norm", grid(4, 2, 2),
             "Every parameter counts once in the norm, over the whole world; the loss is known on "
             "the last stage, and once for each tensor group."),
      update(2, "all three, with ZeRO-1", grid(8, 2, 2, "--zero-stage 1"),
             "Shards are those of the data axis, and the update gathers along it."),
      bytes_sent(2, grid(8, 2, 2), "Each axis sends what its own lesson sends."),
  };
}

std::vector<Check> mixed_precision() {
  return {
      // In the second run step 3 overflows, between steps that do not.
      scales(2, "the scale grows",
             {"--steps 8 --loss-scale-window 3 --initial-scale 16",
              "--steps 8 --loss-scale-window 2 --initial-scale 1.1e7 --hysteresis 9"},
             "After `window` steps in a row without overflow it doubles, and counting begins "
             "anew."),
      scales(3, "the scale halves", {"--steps 8 --hysteresis 1 --initial-scale 1e12"},
             "An overflow halves it at once where hysteresis is 1, and counts as no good step."),
      scales(2, "hysteresis",
             {"--steps 26 --hysteresis 3 --initial-scale 2.8e7 --loss-scale-window 5"},
             "The first hysteresis - 1 overflows since it last doubled leave it as it is. A good "
             "step does not give them back; doubling does."),
      scales(1, "the smallest scale",
             {"--steps 8 --hysteresis 1 --initial-scale 1e12 --min-loss-scale 2e11"},
             "It never falls below min_loss_scale."),
      scales(1, "a fixed scale",
             {"--steps 5 --loss-scale 1e12", "--steps 5 --loss-scale 16 --loss-scale-window 2"},
             "A fixed scale stays; its overflows are only counted, and its good steps not even "
             "that."),
      // The smallest scale is reached after step 2.
      gives_up(1, "--steps 25 --hysteresis 1 --initial-scale 1e12 --min-loss-scale 2.5e11", 22,
               "After kMostSkips overflows in a row at the smallest scale update() throws an "
               "Error that names the step. Overflows at larger scales do not count."),
  };
}

using Exercise = std::vector<Check> (*)();

const std::map<std::string, Exercise> kExercises = {
    {"00_collectives", collectives},
    {"01_single_gpu", single_gpu},
    {"02_ddp", ddp},
    {"03_zero1", zero1},
    {"04_zero2", zero2},
    {"05_zero3", zero3},
    {"06_offload", offload},
    {"07_tensor_parallel", tensor_parallel},
    {"08_pipeline_parallel", pipeline},
    {"09_3d_parallel", three_d},
    {"10_mixed_precision", mixed_precision},
    {"11_activation_checkpointing", activation_checkpointing},
    {"12_gradient_compression", compression},
    {"13_sequence_parallel", sequence_parallel},
    {"14_context_parallel", context_parallel},
    {"15_expert_parallel", experts},
    {"16_pipeline_schedules", pipeline_schedules},
    {"17_elastic", elastic},
    {"18_fine_tuning", fine_tuning},
    {"19_planning", planning},
    {"20_muon", muon},
    {"21_hybrid_shard", hybrid_shard},
};

}  // namespace

std::vector<Check> exercise(const std::string& lesson) {
  const auto found = kExercises.find(lesson);
  if (found == kExercises.end()) throw UserError(lesson + " has no graded exercise");
  return found->second();
}

}  // namespace ladder
