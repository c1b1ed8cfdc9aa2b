#include "lessons/16_pipeline_schedules/chunks.h"

#include <algorithm>

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

Activations make_activations(const TrainerContext& context, const Layout& layout, Memory& memory) {
  const RunConfig& config = context.config;
  return Activations(memory, layout, config.dtype, config.micro_batch_size,
                     config.model.sequence_length);
}

// Returns the bytes that a slot needs.
size_t slot_bytes(const TrainerContext& context, const ChunkLayouts& layouts) {
  size_t most = 0;
  for (const Layout& layout : layouts.chunks) {
    Pieces pieces;
    Memory counting(context.device_memory.device(), "slot", 0, pieces);
    make_activations(context, layout, counting);
    most = std::max(most, pieces.used());
  }
  return most;
}

}  // namespace

struct ChunkRunner::Slot {
  Slot(const TrainerContext& context, const ChunkLayouts& layouts)
      : bytes(context.device_memory, Category::activations, DType::fp32,
              {slot_bytes(context, layouts) / sizeof(float)}),
        pieces(bytes),
        memory(context.device_memory.device(), "slot", 0, pieces),
        batch(context, {}) {
    for (const Layout& layout : layouts.chunks) {
      pieces.begin_again();  // chunks use the slot in turn
      activations.push_back(make_activations(context, layout, memory));
    }
  }

  Tensor bytes;
  Pieces pieces;
  Memory memory;
  BatchLoader batch;
  std::vector<Activations> activations;  // by chunk
};

ChunkRunner::ChunkRunner(const TrainerContext& context, const ChunkLayouts& layouts,
                         ModelState& state, size_t num_slots, bool sends_to_later,
                         bool sends_to_earlier)
    : stream_(context.stream),
      layouts_(layouts),
      state_(state),
      workspace_(context.device_memory, layouts.stage, context.config.dtype,
                 context.config.micro_batch_size, context.config.model.sequence_length),
      losses_(context, context.config.num_micro_batches(1),
              context.config.micro_batch_size * context.config.model.sequence_length) {
  for (const Layout& layout : layouts.chunks) {
    models_.emplace_back(layout, ConstTensorView(), TensorView());
    std::vector<size_t>& units = units_.emplace_back();
    for (const Unit& unit : layout.units()) {
      const auto found = std::ranges::find(layouts.stage.units(), unit.name, &Unit::name);
      units.push_back(static_cast<size_t>(found - layouts.stage.units().begin()));
    }
  }
  for (size_t i = 0; i < num_slots; ++i) {
    slots_.push_back(std::make_unique<Slot>(context, layouts));
  }
  const bool sends[] = {sends_to_earlier, sends_to_later};
  for (size_t i = 0; i < 2; ++i) {
    if (!sends[i]) continue;
    outgoing_[i] = Tensor(context.device_memory, Category::workspace, d_residual().dtype(),
                          d_residual().shape());
  }
}

ChunkRunner::~ChunkRunner() = default;

const Activations& ChunkRunner::activations(size_t chunk, size_t slot) const {
  return slots_[slot]->activations[chunk];
}

bool ChunkRunner::needs_tokens(size_t chunk) const {
  return has_classifier(chunk) || layouts_.chunks[chunk].has(OperationKind::token_embedding);
}

bool ChunkRunner::has_classifier(size_t chunk) const {
  return layouts_.chunks[chunk].has(OperationKind::classifier);
}

Hooks ChunkRunner::hooks_of(size_t chunk) const {
  const auto unit = [this, chunk](const Use& use) { return units_[chunk][use.unit]; };
  Hooks hooks;
  hooks.weights = [this, unit](const Use& use) {
    return unit_of(layouts_.stage, unit(use), ConstTensorView(state_.parameters));
  };
  hooks.gradient = [this, unit](const Use& use) {
    return unit_of(layouts_.stage, unit(use), state_.gradients.view());
  };
  return hooks;
}

void ChunkRunner::load(Split split, int64_t step, size_t first_sequence, size_t slot) {
  slots_[slot]->batch.load(split, step, first_sequence);
}

void ChunkRunner::forward(size_t chunk, size_t slot) {
  models_[chunk].forward(stream_, activations(chunk, slot), workspace_,
                         {slots_[slot]->batch.tokens()}, hooks_of(chunk));
}

void ChunkRunner::classify(size_t chunk, size_t slot, double token_weight) {
  models_[chunk].classify(stream_, activations(chunk, slot), workspace_,
                          slots_[slot]->batch.targets(), token_weight, hooks_of(chunk));
  losses_.add(workspace_.losses(activations(chunk, slot)));
}

void ChunkRunner::backward(size_t chunk, size_t slot, BackwardHalf half) {
  models_[chunk].backward(stream_, activations(chunk, slot), workspace_,
                          {slots_[slot]->batch.tokens()}, hooks_of(chunk), half);
}

void ChunkRunner::evaluate(size_t chunk, size_t slot) {
  models_[chunk].evaluate(stream_, activations(chunk, slot), workspace_,
                          slots_[slot]->batch.targets(), hooks_of(chunk));
  losses_.add(workspace_.losses(activations(chunk, slot)));
}

}  // namespace ladder
