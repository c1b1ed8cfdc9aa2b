#include "common/train/trainer/model_runner.h"

#include <algorithm>

#include "common/data/batch.h"
#include "common/model/offload.h"
#include "common/train/trainer/attention.h"
#include "common/train/trainer/ranks.h"

namespace ladder {
namespace {

constexpr size_t kAlignment = 64;

// A bump allocator: it gives out memory from its beginning on. Without memory it only counts.
class BumpSource final : public MemorySource {
 public:
  explicit BumpSource(TensorView memory = {}) : memory_(memory) {}
  void* allocate(size_t bytes) override {
    const size_t begin = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (memory_.empty()) return no_memory().allocate(bytes);
    check(used_ <= memory_.num_bytes(), "an activation buffer is too small");
    return static_cast<char*>(memory_.data()) + begin;
  }
  void release(void* pointer, size_t bytes) noexcept override {
    if (memory_.empty()) no_memory().release(pointer, bytes);
  }
  void begin_again() { used_ = 0; }
  size_t used() const { return used_; }

 private:
  TensorView memory_;
  size_t used_ = 0;
};

// What each model chunk has in memory that the chunks use in turn. It is as large as the chunk that
// needs most wants it. A single chunk takes what it needs from the device.
template <class T>
class InTurn {
 public:
  // `make(memory, chunk)` makes the chunk's T.
  template <class Make>
  InTurn(Memory& device, Category category, size_t num_chunks, Make make) {
    objects_.reserve(num_chunks);
    const size_t bytes = num_chunks == 1 ? 0 : most_bytes(device.device(), num_chunks, make);
    if (bytes > 0) shared_ = std::make_unique<Shared>(device, category, bytes);
    for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
      if (shared_) shared_->source.begin_again();
      objects_.push_back(make(shared_ ? shared_->memory : device, chunk));
    }
  }
  const T& operator[](size_t chunk) const { return objects_[chunk]; }

 private:
  struct Shared {
    Shared(Memory& device, Category category, size_t size)
        : bytes(device, category, DType::fp32, {size / sizeof(float)}),
          source(bytes),
          memory(device.device(), "activation buffer", 0, source) {}
    Tensor bytes;
    BumpSource source;
    Memory memory;
  };

  template <class Make>
  static size_t most_bytes(DeviceType device, size_t num_chunks, Make make) {
    size_t most = 0;
    for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
      BumpSource source;
      Memory counting(device, "activation buffer", 0, source);
      make(counting, chunk);
      most = std::max(most, source.used());
    }
    return most;
  }

  std::unique_ptr<Shared> shared_;
  std::vector<T> objects_;  // by chunk
};

std::span<const Layout> chunks_of(const Layout& layout, const ModelRunner::Options& options) {
  return options.chunks.empty() ? std::span(&layout, 1) : options.chunks;
}

// Returns the most tokens of each sequence that a rank has.
size_t most_tokens(const TrainerContext& context, const ModelRunner::Options& options) {
  return options.part.capacity(context.config.model.sequence_length);
}

// Returns how many micro-batches this rank runs in a step.
size_t num_micro_batches(const TrainerContext& context) {
  const size_t data_size = context.ranks == nullptr ? 1 : context.ranks->grid.data_size;
  return context.config.num_micro_batches(data_size);
}

}  // namespace

struct ModelRunner::Dropped {
  Dropped(const TrainerContext& context, std::span<const Layout> chunks, const Options& options)
      : of(context.device_memory, Category::workspace, chunks.size(),
           [&](Memory& memory, size_t chunk) {
             const RunConfig& config = context.config;
             const size_t blocks = chunks[chunk].count(OperationKind::block);
             const RecomputePlan plan =
                 plan_recompute(config.recompute, blocks, options.num_buffers);
             return SharedActivations(memory, chunks[chunk], config.dtype,
                                      config.micro_batch_size * most_tokens(context, options), plan,
                                      config.offload_activations
                                          ? OffloadPlan(plan, blocks, options.num_buffers)
                                          : OffloadPlan());
           }) {}

  InTurn<SharedActivations> of;  // chunks
};

struct ModelRunner::Buffer {
  Buffer(const TrainerContext& context, std::span<const Layout> chunks, const Options& options,
         const Dropped& dropped)
      : batch(context, options.part),
        activations(context.device_memory, Category::activations, chunks.size(),
                    [&](Memory& memory, size_t chunk) {
                      const RunConfig& config = context.config;
                      Activations made(memory, chunks[chunk], config.dtype, config.micro_batch_size,
                                       most_tokens(context, options), &dropped.of[chunk]);
                      made.resize(config.micro_batch_size,
                                  options.part.num_tokens(config.model.sequence_length));
                      return made;
                    }) {}

  BatchLoader batch;
  InTurn<Activations> activations;  // by chunk
};

ModelRunner::ModelRunner(const TrainerContext& context, const Layout& layout,
                         ConstTensorView parameters, TensorView gradients, const Options& options)
    : context_(context),
      stream_(context.stream),
      micro_batch_size_(context.config.micro_batch_size),
      layout_(layout),
      chunks_(chunks_of(layout, options)),
      mixture_(options.mixture),
      parameters_(parameters),
      gradients_(gradients),
      workspace_(context.device_memory, layout, context.config.dtype, micro_batch_size_,
                 most_tokens(context, options), options.summed, context.config.round_logits),
      dropped_(std::make_unique<Dropped>(context, chunks_, options)),
      losses_(context, num_micro_batches(context),
              micro_batch_size_ * most_tokens(context, options)) {
  const ContextParallel attention = attention_of(context, layout, options.part, options.context);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    models_.emplace_back(chunks_[chunk], parameters, gradients, options.tensor,
                         dropped_->of[chunk].plan(), attention, options.mixture);
    std::vector<size_t>& units = units_.emplace_back();
    for (const Unit& unit : chunks_[chunk].units()) {
      const auto found = std::ranges::find(layout.units(), unit.name, &Unit::name);
      units.push_back(static_cast<size_t>(found - layout.units().begin()));
    }
  }
  if (context.config.offload_activations) {
    offload_ = std::make_unique<ActivationOffload>(
        context.host_memory, chunks_[0], context.config.dtype,
        micro_batch_size_ * most_tokens(context, options), dropped_->of[0], context.stream.device(),
        options.num_buffers);
  }
  for (size_t i = 0; i < options.num_buffers; ++i) {
    buffers_.push_back(std::make_unique<Buffer>(context, chunks_, options, *dropped_));
  }
}

ModelRunner::~ModelRunner() = default;

const Activations& ModelRunner::activations(size_t buffer, size_t chunk) const {
  return buffers_[buffer]->activations[chunk];
}

bool ModelRunner::needs_tokens(size_t chunk) const {
  const Layout& layout = chunks_[chunk];
  // Rotary blocks read the positions of a slice of the tokens; those of all tokens they know.
  const bool reads_positions = layout.config().positions == Positions::rotary &&
                               layout.has(OperationKind::block) &&
                               !buffers_.front()->batch.positions().empty();
  return layout.operations()[0].kind < OperationKind::block || has_classifier(chunk) ||
         reads_positions;
}

Hooks ModelRunner::of_chunk(const Hooks& hooks, size_t chunk) const {
  if (chunks_.size() == 1) return hooks;
  const auto of_stage = [this, chunk](Use use) {
    use.unit = units_[chunk][use.unit];
    return use;
  };
  const auto call = [of_stage](const std::function<void(const Use&)>& hook) {
    if (!hook) return hook;
    return std::function([=](const Use& use) { hook(of_stage(use)); });
  };
  return {.begin = call(hooks.begin),
          .weights =
              [=, this, given = hooks.weights](const Use& use) {
                const Use at = of_stage(use);
                return given ? given(at) : unit_of(layout_, at.unit, parameters_);
              },
          .gradient =
              [=, this, given = hooks.gradient](const Use& use) {
                const Use at = of_stage(use);
                return given ? given(at) : unit_of(layout_.trained(), at.unit, gradients_);
              },
          .done = call(hooks.done)};
}

Hooks ModelRunner::with_offload(const Hooks& hooks, size_t buffer, size_t chunk) {
  const Hooks own = of_chunk(hooks, chunk);
  return offload_ ? offload_->added_to(own, stream_, activations(buffer, chunk), buffer) : own;
}

void ModelRunner::load(Split split, int64_t step, size_t first_sequence, size_t buffer) {
  buffers_[buffer]->batch.load(split, step, first_sequence);
  if (mixture_ == nullptr || Simulation::current() != nullptr) return;
  mixture_->set_lengths(unpadded_lengths(context_.corpus, split, context_.config.seed,
                                         static_cast<uint64_t>(step), first_sequence,
                                         micro_batch_size_));
}

void ModelRunner::forward(const Hooks& hooks, size_t buffer, size_t chunk) {
  const BatchLoader& batch = buffers_[buffer]->batch;
  models_[chunk].forward(stream_, activations(buffer, chunk), workspace_,
                         {batch.tokens(), batch.positions()}, with_offload(hooks, buffer, chunk));
}

double ModelRunner::counted_tokens(Split split, int64_t step, size_t num_batches) const {
  const RunConfig& config = context_.config;
  const size_t all = num_batches * config.tokens_per_step();
  // Which tokens count changes nothing in a simulation, which has no values.
  if (Simulation::current() != nullptr) return static_cast<double>(all);
  size_t count = 0;
  for (size_t batch = 0; batch < num_batches; ++batch) {
    count +=
        counted_targets(context_.corpus, split, config.seed, static_cast<uint64_t>(step) + batch,
                        config.global_batch_size, config.model.sequence_length, config.masking());
  }
  if (context_.counted != nullptr) context_.counted->none = count == 0;
  if (context_.counted != nullptr && split == Split::train) {
    context_.counted->all += all;
    context_.counted->divided_by += count;
  }
  return static_cast<double>(std::max<size_t>(count, 1));
}

void ModelRunner::classify(double token_weight, const Hooks& hooks, size_t buffer, size_t chunk) {
  models_[chunk].classify(stream_, activations(buffer, chunk), workspace_,
                          buffers_[buffer]->batch.targets(), token_weight, of_chunk(hooks, chunk));
  losses_.add(workspace_.losses(activations(buffer, chunk)));
  if (context_.counted == nullptr) return;
  context_.counted->classified += buffers_[buffer]->batch.num_counted();
}

void ModelRunner::backward(const Hooks& hooks, size_t buffer, size_t chunk, BackwardHalf half) {
  const BatchLoader& batch = buffers_[buffer]->batch;
  models_[chunk].backward(stream_, activations(buffer, chunk), workspace_,
                          {batch.tokens(), batch.positions()}, with_offload(hooks, buffer, chunk),
                          half);
}

void ModelRunner::evaluate(const Hooks& hooks, size_t buffer, size_t chunk) {
  const bool has_head = context_.counted != nullptr && !context_.config.model.labels.empty();
  models_[chunk].evaluate(stream_, activations(buffer, chunk), workspace_,
                          buffers_[buffer]->batch.targets(), of_chunk(hooks, chunk),
                          has_head ? &context_.counted->hits : nullptr);
  losses_.add(workspace_.losses(activations(buffer, chunk)));
}

void ModelRunner::evaluate_sequences(size_t batch, size_t first, size_t end,
                                     const std::function<Hooks()>& hooks) {
  for (size_t sequence = first; sequence < end; sequence += micro_batch_size_) {
    const Hooks units = hooks();
    load(Split::validation, static_cast<int64_t>(batch), sequence);
    forward(units);
    evaluate(units);
  }
}

}  // namespace ladder
