// Chooses on how many devices to train: the cheapest way that is done in time.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ladder {

// One way to train, and how long its step takes: simulated, or measured.
struct Offer {
  std::string name;  // "8 GPUs, 03_zero1 data=8"
  size_t num_devices = 1;
  double step_seconds = 0;
  double tokens_per_step = 1;
  bool fits = true;  // else the model does not fit on the devices, and the two above mean nothing
  bool is_bound = false;  // time ran out before a simulation: a step takes at least so long
};

// What the training has to keep to.
struct Limits {
  double tokens = 0;  // to train on
  double days = std::numeric_limits<double>::infinity();
  double device_hours = std::numeric_limits<double>::infinity();  // "GPU-hours": rented devices
};

struct Price {
  double steps = 0, days = 0, device_hours = 0;
};

// Returns what training on so many tokens takes. Steps are whole: the last one may be more than is
// needed. All devices are paid for from the first step to the last.
// REQUIRES: the offer fits.
Price price_of(const Offer& offer, double tokens);

// Places in the list of offers.
struct Choice {
  // The offers that keep both limits with the fewest device-hours. There are several if their
  // device-hours are equal, to a part in 10^9; then the quickest comes first, and of equally quick
  // ones the first of the list. Empty: no offer keeps both.
  std::vector<size_t> best;
  // Of the offers that keep the days but not the device-hours, the one with the fewest of them.
  std::optional<size_t> in_time;
  // Of the offers that keep the device-hours but not the days, the one with the fewest days.
  std::optional<size_t> in_budget;
};

// Chooses among the offers that fit. An offer keeps a limit that it just reaches.
Choice choose(const std::vector<Offer>& offers, const Limits& limits);

}  // namespace ladder
