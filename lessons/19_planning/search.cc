#include "lessons/19_planning/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>

#include "common/cluster/comm_time.h"
#include "common/io/text.h"
#include "common/model/description.h"
#include "kernels/runtime/real_time.h"

namespace ladder {
namespace {

struct OutOfTime {};  // ends a simulation for which there is no time

// How much is known of a candidate.
enum class Known { products, blocks, replica };

struct Entry {
  Candidate candidate;
  double bound = 0;
  Known known = Known::products;
  MemoryNeed need = {};
  size_t order = 0;  // ties: the first candidate wins

  bool operator<(const Entry& other) const {  // the queue's top is the largest
    return bound != other.bound ? bound > other.bound : order > other.order;
  }
};

size_t index_of(const std::string& recompute) {
  return static_cast<size_t>(std::ranges::find(kRecomputeModes, recompute) -
                             kRecomputeModes.begin());
}

// The larger, the less memory a candidate needs.
auto frugality(const Candidate& candidate) {
  return std::tuple(candidate.replica_size(), candidate.tensor, candidate.sequence_parallel,
                    candidate.zero_stage, candidate.shard_size,
                    -static_cast<double>(candidate.micro_batch_size),
                    index_of(candidate.recompute));
}

class Search {
 public:
  Search(const PlanRequest& request, const ModelConfig& model, size_t num_wanted, double seconds)
      : request_(request),
        watched_(request),
        model_(describe(model)),
        free_(without_communication(request.cluster)),
        num_wanted_(num_wanted),
        seconds_(seconds) {
    watched_.watch = [this] { check_time(); };
  }

  SearchResult run();

 private:
  void collect();
  void look_at_families();
  void explain_rest();
  void look_at(Entry entry);
  double blocks_of(const Candidate& candidate);
  void simulate(const Entry& entry);
  Plan plan_of(const Entry& entry, double seconds) const;
  bool is_done() const;
  double spent() const { return seconds_between(begin_, real_time()); }
  void check_time();

  const PlanRequest& request_;
  PlanRequest watched_;  // the same, in the time that there is
  const ModelDescription model_;
  const Cluster free_;
  const size_t num_wanted_;
  const double seconds_;
  const Time begin_ = real_time();
  double due_ = 5;  // the seconds at which to say how far the search is
  std::priority_queue<Entry> queue_;
  // The least recomputation with which a layout is known to fit: more would only cost time.
  std::map<std::string, size_t> fitting_;
  // block_bound() as a multiple of products_bound(), by what it depends on.
  std::map<std::string, double> block_factors_;
  std::map<std::string, size_t> family_at_;  // its found among the result's
  SearchResult result_;
};

void Search::collect() {
  for (const Candidate& candidate : all_candidates(request_, model_.config)) {
    const double bound = products_bound(candidate, request_, model_);
    queue_.push({.candidate = candidate, .bound = bound, .order = queue_.size()});
    const std::string name = family_of(candidate);
    const auto [found, is_new] = family_at_.try_emplace(name, result_.families.size());
    if (is_new) result_.families.push_back({.name = name, .frugal = candidate});
    Family& family = result_.families[found->second];
    if (frugality(candidate) > frugality(family.frugal)) family.frugal = candidate;
  }
  result_.num_candidates = queue_.size();
}

void Search::check_time() {
  const double now = spent();
  if (request_.told && now >= due_) {
    due_ = now + 5;
    request_.told(format("  %.0f of %g s: %zu of %zu layouts on %zu ranks simulated\n", now,
                         seconds_, result_.plans.size(), result_.num_candidates,
                         request_.num_ranks));
  }
  if (now > seconds_) throw OutOfTime();
}

void Search::look_at_families() {
  for (Family& family : result_.families) {
    try {
      family.need = memory_need(family.frugal, request_);
    } catch (const UserError&) {
      family.need.fits = false;
    }
  }
}

SearchResult Search::run() {
  collect();
  look_at_families();
  while (!queue_.empty() && !is_done()) {
    const Entry entry = queue_.top();
    queue_.pop();
    try {
      check_time();
      look_at(entry);
    } catch (const OutOfTime&) {
      queue_.push(entry);
      break;
    }
  }
  std::ranges::stable_sort(result_.plans, {}, &Plan::seconds);
  explain_rest();
  return std::move(result_);
}

// What is left comes in the order of its bounds. Where no step was simulated the plan is the first
// that is known to fit.
void Search::explain_rest() {
  std::vector<Plan>& plans = result_.plans;
  for (; !queue_.empty(); queue_.pop()) {
    const Entry& entry = queue_.top();
    Family& family = result_.families[family_at_.at(family_of(entry.candidate))];
    if (!family.bound) family.bound = entry.bound;
    const bool is_frugal = full_text(entry.candidate) == full_text(family.frugal);
    if (plans.empty() && (entry.known == Known::replica || (is_frugal && family.need.fits))) {
      plans.push_back(plan_of(entry, entry.bound));
      plans.front().is_bound = true;
      if (entry.known != Known::replica) plans.front().need = family.need;
      continue;
    }
    const bool may_win =
        plans.empty() || plans.front().is_bound || entry.bound < plans.front().seconds;
    if (may_win) ++result_.num_unknown;
  }
}

bool Search::is_done() const {
  if (result_.plans.size() < num_wanted_) return false;
  const auto best = std::ranges::min_element(result_.plans, {}, &Plan::seconds);
  return best->seconds <= queue_.top().bound;
}

void Search::look_at(Entry entry) {
  Candidate without = entry.candidate;
  without.recompute = "none";
  const std::string layout = full_text(without);
  const size_t recompute = index_of(entry.candidate.recompute);
  if (entry.known == Known::replica) return simulate(entry);
  const auto fitting = fitting_.find(layout);
  // The bounds say that more recomputation costs more time; so less comes first.
  if (fitting != fitting_.end() && fitting->second < recompute) return;
  try {
    if (entry.known == Known::products) {
      entry.bound = std::max(entry.bound, blocks_of(entry.candidate));
      entry.known = Known::blocks;
      return queue_.push(entry);
    }
    entry.need = memory_need(entry.candidate, watched_);
  } catch (const UserError&) {
    return;  // the lesson cannot divide the model so
  }
  if (!entry.need.fits) return;
  fitting_.try_emplace(layout, recompute);
  if (result_.plans.empty() && spent() > seconds_ / 4) return simulate(entry);
  if (entry.candidate.lesson != "06_offload") {
    // What one replica keeps on the host and updates there is not what many would.
    const double seconds = simulate_replica(entry.candidate, watched_, request_.cluster).seconds;
    entry.bound = std::max(entry.bound, 0.99 * seconds);  // small kernels leave gaps
  }
  entry.known = Known::replica;
  queue_.push(entry);
}

double Search::blocks_of(const Candidate& candidate) {
  if (candidate.lesson == "06_offload") return 0;
  const std::string key =
      concat(candidate.tensor, " ", candidate.sequence_parallel, " ", candidate.recompute, " ",
             candidate.micro_batch_size, " ", compute_dtype(candidate, request_));
  const double one = products_bound(candidate, request_, model_);
  const auto [found, is_new] = block_factors_.try_emplace(key, 0);
  if (is_new) found->second = block_bound(candidate, watched_, model_.config) / one;
  return found->second * one;
}

// Returns a plan of which communication and recomputation are not known.
Plan Search::plan_of(const Entry& entry, double seconds) const {
  const DType dtype = dtype_named(compute_dtype(entry.candidate, request_));
  const double peak = request_.cluster.product_flops[static_cast<size_t>(dtype)] *
                      request_.cluster.num_peaks(request_.num_ranks);
  return {.candidate = entry.candidate,
          .seconds = seconds,
          .model_utilization = model_.flops_per_token() * tokens_per_step(request_, model_.config) /
                               (peak * seconds),
          .need = entry.need,
          .communication = std::nan(""),
          .bubble = bubble_of(entry.candidate, request_),
          .again = std::nan("")};
}

void Search::simulate(const Entry& entry) {
  const StepTime time = simulate_step(entry.candidate, watched_, request_.cluster);
  Plan plan = plan_of(entry, time.seconds);
  plan.again = recomputed_part(entry.candidate, request_);
  try {
    const double free = simulate_replica(entry.candidate, watched_, free_).seconds;
    plan.communication = std::max(0.0, 1 - free / time.seconds);
    plan.bubble *= 1 - plan.communication;
  } catch (const OutOfTime&) {  // it stays unknown
  }
  result_.plans.push_back(plan);
}

}  // namespace

std::string family_of(const Candidate& candidate) {
  if (candidate.lesson == "06_offload") {
    return concat(candidate.lesson, ", ZeRO-", candidate.zero_stage);
  }
  if (candidate.lesson != "09_3d_parallel") return candidate.lesson;
  std::string axes = candidate.data > 1 ? "data" : "";
  if (candidate.pipeline > 1) axes += concat(axes.empty() ? "" : " x ", "pipeline");
  if (candidate.tensor > 1) axes += concat(axes.empty() ? "" : " x ", "tensor");
  return axes.empty() ? candidate.lesson : concat(candidate.lesson, ", ", axes);
}

SearchResult search_plans(const PlanRequest& request, const ModelConfig& model, size_t num_wanted,
                          double seconds) {
  return Search(request, model, num_wanted, seconds).run();
}

}  // namespace ladder
