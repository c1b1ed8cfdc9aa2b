#include "tools/course/grader/later_exercises.h"

#include "kernels/runtime/check.h"
#include "tools/course/grader/homes.h"
#include "tools/course/grader/printed.h"
#include "tools/course/grader/resumed.h"

namespace ladder {

std::vector<Check> activation_checkpointing() {
  const std::string model = "--layers 6 --micro-batch-size 3 --activation-memory ";
  return {
      gradients(2, "gradients with little memory", {.flags = model + "600000"},
                "A count is at most the number of blocks."),
      activations_fit(3,
                      "Of n blocks that drop a tensor n - 1 save its bytes: the shared memory "
                      "needs room for one."),
      operations_again(2, Budgets::cheap,
                       "First drop what costs few operations for its bytes: GELU and the "
                       "layernorms."),
      operations_again(3, Budgets::all,
                       "The last tensor that you drop may save more than is missing: perhaps "
                       "another one, or two smaller ones instead of it, cost less."),
  };
}

std::vector<Check> compression() {
  return {
      compressed(2, "codes of 8 bits", 2, "int8 --block-size 64",
                 "for_blocks gives the place of every block: its first element, how many it has, "
                 "and the word at which its code begins. scale_of, encode_block and decode_block "
                 "do the rest of a block."),
      compressed(2, "other formats", 2, "bf16 --dtype fp64",
                 "dispatch_codec gives the types of the elements and of the format."),
      compressed(3, "error feedback", 2, "1bit --error-feedback",
                 "What is held is added to the gradient before it is encoded; what the code "
                 "decodes to is subtracted from the sum, and the rest is held."),
      compressed(2, "random numbers", 2, "fp8-e4m3 --stochastic-rounding",
                 "Every element of a call has a random number of its own, so each block begins "
                 "with another one (Rounding::first)."),
      // Of two terms the sum is the same in either order.
      compressed(1, "sums of rows", 3,
                 "int8 --error-feedback --block-size 32 --global-batch-size 12",
                 "The first row sets the sum, the others add to it in their order. Rows are a "
                 "whole row of words "
                 "apart, which may be more than the words of their elements."),
  };
}

std::vector<Check> sequence_parallel() {
  const Training two = with_races({2});
  const Training keep = with_races({2, "--gathered keep --micro-batch-size 6"});
  return {
      update(3, "gradients and parameters on 2 ranks", two,
             "Entering gathers in forward and scatters sums in backward; leaving does it the other "
             "way round. The gradient of what every rank holds is the sum over all ranks' tokens."),
      gradients(3, "gradients on 2 ranks, gathered inputs kept, two micro-batches", keep,
                "An input that has room for all rows is gathered there, and is complete in "
                "backward. The partial gradients are summed once, after the last micro-batch."),
      bytes_held(1, two, "Gathered rows go to the room that the model offers."),
      bytes_sent(3, two,
                 "An all_reduce is a reduce_scatter and an all_gather: one of them at each place, "
                 "and twice a block one more all_gather in backward."),
  };
}

std::vector<Check> context_parallel() {
  const std::string odd = "--sequence-length 31";
  const Training two = any_bits(with_races({2, "--slices contiguous"}));
  const Training three = any_bits(with_races({3, odd, odd}));
  return {
      gradients(
          4, "two contiguous slices", two,
          "Each result counts as much as the exponentials behind it: exp(logsumexp). Backward "
          "reads the merged logsumexp, so that has to be right too."),
      gradients(3, "zigzag on 3 ranks", three,
                "At step s the keys are those of owner_at(s). A block may have some of the queries "
                "only, and the others keep what they have."),
      bytes_held(1, two, "The ring's memory is there already: kv_, partial_, sum_."),
      bytes_sent(2, two, "After the last step nobody needs the keys any more."),
  };
}

std::vector<Check> experts() {
  return {
      routed(
          3, "assignments", 1, "--expert-parallel-size 1",
          "Assignments are numbered by expert, and within an expert by row. First count how many "
          "choices each expert keeps; then the assignments of an expert begin after those of the "
          "experts before it."),
      routed(2, "drops", 1, "--expert-parallel-size 1 --capacity-factor 0.7",
             "An expert counts its tokens anew in every sequence. A choice that comes when it has "
             "expert_capacity() of them gets the assignment -1, but counts in the fractions."),
      routed(3, "arrivals", 2, "--expert-parallel-size 2",
             "The place of an assignment in the order of arrival: after all assignments of the "
             "senders before "
             "its own, and after those of the same sender for the experts before its own that "
             "this rank holds."),
      routed(2, "arrivals on four ranks", 4, "--capacity-factor 1 --experts-per-token 3",
             "rows.of(from, to) counts the assignments for all experts that `to` holds, and every "
             "rank "
             "finds the same counts."),
  };
}

std::vector<Check> pipeline_schedules() {
  const Training two = {2, "--micro-batch-size 3"}, many = {4, "--micro-batch-size 1"};
  return {
      gradients(3, "ZB-H1: gradients on 2 stages, 4 micro-batches", two,
                "Each micro-batch has a forward, a half for the input and a half for the weights, "
                "in this order. Messages, copies and buffers are added for you."),
      gradients(2, "fewer micro-batches than stages", {4, "--micro-batch-size 6"},
                "With m < p there are m of each kind, and no more."),
      bytes_held(2, many,
                 "A stage holds at most p micro-batches. It frees a buffer with the half for the "
                 "weights, so the first of those comes before forward p."),
      bubble(3, "bubble of ZB-H1",
             "As in 1F1B a stage runs p - s forwards first. It puts off as many halves for the "
             "weights as there are stages before it, and does them at the end."),
  };
}

std::vector<Check> elastic() {
  const auto layout = [](size_t ranks, size_t tensor, size_t pipeline, const char* more = "") {
    return Training{ranks, concat("--tensor-parallel-size ", tensor, " --pipeline-parallel-size ",
                                  pipeline, " ", more)};
  };
  // One tensor, mlp.c_fc.weight, has two file blocks of 1 MiB.
  const char* const large = "--layers 1 --hidden 256";
  return {
      resumed(3, "from 4 ranks' shards to 3", {layout(4, 1, 1), layout(3, 1, 1)},
              "Both slices lie in one range. What they have in common begins at the larger of the "
              "two beginnings and ends at the smaller of the two ends; from and to count from the "
              "beginning of each slice."),
      resumed(3, "from columns to shards", {layout(2, 2, 1), layout(3, 1, 1)},
              "Element i of a part is element first + i / length * stride + i % length of the "
              "whole tensor."),
      resumed(2, "from shards to a grid", {layout(3, 1, 1), layout(4, 2, 2)},
              "The wanted slice has many ranges, too: go on to the next one where one ends."),
      bytes_read(
          2, {layout(2, 1, 2, large), layout(2, 2, 1, large)},
          "The reader keeps one file block. Overlaps in the order in which they are stored need "
          "each file block once."),
  };
}

std::vector<Check> fine_tuning() {
  const std::string adapters = "--train lora --learning-rate 1e-2 --lora-rank 3 --lora-alpha 7 ";
  const std::string all = adapters + "--lora-targets qkv,proj,fc,mlp-proj ";
  const std::string qkv = adapters + "--lora-targets qkv --layers 1 ";
  const Training split = any_bits({2, all + "--tensor-parallel-size 2", all});
  return {
      gradients(3, "gradients of one layer's adapters", any_bits({1, qkv, qkv}),
                "In the first step only B has a gradient: d_out^T h, where h has the scale in it "
                "already. From the second on A has one, too: d_h^T x."),
      gradients(2, "gradients through all layers' adapters", any_bits({1, all, all}),
                "The gradient of a layer's input has two terms, and the layers below get both: "
                "that of W is there already, and d_h A is added to it."),
      update(3, "two ranks that split the layers", split,
             "A rank's h and d_h are what its part of the layer gives. Nothing is summed here: "
             "HeadCopies sums the copied factor's gradient at the end of the step."),
      bytes_held(2, split, "h and d_h lie in the scratch, and nothing is allocated."),
  };
}

std::vector<Check> planning() {
  // Steps of a million tokens: 2, 1.1, 0.8 and 0.7 hours; 2, 2.2, 3.2 and 5.6 GPU-hours.
  const std::string tokens = "--tokens 36e6 --measured ";
  const std::string offers = tokens + "1:200:1e6,2:110:1e6,4:80:1e6,8:70:1e6";
  return {
      chosen(2, "days and GPU-hours",
             {tokens + "4:1200:1e6", "--tokens 35.2e6 --measured 4:1200:1e6,3:77:5e5"},
             "A part of a step is a step. All GPUs are paid for, as long as the training takes."),
      chosen(3, "the cheapest in time",
             {offers, offers + " --days 0.06", offers + " --days 0.04 --gpu-hours 6",
              offers + ",16:oom --days 0.03 --gpu-hours 6",
              // A day and 24 GPU-hours to the bit, in whichever order they are computed.
              "--tokens 32e6 --measured 1:2700:1e6 --days 1 --gpu-hours 24"},
             "Of the offers that fit and keep both limits the one with the fewest GPU-hours, "
             "not the quickest. A limit that is just reached is kept."),
      // The second ones are equal but for their last bits.
      chosen(2, "ties",
             {tokens + "1:200:1e6,2:100:1e6,8:25:1e6,1:400:2e6 --days 3",
              tokens + "1:148:1e6,2:74:1e6,4:37:1e6,5:29.6:1e6 --days 3"},
             "All that are as cheap as the cheapest, to a part in 10^9, the quickest of them "
             "first."),
      not_chosen(2, "why none, and what would do", offers + " --days 0.042 --gpu-hours 3",
                 "; 3.2 GPU-hours would do (4 GPUs); 0.05 days would do (2 GPUs)",
                 "in_time is the cheapest of those that are in time but too expensive; in_budget "
                 "is the quickest of those that are cheap enough but too late."),
      not_chosen(1, "nothing fits", tokens + "1:oom,8:oom --days 3",
                 "nothing fits; take more GPUs, or GPUs with more memory",
                 "An offer that does not fit is passed over, whatever its numbers are."),
  };
}

std::vector<Check> muon() {
  const std::string first = "--optimizer muon", one_layer = " --layers 1";
  const Training one = any_bits({2, "", first});
  // In the second round only one of the ranks is a home.
  const Training parts =
      any_bits({3, "--homes in-turn --micro-batch-size 2" + one_layer, first + one_layer});
  const Training whole = any_bits({2, "--homes everywhere", first});
  return {
      update(2, "parameters and moments on 2 ranks", one,
             "First muon_blend() with what this rank has, then the exchange, and at the end "
             "muon_move(). own_ has the parts home by home, those of one home in the order of "
             "in_round(). step.grad_scale clips the gradient."),
      update(2, "parameters and moments on 3 ranks, homes in turn", parts,
             "A rank has no part of some weights, and in some rounds it is home to none. It takes "
             "part in both exchanges all the same."),
      update(1, "whole weights on each rank", whole,
             "A rank that is alone has no group.ranks, and what it is home to is in own_ already."),
      longest_home(2,
                   "Sort by muon_flops(), and give each weight to the rank that has least to do so "
                   "far: least operations, and not fewest weights."),
      homes_in_turn(1,
                    "Weight i has the home i % size, in the order of weights_. at_ has those of "
                    "each home, the longest first."),
      orthogonalized(1, parts, "Only the home makes a weight orthogonal, once a step."),
      bytes_sent(1, parts, "Parts go to the home and come back: two exchanges a round."),
  };
}

std::vector<Check> hybrid_shard() {
  const std::string flags = "--shard-size 2";
  const Training one = with_races(any_bits({4, flags}));
  const Training parts = with_races(any_bits({4, flags + " --micro-batch-size 1"}));
  return {
      gradients(3, "gradients of one micro-batch a rank", one,
                "When a unit's shard has been kept, its sum over the replicas may begin; wait() "
                "waits for all of these sums."),
      update(3, "parameters and moments after several micro-batches", parts,
             "A shard is summed over the replicas when every micro-batch of the step has been "
             "added to it, and the next step counts from the beginning."),
      bytes_sent(3, parts, "Replicas sum once a step, each unit once."),
      overlap(1, one, "replica gradient all_reduce", "backward",
              "The sum over the replicas runs in the background while backward is at the next "
              "unit."),
  };
}

}  // namespace ladder
