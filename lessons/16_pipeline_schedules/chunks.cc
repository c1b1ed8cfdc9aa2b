#include "lessons/16_pipeline_schedules/chunks.h"

#include <algorithm>

#include "common/model/offload.h"
#include "common/train/ranks.h"

namespace ladder {
namespace {

constexpr size_t kAlignment = 64;

// Gives out pieces of one piece of memory, one after the other. Without such memory it only counts.
class Pieces final : public MemorySource {
 public:
  explicit Pieces(TensorView memory = {}) : memory_(memory) {}
  void* allocate(size_t bytes) override {
    const size_t begin = used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (memory_.empty()) return no_memory().allocate(bytes);
    check(used_ <= memory_.num_bytes(), "a slot is too small");
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

// What each chunk has in memory that the chunks use in turn. It is as large as the chunk that needs
// most wants it. A single chunk takes what it needs from the device.
template <class T>
class InTurn {
 public:
  // `make(memory, chunk)` makes the chunk's T.
  template <class Make>
  InTurn(Memory& device, Category category, size_t num_chunks, Make make) {
    objects_.reserve(num_chunks);
    const size_t bytes = num_chunks == 1 ? 0 : most_bytes(device.device(), num_chunks, make);
    if (bytes > 0) room_ = std::make_unique<Room>(device, category, bytes);
    for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
      if (room_) room_->pieces.begin_again();
      objects_.push_back(make(room_ ? room_->memory : device, chunk));
    }
  }
  T& operator[](size_t chunk) { return objects_[chunk]; }

 private:
  struct Room {
    Room(Memory& device, Category category, size_t size)
        : bytes(device, category, DType::fp32, {size / sizeof(float)}),
          pieces(bytes),
          memory(device.device(), "slot", 0, pieces) {}
    Tensor bytes;
    Pieces pieces;
    Memory memory;
  };

  template <class Make>
  static size_t most_bytes(DeviceType device, size_t num_chunks, Make make) {
    size_t most = 0;
    for (size_t chunk = 0; chunk < num_chunks; ++chunk) {
      Pieces pieces;
      Memory counting(device, "slot", 0, pieces);
      make(counting, chunk);
      most = std::max(most, pieces.used());
    }
    return most;
  }

  std::unique_ptr<Room> room_;
  std::vector<T> objects_;  // by chunk
};

size_t rows_of(const TrainerContext& context, const SequencePart& part) {
  return context.config.micro_batch_size * part.capacity(context.config.model.sequence_length);
}

}  // namespace

struct ChunkRunner::Dropped {
  Dropped(const TrainerContext& context, const ChunkLayouts& layouts,
          const ModelRunner::Options& options)
      : of(context.device_memory, Category::workspace, layouts.chunks.size(),
           [&](Memory& memory, size_t chunk) {
             const RunConfig& config = context.config;
             const Layout& layout = layouts.chunks[chunk];
             const size_t blocks = layout.count(OperationKind::block);
             const RecomputePlan plan = plan_recompute(config.recompute, blocks, options.num_slots);
             return SharedActivations(
                 memory, layout, config.dtype, rows_of(context, options.part), plan,
                 config.offload_activations ? OffloadPlan(plan, blocks, options.num_slots)
                                            : OffloadPlan());
           }) {}

  InTurn<SharedActivations> of;  // chunks
};

struct ChunkRunner::Slot {
  Slot(const TrainerContext& context, const ChunkLayouts& layouts, const SequencePart& part,
       Dropped& dropped)
      : activations(context.device_memory, Category::activations, layouts.chunks.size(),
                    [&](Memory& memory, size_t chunk) {
                      const RunConfig& config = context.config;
                      const size_t tokens = config.model.sequence_length;
                      Activations made(memory, layouts.chunks[chunk], config.dtype,
                                       config.micro_batch_size, part.capacity(tokens),
                                       &dropped.of[chunk]);
                      made.resize(config.micro_batch_size, part.num_tokens(tokens));
                      return made;
                    }),
        batch(context, part) {}

  InTurn<Activations> activations;  // by chunk
  BatchLoader batch;
};

ChunkRunner::ChunkRunner(const TrainerContext& context, const ChunkLayouts& layouts,
                         ModelState& state, const GradientDirections& sends,
                         const ModelRunner::Options& options)
    : stream_(context.stream),
      layouts_(layouts),
      state_(state),
      workspace_(context.device_memory, layouts.stage, context.config.dtype,
                 context.config.micro_batch_size,
                 options.part.capacity(context.config.model.sequence_length), options.summed, {},
                 {}, context.config.round_logits),
      dropped_(std::make_unique<Dropped>(context, layouts, options)),
      losses_(context, context.config.num_micro_batches(context.ranks->grid.data_size),
              rows_of(context, options.part)) {
  for (size_t chunk = 0; chunk < layouts.chunks.size(); ++chunk) {
    const Layout& layout = layouts.chunks[chunk];
    models_.emplace_back(layout, ConstTensorView(), TensorView(), options.tensor,
                         dropped_->of[chunk].plan(), options.context);
    std::vector<size_t>& units = units_.emplace_back();
    for (const Unit& unit : layout.units()) {
      const auto found = std::ranges::find(layouts.stage.units(), unit.name, &Unit::name);
      units.push_back(static_cast<size_t>(found - layouts.stage.units().begin()));
    }
  }
  if (context.config.offload_activations) {
    offload_ = std::make_unique<ActivationOffload>(context.host_memory, layouts.chunks.at(0),
                                                   context.config.dtype,
                                                   rows_of(context, options.part), dropped_->of[0],
                                                   context.stream.device(), options.num_slots);
  }
  for (size_t i = 0; i < options.num_slots; ++i) {
    slots_.push_back(std::make_unique<Slot>(context, layouts, options.part, *dropped_));
  }
  for (const bool to_later : {false, true}) {
    if (!(to_later ? sends.to_later : sends.to_earlier)) continue;
    outgoing_[to_later] = Tensor(context.device_memory, Category::workspace, d_residual().dtype(),
                                 d_residual().shape());
  }
}

ChunkRunner::~ChunkRunner() = default;

const Activations& ChunkRunner::activations(size_t chunk, size_t slot) const {
  return slots_[slot]->activations[chunk];
}

bool ChunkRunner::needs_tokens(size_t chunk) const {
  const OperationKind first = layouts_.chunks[chunk].operations()[0].kind;
  return first < OperationKind::block || has_classifier(chunk);
}

bool ChunkRunner::has_classifier(size_t chunk) const {
  return layouts_.chunks[chunk].has(OperationKind::classifier);
}

Hooks ChunkRunner::hooks_of(size_t chunk) const {
  Hooks hooks;
  hooks.weights = [this, chunk](const Use& use) {
    return unit_of(layouts_.stage, units_[chunk][use.unit], ConstTensorView(state_.parameters));
  };
  hooks.gradient = [this, chunk](const Use& use) {
    return unit_of(layouts_.stage, units_[chunk][use.unit], state_.gradients.view());
  };
  return hooks;
}

Hooks ChunkRunner::hooks_with_copies(Hooks hooks, size_t chunk, size_t slot) {
  return offload_ ? offload_->added_to(hooks, stream_, activations(chunk, slot), slot) : hooks;
}

void ChunkRunner::load(Split split, int64_t step, size_t first_sequence, size_t slot) {
  slots_[slot]->batch.load(split, step, first_sequence);
}

void ChunkRunner::forward(size_t chunk, size_t slot) {
  const BatchLoader& batch = slots_[slot]->batch;
  models_[chunk].forward(stream_, activations(chunk, slot), workspace_,
                         {batch.tokens(), batch.positions()},
                         hooks_with_copies(hooks_of(chunk), chunk, slot));
}

void ChunkRunner::classify(size_t chunk, size_t slot, double token_weight) {
  models_[chunk].classify(stream_, activations(chunk, slot), workspace_,
                          slots_[slot]->batch.targets(), token_weight, hooks_of(chunk));
  losses_.add(workspace_.losses(activations(chunk, slot)));
}

void ChunkRunner::backward(size_t chunk, size_t slot, BackwardHalf half,
                           const std::function<void(size_t unit)>& done) {
  const BatchLoader& batch = slots_[slot]->batch;
  Hooks hooks = hooks_of(chunk);
  if (done) {
    hooks.done = [&](const Use& use) {
      if (use.gradient_is_final) done(units_[chunk][use.unit]);
    };
  }
  models_[chunk].backward(stream_, activations(chunk, slot), workspace_,
                          {batch.tokens(), batch.positions()},
                          hooks_with_copies(hooks, chunk, slot), half);
}

void ChunkRunner::evaluate(size_t chunk, size_t slot) {
  models_[chunk].evaluate(stream_, activations(chunk, slot), workspace_,
                          slots_[slot]->batch.targets(), hooks_of(chunk));
  losses_.add(workspace_.losses(activations(chunk, slot)));
}

}  // namespace ladder
