#include "common/train/flags/named_files.h"

#include <filesystem>

#include "common/checkpoint/folder.h"
#include "common/io/dump_name.h"
#include "common/io/event_file.h"
#include "common/io/path.h"
#include "common/train/flags/command_line.h"
#include "common/train/flags/inputs.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

std::string text_of(const NamedFile& file) { return concat(file.flag, " ", file.path); }

// Throws UserError if the file has a name that a dump will have.
void check_outside(const std::string& dump, const NamedFile& file) {
  const fs::path target = whole_path(file.path);
  if (!step_of_dump(target.filename().string())) return;
  if (identity_of(target.parent_path()) != identity_of(dump)) return;
  throw UserError(concat(text_of(file), " lies where --dump ", dump,
                         " would write; name another folder for the dumps"));
}

// Throws UserError if the output lies in a checkpoint, or where the run will put one.
void check_outside_checkpoints(const std::string& folder, const NamedFile& output) {
  const std::string checkpoint = checkpoint_around(output.path, folder);
  if (checkpoint.empty()) return;
  throw UserError(concat(text_of(output), " lies in the checkpoint ", checkpoint,
                         ", which is for its own files alone; name another place"));
}

// Throws UserError if another output is one of the event files of --tensorboard.
void check_no_event_file(const std::string& folder, const NamedFile& output) {
  const fs::path target = whole_path(output.path);
  if (!is_event_file(target.filename().string())) return;
  if (identity_of(target.parent_path()) != identity_of(folder)) return;
  throw UserError(concat(text_of(output), " would be an event file of --tensorboard ", folder,
                         "; give it a name of its own"));
}

// Throws UserError if another output lies in the folder of --export, which must be empty at the
// end.
void check_outside_export(const std::string& folder, const NamedFile& output) {
  const std::string identity = identity_of(folder);
  const fs::path target = whole_path(output.path);
  for (fs::path at = target.parent_path(); at != at.parent_path(); at = at.parent_path()) {
    if (identity_of(at) != identity) continue;
    throw UserError(concat(text_of(output), " lies in the folder of --export ", folder,
                           ", which is for the model alone; name another place"));
  }
}

void check_outputs(const RunConfig& config, std::vector<NamedFile> others) {
  std::vector<NamedFile> outputs;
  for (const auto& [flag, path] : config.outputs) outputs.push_back({flag.c_str(), path});
  outputs.push_back({kSaveFlag, config.save_flags});
  // What an output must not be: an output before it, or an input.
  std::erase_if(others, [](const NamedFile& file) { return file.path.empty(); });
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedFile& other : others) check_apart(output, other);
    others.push_back(output);
    if (output.path == config.checkpoint.path) continue;
    check_outside_checkpoints(config.checkpoint.path, output);
    if (!config.tensorboard.empty()) check_no_event_file(config.tensorboard, output);
  }
  if (!config.export_to.empty()) {
    for (const NamedFile& output : outputs) {
      if (output.path.empty() || output.path == config.export_to) continue;
      check_outside_export(config.export_to, output);
    }
  }
  if (config.dump.empty()) return;
  for (const NamedFile& other : others) check_outside(config.dump, other);
}

}  // namespace

void check_distinct(const RunConfig& config, const Corpus& corpus) {
  std::vector<NamedFile> inputs = {{"--config", config.flags_file}};
  for (const auto& [flag, path] : config.inputs) inputs.push_back({flag.c_str(), path});
  for (const std::string& path : init_files(config)) inputs.push_back({"--init", path});
  for (const NamedFile& file : files_beside(config)) inputs.push_back(file);
  for (const std::string& path : adapter_files(config)) inputs.push_back({"--init-adapter", path});
  for (const std::string& path : corpus.files()) inputs.push_back({data_flag(config), path});
  check_outputs(config, inputs);
}

void check_drawing(const std::string& path, bool is_virtual, const LessonInfo& lesson) {
  if (is_virtual && path.ends_with(".csv")) {
    throw UserError(concat("--draw ", path, ": with --device virtual it draws the simulated step, ",
                           "as SVG; leave --device out for the schedule as CSV"));
  }
  if (path.empty() || is_virtual || lesson.has_schedule) return;
  throw UserError(concat("--draw: ", lesson.name,
                         " has no schedule; with --device virtual it draws the simulated step"));
}

}  // namespace ladder
