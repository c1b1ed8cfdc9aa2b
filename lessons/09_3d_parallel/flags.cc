#include "lessons/09_3d_parallel/flags.h"

#include <algorithm>

#include "common/train/flags/flag_table.h"
#include "common/train/flags/validators.h"

namespace ladder {

void ThreeDFlags::add_to(FlagTable& flags) {
  const char* const heading = "3D parallel";
  flags.heading(heading);
  flags.add("--tensor-parallel-size", tensor_parallel_size,
            "Ranks that split every large weight [1]", whole(1, 1'000'000),
            {.compared = ComparedBy::layout});
  flags.add("--sequence-parallel", sequence_parallel,
            "These ranks also split the tokens where they do not split weights");
  flags.add("--scatter-messages", scatter_messages,
            "These ranks send a part each of what goes to another stage");
  flags
      .add("--no-overlap", no_overlap,
           "Axes that communicate while nothing computes: data, tensor, or both with a comma")
      ->delimiter(',')
      ->check(CLI::IsMember({"data", "tensor"}).description(""))
      ->type_name("AXIS,...");
  context.add_to(flags, "1");
  zero.add_to(flags, heading);
  reduce.add_to(flags);
  pipeline.add_to(flags);
}

bool ThreeDFlags::overlaps(Axis axis) const {
  return std::ranges::find(no_overlap, name_of(axis)) == no_overlap.end();
}

ProcessGrid ThreeDFlags::arrange(size_t num_ranks, size_t rank) const {
  const size_t tensor = tensor_parallel_size;
  const size_t slices = std::max<size_t>(context.size, 1);
  const size_t stages = std::max<size_t>(pipeline.pipeline_parallel_size, 1);
  const size_t replica = tensor * slices * stages;
  if (num_ranks % replica != 0) {
    throw UserError(
        concat("--tensor-parallel-size ", tensor, " times ",
               slices > 1 ? concat("--context-parallel-size ", slices, " times ") : std::string(),
               "--pipeline-parallel-size ", stages, " does not divide ", counted(num_ranks, "rank"),
               "; ", (num_ranks / replica + 1) * replica, " ranks would do"));
  }
  for (const auto& [flag, is_set] : {std::pair("--sequence-parallel", sequence_parallel),
                                     std::pair("--scatter-messages", scatter_messages)}) {
    if (!is_set || tensor > 1) continue;
    throw UserError(
        concat(flag, ": --tensor-parallel-size 1 has nobody to split with; 2 would do"));
  }
  if (scatter_messages && stages == 1) {
    throw UserError("--scatter-messages: --pipeline-parallel-size 1 has no messages; 2 would do");
  }
  if (scatter_messages && sequence_parallel) {
    throw UserError(
        "--scatter-messages: with --sequence-parallel each rank already has a part alone");
  }
  return {.pipeline_size = stages,
          .data_size = num_ranks / replica,
          .context_size = slices,
          .tensor_size = tensor,
          .rank = rank,
          .pipeline_links = num_links(pipeline)};
}

}  // namespace ladder
