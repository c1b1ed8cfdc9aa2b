#include "tools/course/pictures/pictures.h"

#include "common/pipeline/report.h"
#include "common/schedule/build.h"
#include "common/schedule/draw.h"
#include "lessons/08_pipeline_parallel/schedules.h"
#include "lessons/16_pipeline_schedules/schedules.h"
#include "tools/course/pictures/block_split.h"
#include "tools/course/pictures/collective_frames.h"
#include "tools/course/pictures/course_map.h"
#include "tools/course/pictures/gather_buffers.h"
#include "tools/course/pictures/memory_bars.h"
#include "tools/course/pictures/muon_homes.h"
#include "tools/course/pictures/offers.h"
#include "tools/course/pictures/overlap.h"
#include "tools/course/pictures/rank_grid.h"
#include "tools/course/pictures/resharding.h"
#include "tools/course/pictures/ring_rounds.h"
#include "tools/course/pictures/score_square.h"
#include "tools/course/pictures/shard_sizes.h"
#include "tools/course/pictures/two_machines.h"
#include "tools/course/spine/spine.h"

namespace ladder {
namespace {

constexpr size_t kStages = 4;

// As lesson 08's --draw does.
std::string schedule_of(ScheduleKind kind, size_t num_micro_batches) {
  return drawing_of({.placement = {.num_stages = kStages},
                     .chunks = {},
                     .schedule = make_schedule(kind, kStages, num_micro_batches),
                     .name = std::string(name_of(kind))});
}

// The same of lesson 16, at the scale of lesson 08's 1F1B.
std::string schedule_of(Order order, size_t num_chunks) {
  constexpr size_t kMicroBatches = 8;
  const ChunkPlacement at = placement_of(order, kStages, num_chunks);
  const Schedule schedule = complete(make_work(order, at, kMicroBatches), at, true);
  const double part = 1 / static_cast<double>(at.num_chunks);  // of a stage's time
  return draw_svg(std::string(name_of(order)), schedule,
                  simulate(schedule, uniform_costs(part, 2 * part), Links::many),
                  3 * (kMicroBatches + kStages - 1));
}

}  // namespace

std::vector<Picture> all_pictures(const std::string& root) {
  const std::string folder = "notes/pictures/";
  const ModelConfig& gpt2 = find_preset("gpt2").config;
  return {
      {folder + "course_map.svg", course_map(read_lessons(root), read_core_path(root))},
      {folder + "ring_all_reduce.svg", draw_all_reduce(Algorithm::ring, 4)},
      {folder + "tree_all_reduce.svg", draw_all_reduce(Algorithm::tree, 4)},
      {folder + "halving_all_reduce.svg", draw_all_reduce(Algorithm::halving, 4)},
      {folder + "memory_bars.svg", memory_bars()},
      {folder + "overlap.svg", draw_overlap()},
      {folder + "gather_buffers.svg", draw_gather_buffers()},
      {folder + "block.svg", block_split(gpt2, 0, 1)},
      {folder + "block_llama.svg", block_split(find_preset("smollm2-135m").config, 0, 1)},
      {folder + "block_split.svg", block_split(gpt2, 1, 4)},
      {folder + "block_split_tokens.svg", block_split(gpt2, 1, 4, true)},
      {folder + "schedule_naive.svg", schedule_of(ScheduleKind::naive, 2)},
      {folder + "schedule_gpipe.svg", schedule_of(ScheduleKind::gpipe, 8)},
      {folder + "schedule_1f1b.svg", schedule_of(ScheduleKind::one_f_one_b, 8)},
      {folder + "schedule_interleaved.svg", schedule_of(Order::interleaved, 2)},
      {folder + "schedule_zb_h1.svg", schedule_of(Order::zb_h1, 1)},
      {folder + "schedule_zb_v.svg", schedule_of(Order::zb_v, 2)},
      {folder + "rank_grid.svg", draw_grid({.pipeline_size = 2, .data_size = 2, .tensor_size = 2})},
      {folder + "recompute_bars.svg", recompute_bars()},
      {folder + "sequence_bars.svg", sequence_bars()},
      {folder + "resharding.svg", draw_resharding()},
      {folder + "ring_attention.svg", draw_ring_rounds(4)},
      {folder + "score_squares.svg", draw_score_squares(4)},
      {folder + "two_machines.svg", draw_two_machines()},
      {folder + "offers.svg", draw_offers()},
      {folder + "shard_sizes.svg", draw_shard_sizes()},
      {folder + "muon_homes.svg", draw_muon_homes()},
      {folder + "spine.svg", draw_spine(spine_lines())},
  };
}

}  // namespace ladder
