#include "common/cluster/cluster_json.h"

#include <algorithm>

namespace ladder {
namespace {

// The numbers of a range, [least, end), and what a message calls them.
struct Interval {
  double least, end;
  const char* text;
};
// By NumberRange.
constexpr Interval kIntervals[] = {
    {1, 1e30, "a number from 1, below 1e30"}, {1e-12, 1e6, "a number from 1e-12, below 1e6"},
    {0, 1e6, "seconds, 0 or more"},           {1e-6, 1 + 1e-15, "a number from 1e-6 to 1"},
    {0, 1, "a number from 0, below 1"},       {1, 1e18, "a whole number from 1"}};
static_assert(std::size(kIntervals) == 1 + static_cast<size_t>(NumberRange::count));

}  // namespace

double number_in(const Json& json, const char* key, NumberRange range,
                 const ClusterFileContext& context) {
  const double number = parse_number(json, key, context);
  const auto& [least, end, text] = kIntervals[static_cast<size_t>(range)];
  const bool is_in = number >= least && number < end;
  if (is_in && (range != NumberRange::count || number == static_cast<double>(whole(number)))) {
    return number;
  }
  refuse(context, key, "expected ", text, ", got ", shown(json.at(key)));
}

bool switch_in(const Json& json, const char* key, const ClusterFileContext& context) {
  if (!json.at(key).is_boolean()) refuse(context, key, "expected true or false");
  return json.at(key).get<bool>();
}

std::string text_of(const Json& json, const char* key, const ClusterFileContext& context) {
  if (!json.contains(key)) refuse(context, key, "is missing");
  const Json& value = json.at(key);
  const bool has_value = value.is_object() && value.contains("value");
  const Json& text = has_value ? value.at("value") : value;
  if (!text.is_string()) refuse(context, key, "expected a text, got ", shown(value));
  return text.get<std::string>();
}

void check_keys(const Json& json, const std::set<std::string>& known,
                const ClusterFileContext& context) {
  for (const auto& [key, value] : json.items()) {
    if (!known.contains(key)) refuse(context, key, "is no known key");
  }
}

std::span<const Json> objects_of(const Json& json, const char* key,
                                 const ClusterFileContext& context) {
  if (!json.contains(key)) return {};
  const Json& array = json.at(key);
  const bool right = array.is_array() && std::ranges::all_of(array, &Json::is_object);
  if (!right) refuse(context, key, "expected an array of objects");
  return array.get_ref<const Json::array_t&>();
}

double parse_number(const Json& json, const std::string& key, const ClusterFileContext& context) {
  if (!json.contains(key)) refuse(context, key, "is missing");
  const Json& value = json.at(key);
  if (value.is_number() && !context.sources_required) return value.get<double>();
  const bool right = value.is_object() && value.size() == 2 && value.contains("value") &&
                     value.contains("source") && value.at("value").is_number() &&
                     value.at("source").is_string() && value.at("source") != "";
  if (!right) {
    refuse(context, key, "expected ", context.sources_required ? "" : "a number or ",
           "{\"value\": number, \"source\": text}, got ", shown(value));
  }
  return value.at("value").get<double>();
}

std::vector<NetworkPoint> network_points_in(const Json& json, const char* key,
                                            const ClusterFileContext& context) {
  if (!json.contains(key)) return {};
  const Json& value = json.at(key);
  const bool has_source = value.is_object() && value.contains("value") && value.contains("source");
  if (context.sources_required && !has_source) refuse(context, key, "its source is missing");
  ClusterFileContext measured = context;
  measured.sources_required = false;  // one for all of them
  std::vector<NetworkPoint> points;
  for (const Json& object :
       has_source ? objects_of(value, "value", context) : objects_of(json, key, context)) {
    check_keys(object, {"nodes", "efficiency"}, measured);
    points.push_back({.num_nodes = whole(number_in(object, "nodes", NumberRange::count, measured)),
                      .efficiency = number_in(object, "efficiency", NumberRange::part, measured)});
  }
  std::ranges::sort(points, {}, &NetworkPoint::num_nodes);
  if (std::ranges::adjacent_find(points, {}, &NetworkPoint::num_nodes) != points.end()) {
    refuse(context, key, "two of them have the same nodes");
  }
  return points;
}

}  // namespace ladder
