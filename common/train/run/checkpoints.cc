#include "common/train/run/checkpoints.h"

#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "common/checkpoint/model_json.h"
#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "common/model/train_choice.h"
#include "common/train/flags/inputs.h"
#include "common/train/flags/settings.h"
#include "common/train/report/report.h"
#include "common/train/run/outputs.h"
#include "kernels/runtime/clock.h"

namespace ladder {
namespace {

bool same_model(const ModelConfig& a, const ModelConfig& b) {
  return a.with_all_sizes() == b.with_all_sizes();
}

}  // namespace

Checkpoints::Checkpoints(const RunConfig& config, const ProcessGrid& grid, Job& job,
                         const LessonInfo& lesson, const Corpus& corpus, Vocabulary& vocabulary)
    : config_(config), grid_(grid), job_(job), lesson_(lesson.name) {
  if (config_.checkpoint.path.empty()) return;
  settings_ = settings_of(config, corpus);
  note_vocabulary(vocabulary, settings_);
  named_by("--checkpoint", [&] {
    if (grid_.rank == 0) folder_.emplace(config_.checkpoint.path);
    std::vector<uint64_t> name = folder_ ? folder_->unfinished_name() : std::vector<uint64_t>(4);
    unfinished_ = unfinished_path(config_.checkpoint.path, job_.all_gather(name));  // of rank 0
    require_shared_folder();
    find_newest(vocabulary);
    if (folder_) notes_ += folder_->left_over();
  });
}

Checkpoints::~Checkpoints() {
  stopped_ = true;
  if (writer_.joinable()) writer_.join();
}

void Checkpoints::find_newest(Vocabulary& vocabulary) {
  const std::string& path = config_.checkpoint.path;
  const std::vector<int64_t> steps = checkpoints_in(path);
  // Rank 0 has locked the folder, so what it finds is what there is.
  const auto newest = static_cast<uint64_t>(steps.empty() ? 0 : steps.back());
  resumed_step_ = static_cast<int64_t>(job_.all_gather({newest}).front());
  if (resumed_step_ == 0) {
    run_ = new_run_mark();
    if (!config_.checkpoint.resume) return;
    if (config_.optimizer.num_steps == 0) {
      throw UserError(concat(path, ": has no checkpoint, and with --steps 0 none is made"));
    }
    notes_ = "  resumed  nothing: the folder has no checkpoint yet\n";
    return;
  }
  if (!config_.checkpoint.resume) {
    throw UserError(concat(path, ": has checkpoints of an earlier run, up to step ", resumed_step_,
                           "; add --resume to go on from there, or name another folder"));
  }
  resumed_.emplace(checkpoint_path(path, resumed_step_));
  complete_vocabulary(vocabulary, config_, vocabulary_of(resumed_->index(), resumed_->path()));
  note_vocabulary(vocabulary, settings_);
  const auto& settings = resumed_->index().settings;  // of an older version without a mark
  if (const auto run = settings.find("run"); run != settings.end()) run_ = run->second;
  compare(resumed_->index());
}

void Checkpoints::compare(const CheckpointIndex& index) {
  const int64_t last = config_.optimizer.num_steps;
  const std::string& path = resumed_->path();
  ModelConfig trained_as_here = index.model;
  trained_as_here.frozen = config_.model.frozen;
  trained_as_here.lora = config_.model.lora;
  if (same_model(trained_as_here, config_.model) && !same_model(index.model, config_.model)) {
    throw UserError(concat(path, ": was trained with ", train_text(index.model), ", this run has ",
                           train_text(config_.model),
                           ", and there are moments only of what was trained; take the same, or "
                           "a new folder and --init with its weights (tools/checkpoint export)"));
  }
  if (!same_model(index.model, config_.model)) {
    throw UserError(concat(path, ": is of another model (", flags_text(index.model),
                           ") than this run's (", flags_text(config_.model), ")"));
  }
  if (const std::string why = other_state(index.optimizer(), config_.optimizer); !why.empty()) {
    throw UserError(concat(path, ": ", why, ", which keeps other moments; take the same, or a new ",
                           "folder and --init with its weights (tools/checkpoint export)"));
  }
  if (resumed_step_ > last && last > 0) {
    throw UserError(concat(path, ": is beyond --steps ", last, "; take --steps ", resumed_step_,
                           " or more, or another folder"));
  }
  notes_ = concat("  resumed  after step ", resumed_step_, " from ", one_line(path),
                  ", written by ", one_line(index.lesson), " (", layout_text(index.layout), ")\n");
  if (resumed_step_ >= last) notes_ += "  resumed  nothing is left to train\n";
  note_changed_settings(index);
  if (layout_text(index.layout) != layout_text(grid_)) {
    note_changed("layout", layout_text(grid_), layout_text(index.layout),
                 ": sums are rounded in another order from here");
  }
  if (!config_.init.empty())
    notes_ += "  resumed  --init is ignored: the weights come from the checkpoint\n";
}

void Checkpoints::note_changed(const std::string& what, const std::string& now,
                               const std::string& then, const char* because) {
  notes_ +=
      concat("  changed  ", one_line(what), " ", now, ", was ", one_line(then), because, "\n");
}

void Checkpoints::note_changed_settings(const CheckpointIndex& index) {
  const auto value_in = [](const auto& settings, const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  std::map<std::string, std::string> either = settings_;
  either.insert(index.settings.begin(), index.settings.end());
  for (const auto& [name, value] : either) {
    const auto now = value_in(settings_, name), then = value_in(index.settings, name);
    if (now == then || (!now && !name.starts_with("--"))) continue;  // only flags have defaults
    if (config_.optimizer.num_steps == 0 && name.ends_with("-steps")) continue;  // trains nothing
    const auto flag = config_.flags.find(name);
    const bool is_known = flag != config_.flags.end();
    // An index of an older version has fewer settings. What has its default is not worth a line.
    if (!then && (!is_known || flag->second.is_default)) continue;
    const std::string other = is_known ? flag->second.value : "(no flag of " + lesson_ + ")";
    note_changed(name, now.value_or(other), then.value_or("not given"),
                 name == "--steps" ? ": another learning rate from here" : "");
  }
}

void Checkpoints::restore(Trainer& trainer) {
  named_by("--checkpoint", [&] { trainer.restore(*resumed_); });
  size_t bytes_read = 0;
  for (uint64_t bytes : job_.all_gather({resumed_->bytes_read()})) bytes_read += bytes;
  if (grid_.rank == 0) {
    print(concat("  resumed  all ranks together have read ", with_commas(bytes_read), " bytes\n"));
  }
  const auto& stored = resumed_->index().scalars;
  for (const Scalar& scalar : trainer.scalars()) {
    const auto found = stored.find(scalar.name);
    if (found == stored.end()) continue;  // of another lesson: it keeps its first value
    std::visit(
        [&](auto* number) {
          using Number = std::remove_pointer_t<decltype(number)>;
          const auto* const then = std::get_if<Number>(&found->second);
          const auto value = then == nullptr ? NAN : static_cast<double>(*then);
          if (!(value >= scalar.least && value <= scalar.most)) {
            throw UserError(concat("--checkpoint ", resumed_->path(), ": scalar ", scalar.name,
                                   " has another type, or a value that it cannot have"));
          }
          *number = *then;
        },
        scalar.value);
  }
  resumed_.reset();
}

void Checkpoints::prepare(Memory& host_memory, Stream& stream, Trainer& trainer) {
  if (config_.checkpoint.path.empty()) return;
  if (folder_ && resumed_step_ == 0) {
    named_by("--checkpoint", [&] { folder_->note_begun(curves_of(config_)); });
  }
  stream_ = &stream;
  buffer_ = checkpoint_buffer(host_memory, config_, trainer.stored());
  // The system finds the pages when they are first written: better now than in the first copy.
  if (!buffer_.view().empty()) std::memset(buffer_.view().data(), 0, buffer_.view().num_bytes());
}

void Checkpoints::barrier() {
  Communicator& ranks = job_.communicator();
  ranks.count_as_control(true);
  ranks.barrier();
  ranks.count_as_control(false);
}

void Checkpoints::after_step(int64_t step, Trainer& trainer, bool is_due) {
  const CheckpointConfig& checkpoint = config_.checkpoint;
  if (checkpoint.path.empty()) return;
  named_by("--checkpoint", [&] {
    if (writer_.joinable() && !writing_ && error_) std::rethrow_exception(error_);
    is_due |= checkpoint.every > 0 && step % checkpoint.every == 0;
    if (is_due || step == config_.optimizer.num_steps) save(step, trainer);
  });
}

void Checkpoints::save(int64_t step, Trainer& trainer) {
  finish();  // the one before
  if (folder_) folder_->begin(step);
  barrier();  // the folder is there
  CheckpointIndex index;
  index.lesson = lesson_;
  index.model = config_.model;
  index.layout = grid_;
  index.dtype = config_.dtype;
  index.settings = settings_;
  index.settings["run"] = run_;
  for (const Scalar& scalar : trainer.scalars()) {
    std::visit([&](const auto* number) { index.scalars[scalar.name] = *number; }, scalar.value);
  }
  std::vector<NamedSlice> slices = trainer.stored();
  if (!config_.checkpoint.async) {
    write(index, slices, [&](const NamedSlice& part) -> ConstTensorView {
      const ConstTensorView elements = part.slice.view;
      if (elements.device() == DeviceType::cpu) return elements;
      const TensorView host(buffer_.view().data(), elements.dtype(), DeviceType::cpu,
                            elements.shape());
      copy(*stream_, host, elements);
      stream_->synchronize();
      return host;
    });
    barrier();  // all files are there
    all_ranks_done_ = true;
    return publish(index);
  }
  char* end = static_cast<char*>(buffer_.view().data());
  for (auto& [name, slice] : slices) {
    const TensorView host(end, slice.view.dtype(), DeviceType::cpu, slice.view.shape());
    copy(*stream_, host, slice.view);
    slice.view = host;
    end += host.num_bytes();
  }
  stream_->synchronize();
  writing_ = true;
  all_ranks_done_ = false;
  writer_ = std::thread([this, index, slices = std::move(slices)] {
    // The threads of a kernel wait for the slowest of them, so writing must not take its core. With
    // the least priority we take what is free. (On Linux each thread has a priority of its own.)
    constexpr int kLeast = 19;
    setpriority(PRIO_PROCESS, 0, kLeast);
    try {
      write(index, slices, [](const NamedSlice& part) { return part.slice.view; });
      publish(index);
    } catch (...) {
      error_ = std::current_exception();
    }
    writing_ = false;
  });
}

void Checkpoints::write(const CheckpointIndex& index, const std::vector<NamedSlice>& slices,
                        const ToHost& to_host) {
  write_rank_files(checkpoint_path(unfinished_, index.step()), grid_.rank, slices, to_host);
}

void Checkpoints::publish(const CheckpointIndex& index) {
  if (!folder_) return;
  const std::string partial = checkpoint_path(unfinished_, index.step());
  std::optional<Time> done;
  while (!has_all_rank_files(partial, grid_.world_size())) {
    if (stopped_) return;
    if (all_ranks_done_ && !done) done = Clock::now();
    if (done && seconds_since(*done) > kLateSeconds) {
      throw FileError(concat(partial, ": the files of some ranks are missing; the folder must be ",
                             "on a file system that all machines of the run share"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  write_index(partial, index);
  folder_->publish(index.step());
  if (config_.checkpoint.keep == 0) return;
  for (const std::string& path : folder_->remove_all_but(config_.checkpoint.keep)) {
    print(concat("\n  --keep ", config_.checkpoint.keep, ": stays: ", one_line(path), "\n"));
  }
}

void Checkpoints::finish() {
  if (!writer_.joinable()) return;
  if (!folder_) writer_.join();
  barrier();  // all files are there
  all_ranks_done_ = true;
  if (writer_.joinable()) writer_.join();
  if (error_) named_by("--checkpoint", [&] { std::rethrow_exception(error_); });
}

}  // namespace ladder
