#include "tools/state/checkpoints/reshard.h"

#include <algorithm>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "common/checkpoint/writer.h"
#include "common/io/path.h"
#include "tools/state/checkpoints/rank.h"

namespace ladder {

// Each is brought to the disk, so that so many take minutes. Llama 3 was trained on so many GPUs.
constexpr size_t kMostFiles = 16'384;

std::string reshard(const std::string& from, const ProcessGrid& layout, const std::string& out) {
  CheckpointReader reader(from);
  CheckpointIndex index = reader.index();
  index.layout = layout;
  index.tensors.clear();
  named_by("--layout", [&] {
    if (layout.world_size() > kMostFiles) {
      throw UserError(concat(layout_text(layout), ": makes a file for each of ",
                             layout.world_size(), " ranks; this takes at most ", kMostFiles));
    }
    return rank_layout(index.model, layout);  // throws if there is none
  });
  CheckpointFolder folder(out);
  const int64_t step = index.step();
  const std::string target = checkpoint_path(out, step);
  if (std::ranges::count(checkpoints_in(out), step) > 0) {
    throw UserError(concat(target, ": is there already; name another folder"));
  }
  const std::string partial = folder.begin(step);
  std::vector<std::byte> buffer(kFileBlockBytes);
  const ToHost read = [&](const NamedSlice& part) -> ConstTensorView {
    const TensorView& view = part.slice.view;
    const TensorView host(buffer.data(), view.dtype(), DeviceType::cpu, view.shape());
    reader.read(part.name, elements_of(part.slice), host);
    return host;
  };
  ProcessGrid grid = layout;
  for (grid.rank = 0; grid.rank < grid.world_size(); ++grid.rank) {
    const OwnedSlices owned(index.model, grid, reader.index().tensors);
    write_rank_files(partial, grid.rank, owned.slices, read);
  }
  write_index(partial, index);
  folder.publish(step);
  return target;
}

}  // namespace ladder
