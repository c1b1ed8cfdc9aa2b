#include "tools/state/checkpoints/list.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "common/io/printable.h"
#include "kernels/runtime/memory.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

using Row = std::vector<std::string>;

Row row_of(const std::string& path) {
  Row row = {one_line(fs::path(path).filename().string()), human_bytes(size_of_checkpoint(path))};
  try {
    const CheckpointReader reader(path);
    const CheckpointIndex& index = reader.index();
    const size_t num_files = index.layout.world_size();
    row.insert(row.end(), {one_line(index.lesson), layout_text(index.layout),
                           std::string(name_of(index.dtype)), counted(num_files, "rank")});
  } catch (const UserError& error) {
    row.push_back(one_line(error.what()));
  }
  return row;
}

}  // namespace

size_t size_of_checkpoint(const std::string& path) {
  size_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const uintmax_t size = entry.file_size(error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::string list_of(const std::string& path) {
  std::vector<Row> rows;
  for (const std::string& checkpoint : checkpoints_at(path)) rows.push_back(row_of(checkpoint));
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    // The message about a damaged index needs no column.
    for (size_t i = 0; i < row.size() && row.size() > 3; ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += concat(line.empty() ? "" : "  ", row[i]);
      if (row[i].size() < widths[i]) line.resize(line.size() + widths[i] - row[i].size(), ' ');
    }
    if (&row == &rows.back()) line += "  newest";
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

void verify(const std::string& path, std::ostream& out) {
  for (const std::string& checkpoint : checkpoints_at(path)) {
    CheckpointReader reader(checkpoint);
    reader.verify();
    out << one_line(checkpoint) << ": sound, " << human_bytes(size_of_checkpoint(checkpoint))
        << " of " << counted(reader.index().layout.world_size(), "rank") << std::endl;
  }
}

}  // namespace ladder
