#include "kernels/emulator/execution.h"

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "kernels/emulator/arena.h"
#include "kernels/emulator/observers.h"
#include "kernels/emulator/stacks.h"
#include "kernels/runtime/check.h"

namespace ladder::emulator {
namespace {

// The exception that unwinds the stacks of waiting threads when their thread block is given up.
struct Abandoned {};

// The kernel that this OS thread runs.
thread_local Execution* current = nullptr;

// A fiber that rests between kernels may wake up in another OS thread, with another `current`. The
// compiler must not keep the address from before, so this function is not inlined.
__attribute__((noinline)) Execution& current_execution() { return *current; }

Execution::Pool& the_pool() {
  static auto* const pool = new Execution::Pool;
  return *pool;
}

// Returns where a stack ends. It differs a little from stack to stack, because stacks at the same
// offset within a page would compete for the same lines of the cache.
size_t staggered_bytes(size_t index) { return kStackBytes - index * 9 % 32 * 64; }

bool outer_blocks_only = false;
size_t most_blocks = 0;  // that a launch runs; 0 = all

// Returns the index with number i in a range of `extents`, x first.
uint3 index_of(size_t i, const dim3& extents) {
  const size_t row = i / extents.x;
  return {static_cast<unsigned>(i % extents.x), static_cast<unsigned>(row % extents.y),
          static_cast<unsigned>(row / extents.y)};
}

// While a kernel's own code runs, its accesses are observed.
struct Observed {
  Observed() { is_observed = observers.count > 0; }
  ~Observed() { is_observed = false; }
};

}  // namespace

Execution& running_kernel(const char* function) {
  if (current == nullptr) fail(concat(function, " was called outside of a kernel"));
  return *current;
}

OuterBlocksOnly::OuterBlocksOnly() { outer_blocks_only = true; }
OuterBlocksOnly::~OuterBlocksOnly() { outer_blocks_only = false; }

SampledLaunches::SampledLaunches(size_t most) { most_blocks = most; }
SampledLaunches::~SampledLaunches() { most_blocks = 0; }
bool launches_are_sampled() { return most_blocks != 0; }

std::string_view running_kernel_name() { return current == nullptr ? "" : current->call_.name; }

Execution::Execution(const KernelCall& call)
    : call_(call),
      num_threads_(size_t{call.block.x} * call.block.y * call.block.z),
      pool_(the_pool()),
      threads_(pool_.threads) {}

void Execution::run() {
  current = this;
  const struct Leave {
    ~Leave() {
      tell_observers([](Observer& observer) { observer.launch_ends(); });
      current = nullptr;
    }
  } leave_when_done;
  tell_observers([this](Observer& observer) { observer.launch_begins(call_); });
  coordinates = {{0, 0, 0}, {0, 0, 0}, call_.block, call_.grid};
  run_blocks();
  if (failure_.empty()) return;
  throw Error(concat(
      "kernel ", call_.name, ", block ", text_of(coordinates.block), ": ", failure_,
      shuffle_.is_on() ? concat(" (LADDER_EMULATOR_ORDER=", order_seed(), ")") : std::string()));
}

void Execution::run_blocks() {
  const dim3 grid = call_.grid;
  // The distance from one thread block that runs to the next, and the number of those that run.
  const dim3 step = outer_blocks_only ? dim3(std::max(grid.x - 1, 1u), std::max(grid.y - 1, 1u),
                                             std::max(grid.z - 1, 1u))
                                      : dim3(1, 1, 1);
  const auto count = [](unsigned extent, unsigned apart) { return (extent - 1) / apart + 1; };
  const dim3 counts(count(grid.x, step.x), count(grid.y, step.y), count(grid.z, step.z));
  const size_t num_blocks = size_t{counts.x} * counts.y * counts.z;
  const size_t num_run = most_blocks == 0 ? num_blocks : std::min(most_blocks, num_blocks);
  const size_t apart = std::max<size_t>(num_run - 1, 1);
  const Order order = shuffle_.next(num_run);
  for (size_t i = 0; i < num_run && failure_.empty(); ++i) {
    const uint3 number = index_of(order[i] * (num_blocks - 1) / apart, counts);
    coordinates.block = {number.x * step.x, number.y * step.y, number.z * step.z};
    run_block();
  }
  if (!launches_are_sampled() || !failure_.empty()) return;
  size_t num_more = 0;
  tell_observers(
      [&](Observer& observer) { num_more = std::max(num_more, observer.sample_ends()); });
  for (size_t i = 0; i < std::min(num_more, num_blocks) && failure_.empty(); ++i) {
    coordinates.block = index_of(i, counts);
    run_block();
  }
}

void Execution::run_block() {
  num_started_ = num_returned_ = num_at_block_ = 0;  // and nobody is in waiting_lanes_
  start_order_ = shuffle_.next(num_threads_);
  fill_undefined(dynamic_shared(), call_.shared_bytes);
  tell_observers([](Observer& observer) { observer.block_begins(coordinates.block); });
  leave(main_);  // until nobody can go on
  if (failure_.empty() && num_returned_ < num_threads_) {
    failure_ = describe_standstill({threads_.data(), num_threads_});
  }
  if (failure_.empty()) {
    tell_observers([](Observer& observer) { observer.block_ends(); });
  }
  if (!failure_.empty()) abandon_block();
}

// Unwinds the stacks of all threads that have not returned.
void Execution::abandon_block() {
  abandoning_ = true;
  first_ready_ = nullptr;
  if (stopped_ != nullptr) {
    // Nobody will come back to this stack, so another fiber can begin on it.
    const auto is_stopped = [this](const auto& fiber) { return fiber.get() == stopped_; };
    const auto found = std::ranges::find_if(pool_.fibers, is_stopped);
    *found = new_fiber(static_cast<size_t>(found - pool_.fibers.begin()));
    pool_.idle.push_back(found->get());
  }
  for (size_t i = 0; i < num_started_; ++i) {
    const Thread& thread = threads_[start_order_[i]];
    if (thread.state == ThreadState::returned) continue;
    fiber_ = thread.fiber;
    main_.switch_to(*fiber_);
  }
}

// The body of every fiber, which never returns.
void Execution::work() {
  for (;;) {
    current_execution().run_threads();
    current_execution().rest();
  }
}

void Execution::run_threads() {
  while (first_ready_ == nullptr && num_started_ < num_threads_ && failure_.empty()) {
    run_thread(threads_[start_order_[num_started_++]]);
  }
}

// Leaves the running fiber, on which no thread waits, until it is needed again. That may be in
// another kernel, when this object does not exist any more.
void Execution::rest() {
  pool_.idle.push_back(fiber_);
  leave(*fiber_);
}

void Execution::run_thread(Thread& thread) {
  thread.index = index_of(static_cast<size_t>(&thread - threads_.data()), call_.block);
  thread.state = ThreadState::ready;
  thread.copies.clear();
  set_running(thread);
  try {
    const Observed here;
    call_.run();
  } catch (const Abandoned&) {
  } catch (const std::exception& e) {
    if (!abandoning_) failure_ = concat("thread ", text_of(thread.index), ": ", e.what());
  } catch (...) {
    if (!abandoning_) failure_ = concat("thread ", text_of(thread.index), " threw an exception");
  }
  thread.state = ThreadState::returned;
  ++num_returned_;
}

std::unique_ptr<Fiber> Execution::new_fiber(size_t index) {
  return std::make_unique<Fiber>(stack(index), staggered_bytes(index), &work);
}

void Execution::note_mistake(size_t thread, const std::string& why) {
  if (!failure_.empty()) return;
  failure_ = concat("thread ", text_of(index_of(thread, call_.block)), ": ", why);
}

// Gives up the fiber of the running thread without unwinding its stack.
void Execution::stop_thread(const std::string& why) {
  is_observed = false;
  note_mistake(running_thread, why);
  running_->state = ThreadState::returned;
  ++num_returned_;
  stopped_ = fiber_;
  fiber_ = &main_;
  stopped_->switch_to(main_);
  std::abort();  // nobody switches back
}

// Returns the fiber that goes on: that of a ready thread, else one for a thread that has not
// started, else that of the caller of run().
Fiber& Execution::next_fiber() {
  if (!failure_.empty()) return main_;
  if (first_ready_ != nullptr) {
    Thread& thread = *first_ready_;
    first_ready_ = thread.next;
    return *thread.fiber;
  }
  if (num_started_ == num_threads_) return main_;
  if (pool_.idle.empty()) {
    pool_.fibers.push_back(new_fiber(pool_.fibers.size()));
    return *pool_.fibers.back();
  }
  Fiber& fiber = *pool_.idle.back();
  pool_.idle.pop_back();
  return fiber;
}

void Execution::leave(Fiber& here) {
  Fiber& next = next_fiber();
  if (&next == &here) return;
  fiber_ = &next;
  here.switch_to(next);
}

// Lets others run until the thread is ready again.
void Execution::wait(Thread& self) {
  if (abandoning_) throw Abandoned{};
  self.fiber = fiber_;
  leave(*fiber_);
  if (abandoning_) throw Abandoned{};
  set_running(self);
}

void Execution::set_running(Thread& thread) {
  running_ = &thread;
  running_thread = static_cast<size_t>(&thread - threads_.data());
  coordinates.thread = thread.index;
}

void Execution::make_ready(Thread& thread) {
  thread.state = ThreadState::ready;
  thread.next = nullptr;
  (first_ready_ == nullptr ? first_ready_ : last_ready_->next) = &thread;
  last_ready_ = &thread;
}

// Lets a thread that waited go on. The running one, which came last, does so at once, unless
// threads are shuffled.
void Execution::go_on(Thread& thread) {
  if (&thread != running_ || shuffle_.is_on()) make_ready(thread);
}

void Execution::block_barrier(const std::source_location& where) {
  const Unobserved here(abandoning_);
  Thread& self = *running_;
  if (num_at_block_ > 0) {
    // All waiting threads are at one location, so any of them will do.
    size_t other = 0;
    while (threads_[other].state != ThreadState::at_block) ++other;
    const Thread& waiting = threads_[other];
    if (!same_location(waiting.call.where, where)) {
      throw Error(concat("is in __syncthreads at ", text_of(where), ", but thread ",
                         text_of(waiting.index), " is in the one at ",
                         text_of(waiting.call.where)));
    }
  }
  self.call.where = where;
  if (++num_at_block_ < num_threads_) {
    self.state = ThreadState::at_block;
    wait(self);
    return;
  }
  num_at_block_ = 0;
  tell_observers([](Observer& observer) { observer.block_barrier(); });
  const Order order = shuffle_.next(num_threads_);
  for (size_t i = 0; i < num_threads_; ++i) go_on(threads_[order[i]]);
  if (shuffle_.is_on()) wait(self);
}

}  // namespace ladder::emulator
