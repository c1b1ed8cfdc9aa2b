#include "common/train/run/training_run.h"

#include <unistd.h>

#include <functional>
#include <optional>
#include <tuple>

#include "common/io/path.h"
#include "common/io/printable.h"
#include "common/io/standard_streams.h"
#include "common/io/terminal.h"
#include "common/train/flags/alike.h"
#include "common/train/flags/inputs.h"
#include "common/train/flags/named_files.h"
#include "common/train/flags/sampling_flags.h"
#include "common/train/program/sample.h"
#include "common/train/report/counts.h"
#include "common/train/report/progress.h"
#include "common/train/report/report.h"
#include "common/train/report/trace.h"
#include "common/train/run/checkpoints.h"
#include "common/train/run/evaluation.h"
#include "common/train/run/interruptions.h"
#include "common/train/run/outputs.h"
#include "common/train/trainer/full_tensors.h"
#include "common/train/trainer/guarded.h"
#include "common/train/trainer/ranks.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/threads.h"

namespace ladder {

struct TrainingRun::State {
  State(const Program& program_, RunConfig config_, const ProcessGrid& grid_, Job& job_,
        const Prediction& prediction_)
      : program(program_),
        config(std::move(config_)),
        prediction(prediction_),
        grid(grid_),
        job(job_),
        interruptions(config.checkpoint, job),
        corpus(open_corpus(config)),
        device_memory(config.device, "device", config.device_memory),
        host_memory(DeviceType::cpu, "host", config.host_memory, host_memory_for(config.device)),
        stream(config.device),
        staging_elements(job.size() > 1 && config.device == DeviceType::cpu && !job.shares_memory()
                             ? GridGroups::staging_elements(grid)
                             : 0),
        // Under mpirun every rank has a terminal, so that alone says nothing.
        on_terminal(!Job::is_launched() && replaces_lines(STDOUT_FILENO)) {
    prediction.device[Category::communication] += staging_elements * size_of(config.accumulation());
  }

  void say(const std::string& text) {
    if (grid.rank == 0) print(progress->end() + text);
  }
  // Ends a line of progress, so that an error does not go on in it.
  void end_line() {
    const std::string text = progress->end();
    if (grid.rank == 0) std::ignore = ::write(STDOUT_FILENO, text.data(), text.size());
  }
  void print_progress(const MetricsFile::Step& line);
  void dump(int64_t step, const StepResult& result, Trainer& trainer);
  void write_trace();
  void write(const MetricsFile::Step& line);
  void visit(Trainer& trainer, std::string_view kind, const TensorSink& sink) {
    full_tensors->visit(config.optimizer, kind, trainer.slices(kind), stream, sink);
  }
  void export_model(Trainer& trainer);
  void sample(int64_t step, Trainer& trainer);
  // Returns the ms waited for communication, or 0 if nothing shows them. On a device, asking waits.
  double exposed_so_far() const {
    return files && files->board ? exposed_ms(job.communicator().ledger().entries()) : 0;
  }

  const Program& program;
  RunConfig config;
  Prediction prediction;
  ProcessGrid grid;
  Job& job;
  Interruptions interruptions;
  Corpus corpus;
  Memory device_memory, host_memory;
  Stream stream;
  size_t staging_elements;  // of the areas for sums of messages, of all axes
  Tensor staging;
  Vocabulary vocabulary;                // on rank 0
  std::vector<int32_t> prompt;          // on rank 0
  std::optional<OutputFiles> files;     // on rank 0
  std::unique_ptr<Communicator> apart;  // all ranks: no trainer's traffic is counted there
  std::optional<Trace> trace;
  std::optional<GridGroups> groups;
  std::optional<RankContext> ranks;
  std::optional<FullTensors> full_tensors;
  std::optional<Checkpoints> checkpoints;
  std::optional<Progress> progress;
  CountedTokens counted;  // of runs in which not every token counts
  bool on_terminal;
  Time begin;
};

TrainingRun::TrainingRun(const Program& program, RunConfig config, const ProcessGrid& grid,
                         Job& job, const Prediction& prediction) {
  const bool is_apart = !config.trace.empty() || !config.dump.empty();
  if (config.device_memory == 0) {
    const size_t num_groups = program.arrange ? prediction.num_groups : 0;
    config.device_memory = job.free_device_memory(num_groups + is_apart);
  }
  state_ = std::make_unique<State>(program, std::move(config), grid, job, prediction);
  State& s = *state_;
  set_num_threads(s.config.threads);
  // Only rank 0 checks every value: the files of the other ranks have the same contents.
  if (!s.config.init.empty()) check_weights(s.config, grid.rank == 0);
  require_same_inputs(job, s.config, s.corpus);
  if (grid.rank == 0) s.vocabulary = open_vocabulary(s.config, s.corpus);
  s.checkpoints.emplace(s.config, s.grid, job, program.lesson, s.corpus, s.vocabulary);
  s.progress.emplace(s.config, s.checkpoints->resumed_step());
  if (is_apart) s.apart = job.communicator().split(0);
  if (!s.config.trace.empty()) {
    s.apart->barrier();  // so that all ranks' times begin together
    s.trace.emplace();
    s.trace->observe(job.communicator());
    s.trace->observe(s.stream);
  }
  const NeededMemory memory =
      largest_memory(s.prediction, [&](const auto& own) { return job.all_gather(own); });
  if (grid.rank != 0) return;
  s.prompt = prompt_tokens(s.config, s.vocabulary.is_text);
  check_distinct(s.config, s.corpus);
  s.files.emplace(s.config, s.checkpoints->resumed_step(), s.checkpoints->begun(),
                  s.checkpoints->run());
  const std::string header =
      header_text(program.lesson, s.config, s.grid, s.corpus, memory, job.communication()) +
      s.checkpoints->notes() + program.header(s.config, s.grid);
  if (s.files->board) s.files->board->describe(printable(header + "\n" + flags_text(s.config)));
  print(header);
}

TrainingRun::~TrainingRun() { state_->job.communicator().use_staging({}); }

TrainerContext TrainingRun::context() {
  State& s = *state_;
  if (s.staging_elements > 0) {
    s.staging = Tensor(s.device_memory, Category::communication, s.config.accumulation(),
                       {s.staging_elements});
    s.job.communicator().use_staging(s.staging);
  }
  if (s.program.arrange) s.groups.emplace(s.job.communicator(), s.grid);
  s.ranks.emplace(RankContext{s.grid, s.job.communicator(), s.groups ? &*s.groups : nullptr,
                              s.job.registered()});
  s.full_tensors.emplace(s.host_memory, describe(s.config.model), s.config.accumulation(),
                         s.job.communicator());
  return {.config = s.config,
          .corpus = s.corpus,
          .device_memory = s.device_memory,
          .host_memory = s.host_memory,
          .stream = s.stream,
          .ranks = &*s.ranks,
          .counted = every_target_counts(s.corpus, s.config.masking()) ? nullptr : &s.counted};
}

void TrainingRun::State::print_progress(const MetricsFile::Step& line) {
  const std::string text =
      progress->after_step(line.step, line.result, line.step_ms, seconds_since(begin),
                           on_terminal ? terminal_width(STDOUT_FILENO) : 0);
  if (grid.rank == 0 && !text.empty()) print(text);
}

void TrainingRun::State::write(const MetricsFile::Step& line) {
  if (!files) return;
  if (files->metrics) {
    files->metrics->write(line, device_memory, job.communicator().ledger().entries());
  }
  if (files->board) files->board->write(line, device_memory);
}

int TrainingRun::train() {
  // It outlives the handlers: device memory that a collective works on cannot be freed before the
  // collective ends, and its peers may never come.
  std::unique_ptr<Trainer> trainer;
  try {
    make_and_train(trainer);
    return state_->interruptions.status();
  } catch (const UserError&) {
    state_->end_line();
    state_->job.communicator().give_up();
    throw;
  } catch (const std::exception& error) {
    state_->end_line();
    end_ranks(state_->job, error, [this] {
      state_->checkpoints.reset();
      state_->files.reset();
    });
    throw;
  }
}

void TrainingRun::make_and_train(std::unique_ptr<Trainer>& trainer) {
  try {
    trainer = state_->program.make(context());
    state_->job.make_windows();  // of what the trainer has allocated
    Checkpoints& checkpoints = *state_->checkpoints;
    checkpoints.prepare(state_->host_memory, state_->stream, *trainer);
    checkpoints.resumed_step() > 0 ? checkpoints.restore(*trainer) : trainer->initialize();
    on_the_way([&] { train_and_report(*trainer); });
  } catch (const OutOfMemory& error) {
    throw Error(
        concat(error.what(), "\n", out_of_memory_text(error, state_->config, state_->prediction)));
  }
}

void TrainingRun::train_and_report(Trainer& trainer) {
  State& s = *state_;
  const RunConfig& config = s.config;
  const int64_t num_steps = config.optimizer.num_steps;
  s.begin = Clock::now();
  for (int64_t step = s.checkpoints->resumed_step() + 1;
       step <= num_steps && s.interruptions.before_step(step); ++step) {
    const double exposed_before = s.exposed_so_far();
    Event before, after;
    before.record(s.stream);
    StepResult result = trainer.step();
    result.has_loss = !s.counted.none;
    after.record(s.stream);
    after.synchronize();
    MetricsFile::Step line =
        measure(config, s.grid.world_size(), step, result, Event::elapsed_ms(before, after));
    line.exposed_ms = s.exposed_so_far() - exposed_before;
    s.print_progress(line);
    check_not_diverged(step, result);
    if (!config.dump.empty()) s.dump(step, result, trainer);
    if (config.evaluate_every > 0 && (step % config.evaluate_every == 0 || step == num_steps)) {
      evaluate(trainer, config, s.job.communicator(), s.counted, line);
      s.say(validation_text(line));
      if (line.validation_loss) check_not_diverged(step, *line.validation_loss);
      // A board shows how samples get better. The last one comes after the tables.
      const bool draws = !config.tensorboard.empty() && config.sample_tokens > 0;
      if (draws && step < num_steps) s.sample(step, trainer);
    }
    s.write(line);
    s.checkpoints->after_step(step, trainer, s.interruptions.after_step(step));
  }
  s.checkpoints->finish();
  trainer.check_replicas();
  if (s.files && s.files->metrics) s.files->metrics->finish();
  s.job.communicator().ledger();  // spans of operations on a device become known by it
  if (s.trace) s.write_trace();
  if (s.interruptions.status() != 0) {
    if (s.files && s.files->board) s.files->board->finish();
    return s.say(s.interruptions.text());
  }
  if (!config.export_to.empty()) s.export_model(trainer);
  const int64_t trained = std::max<int64_t>(0, num_steps - s.checkpoints->resumed_step());
  const std::string report = counted_text(s.counted, s.grid, s.job) + trainer.report();
  s.say(memory_table(s.prediction, s.device_memory, s.host_memory) +
        communication_table(s.prediction, s.job.communicator().group_entries(), s.grid, trained,
                            config.threads, {s.job.node_size(), s.job.machines_that_sum()}) +
        optimizer_text(config, trainer, trained, s.job) + report);
  if (config.sample_tokens > 0) s.sample(num_steps, trainer);
  if (s.files && s.files->board) s.files->board->finish();
}

void TrainingRun::State::dump(int64_t step, const StepResult& result, Trainer& trainer) {
  write_dump(grid.rank == 0 ? config.dump : "", step, result, describe(config.model),
             config.accumulation(), std::bind_front(&State::visit, this, std::ref(trainer)),
             config.optimizer);
  apart->barrier();  // if a rank finds a fault next, which ends all, the dump is whole
}

void TrainingRun::State::write_trace() {
  const size_t left_out = named_by("--trace", [&] {
    return ladder::write_trace(*trace, files ? &*files->trace : nullptr, *apart);
  });
  if (left_out == 0) return;
  say(concat("\n  --trace ", one_line(config.trace), ": the first ", with_commas(Trace::kMaxSpans),
             " spans of each rank; ", with_commas(left_out), " later ones are left out\n"));
}

void TrainingRun::State::export_model(Trainer& trainer) {
  if (grid.rank != 0) return visit(trainer, kParam, nullptr);
  files->exported->write(vocabulary, [&](const TensorSink& sink) { visit(trainer, kParam, sink); });
  say(concat("\n  --export ", one_line(config.export_to), written_text(config.model, vocabulary),
             "\n"));
}

void TrainingRun::State::sample(int64_t step, Trainer& trainer) {
  if (grid.rank != 0) return visit(trainer, kParam, nullptr);
  Memory memory(DeviceType::cpu, "host", config.host_memory);
  const std::string text = sample_text(
      config, vocabulary, first_token(corpus, vocabulary, config.model.vocab_size), memory,
      [&](const TensorSink& sink) { visit(trainer, kParam, sink); },
      program.make_mixture ? program.make_mixture(config) : nullptr, prompt);
  if (files->board) files->board->write_sample(step, text);
  if (step == config.optimizer.num_steps) say("\nsample:\n" + text + "\n");
}

}  // namespace ladder
