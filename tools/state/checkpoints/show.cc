#include "tools/state/checkpoints/show.h"

#include <algorithm>
#include <set>

#include "common/checkpoint/model_json.h"
#include "common/io/printable.h"
#include "common/model/description.h"
#include "common/train/report/report.h"
#include "tools/state/checkpoints/consecutive.h"

namespace ladder {
namespace {

// What one rank's file has.
struct FileContents {
  std::map<std::string, size_t> bytes;  // by kind
  std::set<size_t> units;               // by their number in the model
  size_t num_slices = 0;
};

std::vector<FileContents> contents_of(const CheckpointIndex& index,
                                      const std::map<std::string, size_t>& units) {
  std::vector<FileContents> files(index.layout.world_size());
  for (const auto& [name, tensor] : index.tensors) {
    const size_t dot = name.find('.');
    for (const StoredSlice& slice : tensor.slices) {
      FileContents& file = files[slice.rank];
      file.bytes[name.substr(0, dot)] += slice.elements.count * size_of(tensor.dtype);
      file.units.insert(units.at(name.substr(dot + 1)));
      ++file.num_slices;
    }
  }
  return files;
}

// Names units, and runs of them by their ends: "wte, h.0 to h.3".
std::string names_of(const std::set<size_t>& units, const ModelDescription& model) {
  std::string text;
  for (const auto& [first, last] : consecutive(units)) {
    text += concat(text.empty() ? "" : ", ", model.units[first].name);
    if (last > first) text += concat(" to ", model.units[last].name);
  }
  return text.empty() ? "nothing" : text;
}

std::string files_text(const CheckpointIndex& index) {
  const ModelDescription model = describe(index.model);
  std::map<std::string, size_t> units;  // the unit of each parameter
  for (size_t unit = 0; unit < model.units.size(); ++unit) {
    for (const ParameterSpec& parameter : model.units[unit].parameters) {
      units[parameter.name] = unit;
    }
  }
  std::string text;
  const std::vector<FileContents> files = contents_of(index, units);
  for (size_t rank = 0; rank < files.size(); ++rank) {
    const FileContents& file = files[rank];
    text += concat("  ", rank_file_name(rank), "  ", counted(file.num_slices, "slice"), " of ",
                   names_of(file.units, model));
    for (const auto& [kind, bytes] : file.bytes) {
      text += concat(&kind == &file.bytes.begin()->first ? ": " : ", ", one_line(kind), " ",
                     human_bytes(bytes));
    }
    text += "\n";
  }
  return text;
}

std::string number_text(const ScalarValue& value) {
  if (const auto* const whole = std::get_if<int64_t>(&value)) return concat(*whole);
  return format("%.17g", std::get<double>(value));
}

}  // namespace

std::string index_text(const std::string& path, const CheckpointIndex& index) {
  std::string text = concat(one_line(path), "\n");
  text += concat("written by ", one_line(index.lesson), ", ", layout_text(index.layout),
                 ", --dtype ", name_of(index.dtype), "\n");
  text += concat("model      ", flags_text(index.model), "\nstate     ");
  for (const auto& [name, value] : index.scalars) {
    text += concat(" ", one_line(name), " ", number_text(value));
  }
  text += "\nsettings  ";
  for (const auto& [name, value] : index.settings) {
    text += concat(" ", one_line(name), " ", one_line(value));
  }
  return concat(text, "\nfiles\n", files_text(index));
}

}  // namespace ladder
