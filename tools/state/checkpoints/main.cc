// checkpoints ls|show|verify|reshard|export|merge: looks into checkpoints and makes others of them.
// Exit status: 0; 2 wrong usage, or a checkpoint that is damaged or missing; 1 anything else.
#include <iostream>
#include <optional>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/train/flags/flag_table.h"
#include "common/train/flags/model_flags.h"
#include "common/train/flags/validators.h"
#include "tools/programs/small_program.h"
#include "tools/state/checkpoints/list.h"
#include "tools/state/checkpoints/merge.h"
#include "tools/state/checkpoints/rank.h"
#include "tools/state/checkpoints/reshard.h"
#include "tools/state/checkpoints/show.h"
#include "tools/state/checkpoints/weights.h"

namespace ladder {
namespace {

struct Flags {
  std::string path, layout, model, out, adapters;
  std::optional<size_t> rank;
  SizeFlags sizes;
};

void add_model_flags(CLI::App& app, Flags& flags) {
  CLI::Option* const model = app.add_option(
      "--model", flags.model, "Instead of DIR: a preset, such as tiny or gpt2, without checkpoint");
  FlagTable table(app);
  for (CLI::Option* size : flags.sizes.add_to(table)) size->needs(model);
}

ModelConfig model_of(const Flags& flags) {
  const ModelConfig model = flags.sizes.applied_to(find_preset(flags.model).config);
  check_config(model);
  return model;
}

ProcessGrid layout_of(const Flags& flags) {
  return named_by("--layout", [&] { return parse_layout(flags.layout); });
}

std::string newest(const std::string& path) { return checkpoints_at(path).back(); }

void show_rank(const Flags& flags, const ModelConfig& model, const CheckpointIndex* index) {
  ProcessGrid grid = flags.layout.empty() ? index->layout : layout_of(flags);
  grid.rank = *flags.rank;
  const OwnedSlices owned = named_by("--layout", [&] {
    return OwnedSlices(model, grid, index != nullptr ? index->tensors : stored_tensors_of(model));
  });
  std::cout << owned_text(owned, grid);
  if (index != nullptr) std::cout << read_text(owned, *index);
}

void show(const Flags& flags) {
  if (flags.path.empty() == flags.model.empty()) {
    throw UserError("show: expected DIR, or --model in its place; see --help");
  }
  if (!flags.path.empty()) {
    const CheckpointReader reader(newest(flags.path));
    if (!flags.rank) {
      std::cout << index_text(reader.path(), reader.index());
    } else {
      show_rank(flags, reader.index().model, &reader.index());
    }
    return;
  }
  if (!flags.rank || flags.layout.empty()) {
    throw UserError("show --model: needs --rank and --layout; see --help");
  }
  show_rank(flags, model_of(flags), nullptr);
}

// Adds a command that takes the checkpoint, or checkpoints, to look into.
CLI::App* add_command(CLI::App& app, Flags& flags, const char* name, const char* help) {
  CLI::App* const command = app.add_subcommand(name, help);
  command->add_option("DIR", flags.path,
                      "A folder of checkpoints, or one of them: DIR/step_00000050");
  return command;
}

void add_commands(CLI::App& app, Flags& flags) {
  app.require_subcommand(0, 1);
  add_command(app, flags, "ls", "The checkpoints in a folder, a line for each")
      ->get_option("DIR")
      ->required();
  CLI::App* const show = add_command(
      app, flags, "show", "What the newest has, or what a rank of any layout would own and read");
  CLI::Option* const rank =
      show->add_option("--rank", flags.rank, "What this rank would own, and read for that")
          ->check(whole(0, kMostRanks - 1));
  show->add_option("--layout", flags.layout,
                   "Of how many ranks, as in data=8,pipeline=4,tensor=2 [who wrote it]")
      ->needs(rank);
  add_model_flags(*show, flags);
  add_command(app, flags, "verify",
              "Reads everything; the first fault ends it with one line and status 2")
      ->get_option("DIR")
      ->required();
  CLI::App* const reshard =
      add_command(app, flags, "reshard", "Writes the newest as ranks of another layout would have");
  reshard->get_option("DIR")->required();
  reshard->add_option("OUT", flags.out, "The folder to write it to")->required();
  reshard->add_option("--layout", flags.layout, "Of the ranks, as in data=8,pipeline=4,tensor=2")
      ->required();
  CLI::App* const exports = add_command(
      app, flags, "export", "Writes the newest as a model for Hugging Face, as --export");
  exports->get_option("DIR")->required();
  exports->add_option("OUT", flags.out, "The new folder to write it to")->required();
  CLI::App* const merges =
      app.add_subcommand("merge", "Adds adapters to the weights that they were trained beside");
  merges->add_option("BASE", flags.path, "A folder of weights, such as --export writes")
      ->required();
  merges
      ->add_option("ADAPTERS", flags.adapters, "A folder of --export with --train lora, or of peft")
      ->required();
  merges->add_option("OUT", flags.out, "The new folder to write them to")->required();
}

void run_command(const CLI::App& app, const Flags& flags) {
  if (app.get_subcommands().empty()) {
    throw UserError("expected ls, show, verify, reshard, export or merge; see --help");
  }
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "ls") std::cout << list_of(flags.path);
  if (command == "show") show(flags);
  if (command == "verify") verify(flags.path, std::cout);
  if (command == "reshard") {
    std::cout << one_line(reshard(newest(flags.path), layout_of(flags), flags.out)) << "\n";
  }
  if (command == "export") export_weights(newest(flags.path), flags.out);
  if (command == "merge") merge(flags.path, flags.adapters, flags.out);
  std::cout << std::flush;
  check(std::cout.good(), "standard output could not be written to the end");
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  CLI::App app("Looks into checkpoints and makes others of them.", "checkpoint");
  ladder::Flags flags;
  ladder::add_commands(app, flags);
  return ladder::run_small_program(app, argc, argv, [&] {
    ladder::run_command(app, flags);
    return 0;
  });
}
