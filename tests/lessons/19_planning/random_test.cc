// Random models, clusters and layouts: bounds are no more than what they bound, the search finds
// what trying everything finds, and what simulated ranks communicate is what their ledgers say.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "common/model/description.h"
#include "common/train/run/simulated_rank.h"
#include "common/virtual/cluster_times.h"
#include "common/virtual/lazy_memory.h"
#include "kernels/runtime/check.h"
#include "lessons/19_planning/search.h"
#include "tests/catch.h"

namespace ladder {
namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  size_t operator()(size_t least, size_t most) { return least + random_() % (most - least + 1); }
  template <class T>
  T of(const std::vector<T>& all) {
    return all[(*this)(0, all.size() - 1)];
  }

 private:
  std::mt19937 random_;
};

// A small model on up to eight devices in up to four nodes. In a deep one nearly all time goes to
// transformer blocks.
PlanRequest draw_request(Draw& draw, bool is_deep = false) {
  const size_t heads = draw.of<size_t>({1, 2, 3, 4, 6}), head_size = draw.of<size_t>({8, 16, 64});
  const std::string devices = draw.of<std::string>(
      {"x1", "x2", "x4", "x8", "x1x2", "x2x2", "x3x2", "x1x4", "x2x4", "x4x2"});
  PlanRequest request;
  request.model_flags = {"--layers",          concat(is_deep ? 32 : draw(1, 6)),
                         "--heads",           concat(heads),
                         "--hidden",          concat(heads * head_size),
                         "--vocab",           concat(is_deep ? 123 : draw(123, 3000)),
                         "--sequence-length", concat(draw(8, 300))};
  if (draw(0, 3) == 0) request.model_flags.push_back("--untied");
  request.cluster_name =
      draw.of<std::string>({"h100", "a100-80", "rtx3090", "rtx3060", "v100", "laptop"}) + devices;
  if (draw(0, 2) == 0) request.cluster_name += draw.of<std::string>({"@eth-10g", "@ib-2x200g"});
  request.cluster = read_cluster(request.cluster_name);
  request.num_ranks = request.cluster.num_devices();
  request.global_batch_size = request.num_ranks * (is_deep ? 24 : draw.of<size_t>({1, 2, 4, 6}));
  request.dtype = draw(0, 1) == 0 ? "fp32" : default_dtype(request.cluster);
  return request;
}

ModelConfig model_of(const PlanRequest& request) {
  return prepare(Candidate(), request).config.model;
}

// The candidates that the lessons accept, in a random order.
std::vector<Candidate> draw_candidates(const PlanRequest& request, Draw& draw) {
  std::vector<Candidate> all = all_candidates(request, model_of(request));
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[draw(0, i - 1)]);
  return all;
}

std::string text_of(const PlanRequest& request) {
  std::string text = concat(request.cluster_name, " ", request.dtype, " --global-batch-size ",
                            request.global_batch_size);
  for (const std::string& flag : request.model_flags) text += " " + flag;
  return text;
}

TEST_CASE("For random candidates bounds are below the step, and the memory is what ranks need") {
  Draw draw(1);
  size_t num_checked = 0;
  for (size_t round = 0; round < 60; ++round) {
    const PlanRequest request = draw_request(draw, round % 3 == 0);
    const ModelConfig model = model_of(request);
    size_t num_taken = 0;
    for (const Candidate& one : draw_candidates(request, draw)) {
      CAPTURE(round, text_of(request), full_text(one));
      MemoryNeed need;
      try {
        need = memory_need(one, request);
      } catch (const UserError&) {
        continue;
      }
      const StepTime step = simulate_step(one, request, request.cluster);
      // Few micro-batches have room for fewer losses, and of a tensor group only the first is
      // asked.
      CHECK(static_cast<double>(need.device.total()) ==
            Approx(static_cast<double>(step.device.total())).epsilon(0.005).margin(5000));
      CHECK(products_bound(one, request, describe(model)) <= step.seconds);
      if (one.lesson != "06_offload") {
        CHECK(block_bound(one, request, model) <= step.seconds);
        const StepTime replica = simulate_replica(one, request, request.cluster);
        CHECK(0.99 * replica.seconds <= step.seconds);
        if (one.data == 1) CHECK(replica.seconds == step.seconds);
      }
      ++num_checked;
      if (++num_taken == 3) break;
    }
  }
  CHECK(num_checked > 150);
}

TEST_CASE("For random requests the search finds the fastest, and its bounds hold for the rest") {
  Draw draw(2);
  for (size_t round = 0; round < 14; ++round) {
    PlanRequest request = draw_request(draw);
    request.global_batch_size = request.num_ranks * draw(1, 2);
    request.recompute_modes = {"none", draw.of<std::string>({"cheap", "attention", "block"})};
    const ModelConfig model = model_of(request);
    const std::vector<Candidate> all = draw_candidates(request, draw);
    // Room for some of them. The middle one of those that the lessons accept decides.
    request.cluster.device_memory = size_t{1} << 40;
    std::vector<size_t> needed;
    std::map<std::string, MemoryNeed> needs;
    for (const Candidate& one : all) {
      try {
        const MemoryNeed need = needs[full_text(one)] = memory_need(one, request);
        needed.push_back(need.device.total());
      } catch (const UserError&) {
        needs.erase(full_text(one));
      }
    }
    REQUIRE_FALSE(needed.empty());
    std::ranges::sort(needed);
    const size_t most = needed[draw(0, needed.size() - 1)];
    request.keep_free = draw(0, 1) * draw(1, 1'000'000);
    request.cluster.device_memory = most + *request.keep_free;
    std::map<std::string, double> seconds;
    double fastest = 1e30;
    for (const Candidate& one : all) {
      const auto need = needs.find(full_text(one));
      if (need == needs.end()) continue;
      if (need->second.device.total() > most || !need->second.fits) continue;
      const double own = simulate_step(one, request, request.cluster).seconds;
      seconds[full_text(one)] = own;
      fastest = std::min(fastest, own);
    }
    for (const double limit : {1e6, 0.0}) {
      CAPTURE(round, text_of(request), request.cluster.device_memory, limit);
      const SearchResult result = search_plans(request, model, 1, limit);
      if (fastest == 1e30) {
        CHECK(result.plans.empty());
        continue;
      }
      REQUIRE_FALSE(result.plans.empty());  // there is always an answer
      const Plan& best = result.plans.front();
      CAPTURE(full_text(best.candidate));
      if (best.is_bound) {
        CHECK(limit == 0);
        CHECK(best.seconds <= seconds.at(full_text(best.candidate)));  // and it fits
        continue;
      }
      CHECK(best.seconds == seconds.at(full_text(best.candidate)));
      const size_t dtype = static_cast<size_t>(dtype_named(compute_dtype(best.candidate, request)));
      const Cluster& cluster = request.cluster;
      const size_t num_peaks = cluster.is_cpu ? cluster.num_nodes : request.num_ranks;
      CHECK(best.model_utilization * cluster.product_flops[dtype] * static_cast<double>(num_peaks) *
                best.seconds ==
            Approx(describe(model).flops_per_token() * tokens_per_step(request, model)));
      const double stages = static_cast<double>(best.candidate.pipeline);
      const double batches = static_cast<double>(num_micro_batches(best.candidate, request));
      if (limit > 0 || !std::isnan(best.communication)) {
        CHECK(best.bubble ==
              Approx((stages - 1) / (batches + stages - 1) * (1 - best.communication)));
        CHECK((best.communication >= 0 && best.communication < 1));
      }
      if (best.candidate.recompute == "none") CHECK(best.again == 0);
      if (limit > 0) CHECK(result.num_unknown == 0);
      if (result.num_unknown == 0) CHECK(best.seconds == fastest);
      std::map<std::string, double> bounds;
      for (const Family& family : result.families) {
        if (family.bound) bounds[family.name] = *family.bound;
      }
      // The recomputation of what was simulated: more of it is not looked at.
      std::map<std::string, std::string> simulated;
      const auto layout = [](Candidate one) {
        one.recompute = "none";
        return full_text(one);
      };
      for (const Plan& plan : result.plans) {
        simulated[layout(plan.candidate)] = plan.candidate.recompute;
      }
      for (const Candidate& one : all) {
        const auto own = seconds.find(full_text(one));
        if (own == seconds.end() || simulated.contains(layout(one))) continue;
        const auto bound = bounds.find(family_of(one));
        CAPTURE(full_text(one));
        if (bound != bounds.end() && one.recompute == "none") CHECK(bound->second <= own->second);
      }
    }
  }
}

// An operation between these ranks of the world.
using Group = std::pair<Collective, std::vector<size_t>>;

// The times of a cluster, which notes what it is asked for.
class NotingTimes : public TimeModel {
 public:
  NotingTimes(const Cluster& cluster, size_t num_ranks) : times_(cluster, num_ranks) {}
  DeviceType device() const override { return times_.device(); }
  double kernel_seconds(DeviceType device, const KernelCall& call) const override {
    return times_.kernel_seconds(device, call);
  }
  double copy_seconds(DeviceType to, DeviceType from, size_t bytes) const override {
    return times_.copy_seconds(to, from, bytes);
  }
  double launch_seconds() const override { return times_.launch_seconds(); }
  double collective_seconds(Collective collective, const std::vector<size_t>& ranks,
                            size_t bytes) const override {
    moved[{collective, ranks}] += Traffic{.calls = 1, .payload_bytes = bytes};
    return times_.collective_seconds(collective, ranks, bytes);
  }
  double message_seconds(size_t from, size_t to, size_t bytes) const override {
    moved[{Collective::send, {from, to}}] += Traffic{.calls = 1, .payload_bytes = bytes};
    return times_.message_seconds(from, to, bytes);
  }
  Port port_between(const std::vector<size_t>& ranks) const override {
    ports.insert(ranks);
    return times_.port_between(ranks);
  }
  double compute_taken(Port port) const override { return times_.compute_taken(port); }

  mutable std::map<Group, Traffic> moved;
  mutable std::set<std::vector<size_t>> ports;

 private:
  ClusterTimes times_;
};

// What each rank has counted in a step on these times.
std::vector<TrafficEntries> ledgers_of(const Prepared& prepared, const NotingTimes& times,
                                       size_t num_ranks) {
  const auto& [program, config] = prepared;
  const Corpus corpus = Corpus::king_james();
  LazyMemory host;
  Engine engine(times, num_ranks);
  std::vector<TrafficEntries> ledgers(num_ranks);
  engine.run([&](size_t number) {
    SimulatedRank rank(config, program.grid(num_ranks, number), host);
    run_simulated_rank(program, config, corpus, engine, rank,
                       [&](const TrainerContext& context, Communicator& world) {
                         const auto trainer = program.make(context);
                         trainer->step();
                         context.stream.synchronize();
                         ledgers[number] = world.ledger().entries();
                       });
  });
  return ledgers;
}

TEST_CASE("What simulated ranks of random layouts communicate is what their ledgers say") {
  Draw draw(3);
  size_t num_messages = 0;
  for (size_t round = 0; round < 60; ++round) {
    PlanRequest request = draw_request(draw);
    request.cluster.device_memory = size_t{1} << 40;
    for (const Candidate& one : draw_candidates(request, draw)) {
      CAPTURE(round, text_of(request), full_text(one));
      std::optional<Prepared> prepared;
      try {
        prepared.emplace(prepare(one, request));
        predict(prepared->program, prepared->config, prepared->program.grid(one.num_ranks(), 0));
      } catch (const UserError&) {
        continue;
      }
      prepared->config.device_memory = size_t{1} << 40;
      const NotingTimes times(request.cluster, one.num_ranks());
      const std::vector<TrafficEntries> ledgers = ledgers_of(*prepared, times, one.num_ranks());
      // Each collective is in the ledger of all its ranks, each message in its sender's.
      std::map<Group, Traffic> counted;
      for (size_t rank = 0; rank < ledgers.size(); ++rank) {
        const ProcessGrid grid = prepared->program.grid(one.num_ranks(), rank);
        TrafficEntries step;
        for (const auto& [key, traffic] : ledgers[rank]) {
          if (key.purpose != Purpose::control && key.collective != Collective::barrier) {
            step[key] = {.calls = traffic.calls, .payload_bytes = traffic.payload_bytes};
          }
          std::vector<size_t> ranks = grid.ranks_of_group(key.axis);
          if (key.collective == Collective::recv) continue;
          if (key.collective == Collective::send) ranks = {rank};
          // A group of one rank has nothing to move, mostly.
          if (ranks.size() == 1 && key.collective != Collective::send) continue;
          if (ranks.front() == rank) counted[{key.collective, ranks}] += traffic;
        }
        CHECK(step == predict(prepared->program, prepared->config, grid).step);
      }
      std::map<Group, Traffic> moved;
      for (const auto& [group, traffic] : times.moved) {
        auto [collective, ranks] = group;
        CHECK(times.ports.contains(ranks));
        if (ranks.size() == 1) continue;
        if (collective == Collective::send) {
          // To a neighbour in the pipeline, at the same place on all other axes.
          const size_t apart = std::max(ranks[0], ranks[1]) - std::min(ranks[0], ranks[1]);
          const size_t stage = one.num_ranks() / one.pipeline;
          CHECK((apart == stage || apart == stage * (one.pipeline - 1)));
          ranks.pop_back();
          ++num_messages;
        }
        moved[{collective, ranks}] += traffic;
      }
      CHECK(moved == counted);
      break;
    }
  }
  CHECK(num_messages > 20);
}

}  // namespace
}  // namespace ladder
