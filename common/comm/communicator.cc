#include "common/comm/communicator.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace ladder {

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

struct Work::State {
  std::function<void(double busy, double exposed)> record_times;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;

  void finish(std::exception_ptr thrown) {
    const std::lock_guard lock(mutex);
    error = std::move(thrown);
    done = true;
    changed.notify_all();
  }
};

Work& Work::operator=(Work&& other) noexcept {
  if (state_) std::terminate();  // a started operation that nobody waited for
  state_ = std::move(other.state_);
  return *this;
}

Work::~Work() {
  // While an exception unwinds the stack the program is about to end; else it is a bug.
  if (state_ && std::uncaught_exceptions() == 0) std::terminate();
}

void Work::wait(Stream&) {
  if (!state_) return;
  const std::shared_ptr<State> state = std::move(state_);
  state_ = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(state->mutex);
  state->changed.wait(lock, [&] { return state->done; });
  state->record_times(0, seconds_since(begin));
  if (state->error) std::rethrow_exception(state->error);
}

// One thread that runs what it is given, in order. Sleeps while there is nothing.
class Worker {
 public:
  Worker() : thread_([this] { loop(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void add(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
  }
  // Returns when nothing is queued or running.
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      busy_ = true;
      lock.unlock();
      task();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false, stopping_ = false;
  std::thread thread_;
};

Communicator::Communicator(size_t rank, size_t size) : rank_(rank), size_(size) {}
Communicator::~Communicator() = default;

void Communicator::stop() {
  if (std::uncaught_exceptions() > 0) given_up_ = true;
  worker_.reset();
}

double Communicator::execute_and_observe(const Request& request, Purpose purpose) {
  const Time begin = std::chrono::steady_clock::now();
  execute(request);
  const Time end = std::chrono::steady_clock::now();
  if (observer_) observer_(purpose, request.collective, begin, end);
  return std::chrono::duration<double>(end - begin).count();
}

Work Communicator::run(Stream& stream, const Request& request, size_t payload_elements,
                       CallOptions options) {
  const ConstTensorView view = request.out.empty() ? request.in : ConstTensorView(request.out);
  ledger_.record(options.purpose, request.collective,
                 payload_elements * (view.empty() ? 0 : size_of(view.dtype())));
  stream.synchronize();
  if (!options.background || size_ == 1) {
    double waited = 0;  // asking for the time costs a tenth of a small call
    if (worker_) {
      const auto begin = std::chrono::steady_clock::now();
      worker_->drain();
      waited = seconds_since(begin);
    }
    const double busy = execute_and_observe(request, options.purpose);
    ledger_.record_times(options.purpose, request.collective, busy, waited + busy);
    return Work();
  }
  if (!worker_) worker_ = std::make_unique<Worker>();
  auto state = std::make_shared<Work::State>();
  state->record_times = [this, purpose = options.purpose, collective = request.collective](
                            double busy, double exposed) {
    ledger_.record_times(purpose, collective, busy, exposed);
  };
  worker_->add([this, request, state, purpose = options.purpose] {
    std::exception_ptr error;
    try {
      check(!given_up_, "given up after an error");
      state->record_times(execute_and_observe(request, purpose), 0);
    } catch (...) {
      error = std::current_exception();
    }
    state->finish(error);
  });
  return Work(state);
}

namespace {

void check_present(const char* operation, const ConstTensorView& view) {
  if (view.empty()) fail(concat(operation, ": no buffer"));
}

void check_parts(const char* operation, const ConstTensorView& whole, const ConstTensorView& part,
                 size_t size) {
  check_present(operation, whole);
  check_present(operation, part);
  if (whole.dtype() != part.dtype() || whole.num_elements() != size * part.num_elements()) {
    fail(concat(operation, ": ", size, " shards of ", part.num_elements(), " ",
                name_of(part.dtype()), " elements do not make a buffer of ", whole.num_elements(),
                " ", name_of(whole.dtype())));
  }
}

}  // namespace

Work Communicator::all_reduce(Stream& stream, TensorView buffer, CallOptions options) {
  check_present("all_reduce", buffer);
  return run(stream, {Collective::all_reduce, buffer, buffer, 0, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::reduce_scatter(Stream& stream, TensorView shard, ConstTensorView buffer,
                                  CallOptions options) {
  check_parts("reduce_scatter", buffer, shard, size_);
  return run(stream, {Collective::reduce_scatter, shard, buffer, 0, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::all_gather(Stream& stream, TensorView buffer, ConstTensorView shard,
                              CallOptions options) {
  check_parts("all_gather", buffer, shard, size_);
  return run(stream, {Collective::all_gather, buffer, shard}, buffer.num_elements(), options);
}

Work Communicator::broadcast(Stream& stream, TensorView buffer, size_t root, CallOptions options) {
  check_present("broadcast", buffer);
  check(root < size_, "broadcast: no such root");
  return run(stream, {Collective::broadcast, buffer, buffer, root}, buffer.num_elements(), options);
}

Work Communicator::reduce(Stream& stream, TensorView buffer, size_t root, CallOptions options) {
  check_present("reduce", buffer);
  check(root < size_, "reduce: no such root");
  return run(stream, {Collective::reduce, buffer, buffer, root, options.reduction},
             buffer.num_elements(), options);
}

Work Communicator::all_to_all(Stream& stream, TensorView out, ConstTensorView in,
                              CallOptions options) {
  check_parts("all_to_all", in, out, 1);
  check(in.num_elements() % size_ == 0, "all_to_all: elements do not divide among the ranks");
  return run(stream, {Collective::all_to_all, out, in}, in.num_elements(), options);
}

Work Communicator::send(Stream& stream, ConstTensorView buffer, size_t to, CallOptions options) {
  check_present("send", buffer);
  check(to < size_ && to != rank_, "send: no such peer");
  return run(stream, {Collective::send, {}, buffer, to}, buffer.num_elements(), options);
}

Work Communicator::recv(Stream& stream, TensorView buffer, size_t from, CallOptions options) {
  check_present("recv", buffer);
  check(from < size_ && from != rank_, "recv: no such peer");
  return run(stream, {Collective::recv, buffer, {}, from}, buffer.num_elements(), options);
}

void Communicator::barrier() {
  if (worker_) worker_->drain();
  ledger_.record(Purpose::control, Collective::barrier, 0);
  execute({Collective::barrier, {}, {}});
}

std::unique_ptr<Communicator> OneRank::split(size_t) { return std::make_unique<OneRank>(); }

void OneRank::execute(const Request& request) {
  if (request.out.empty() || request.in.empty() || request.out.data() == request.in.data()) return;
  Stream stream(request.out.device());
  copy(stream, request.out, request.in.reshape(request.out.shape()));
  stream.synchronize();
}

std::unique_ptr<Communicator> Unconnected::split(size_t) {
  fail("Unconnected::split: it knows nothing of the other ranks' colors");
}

}  // namespace ladder
