#include "common/cluster/cluster.h"

#include <nlohmann/json.hpp>

#include "common/cluster/cluster_file.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

// A file that is right, and the same with one text replaced by another.
const std::string kGpuFile = R"({
  "device": "a GPU", "kind": "gpu", "devices_per_node": 4, "nodes": 2, "network": "ib-2x100g",
  "device_memory_bytes": 1000000, "multiprocessors": 10,
  "fp32_product_flops": 1e12, "bf16_product_flops": {"value": 8e12, "source": "a data sheet"},
  "product_efficiency": 0.8, "fp32_product_efficiency": 0.6,
  "attention_forward_efficiency": 0.3, "attention_backward_efficiency": 0.2, "vector_flops": 1e12,
  "memory_bandwidth": 1e11, "memory_efficiency": 0.9, "launch_seconds": 4e-6,
  "least_kernel_seconds": 2e-6, "node_link_bandwidth": 5e9, "node_link_efficiency": 0.5,
  "node_link_latency": 1e-6, "node_link_shared": true, "call_seconds": 3e-6,
  "node_compute_share": 0.1, "network_compute_share": 0, "host_link_bandwidth": 2e10,
  "host_link_efficiency": 0.7, "host_link_latency": 5e-6, "host_memory_bytes": 4000000,
  "host_memory_bandwidth": 5e10, "host_memory_efficiency": 0.75, "host_flops": 1e11,
  "kernels": [
    {"name": "matmul", "dtype": "fp32", "busy_ranks": 1, "m": 8, "n": 9, "k": 10, "seconds": 0.1},
    {"name": "gelu_forward", "dtype": "fp32", "busy_ranks": 2, "bytes": 100, "seconds": 0.2},
    {"name": "gelu_forward", "dtype": "fp32", "busy_ranks": 2, "bytes": 50, "seconds": 0.1}],
  "collectives": [{"name": "all_reduce", "ranks": 2, "bytes": 8, "seconds": 1e-6}]
})";
std::string with(std::string text, const std::string& before, const std::string& after) {
  const size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), after);
}

Cluster cluster_of(const std::string& text) {
  const TestFolder folder;
  return read_cluster(folder.write("c.json", text));
}

// What read_cluster says of a file with this text, without the file's path.
std::string refusal(const std::string& text) {
  const TestFolder folder;
  const std::string path = folder.write("c.json", text);
  try {
    read_cluster(path);
  } catch (const UserError& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(path + ": "));
    CHECK(message.find('\n') == std::string::npos);
    return message.substr(path.size() + 2);
  }
  return "";
}

std::string refusal_of_name(const std::string& name) {
  try {
    read_cluster(name);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

double flops(const Cluster& cluster, DType dtype) {
  return cluster.product_flops[static_cast<size_t>(dtype)];
}

TEST_CASE("a name gives device, sizes and network") {
  const Cluster one = read_cluster("h100");
  CHECK(one.num_devices() == 1);
  CHECK(one.device == "NVIDIA H100 SXM 80 GB");
  CHECK(flops(one, DType::bf16) == 989.4e12);
  CHECK(one.memory_bandwidth == 3.35e12);
  CHECK(one.nics_per_node == 8);
  CHECK(one.network.bandwidth == 50e9);

  const Cluster many = read_cluster("a100-80x8x64");
  CHECK(many.name == "a100-80x8x64");
  CHECK(many.devices_per_node == 8);
  CHECK(many.num_nodes == 64);
  CHECK(many.network.bandwidth == 25e9);
  CHECK(many.node_of(7) == 0);
  CHECK(many.node_of(8) == 1);

  const Cluster slow = read_cluster("rtx3090x2x4@eth-25g");
  CHECK(slow.num_devices() == 8);
  CHECK(slow.nics_per_node == 1);
  CHECK(slow.network.bandwidth == 25e9 / 8);
  CHECK(slow.network.latency > many.network.latency);
  CHECK(read_cluster("h100x8x2@ib-4x200g").nics_per_node == 4);
}

TEST_CASE("the ranks on a CPU share its memory") {
  const Cluster laptop = read_cluster("laptop");
  CHECK(laptop.is_cpu);
  CHECK(laptop.devices_per_node == 8);
  CHECK(laptop.device_memory == laptop.host_memory / 8);
  CHECK(read_cluster("laptopx2").device_memory == laptop.host_memory / 2);
  CHECK(laptop.host_memory_bandwidth == laptop.memory_bandwidth);
  CHECK(laptop.host_link.rate() == laptop.memory_bandwidth * laptop.memory_efficiency / 2);
}

TEST_CASE("every known device can be read, and its numbers have sources") {
  const std::vector<std::string> devices = known_devices();
  CHECK(devices == std::vector<std::string>{"a100-40", "a100-80", "a6000", "b200", "h100", "h200",
                                            "laptop", "rtx3060", "rtx3090", "v100"});
  for (const std::string& device : devices) {
    CAPTURE(device);
    const Cluster cluster = read_cluster(device);  // refuses a number without a source
    CHECK(cluster.num_nodes == 1);
    CHECK(cluster.num_devices() == (cluster.is_cpu ? 8 : 1));
    CHECK(cluster.device_memory > 1e9);
    CHECK(flops(cluster, DType::fp32) > 1e11);
    CHECK((flops(cluster, DType::bf16) > 0) == (device != "v100"));
  }
}

TEST_CASE("names that are none are refused") {
  const std::string known =
      "known are a100-40, a100-80, a6000, b200, h100, h200, laptop, rtx3060, rtx3090, v100; a path "
      "has a slash or ends in .json";
  CHECK(refusal_of_name("a100x8") == "cluster \"a100x8\": unknown device \"a100x8\"; " + known);
  CHECK(refusal_of_name("") == "cluster \"\": unknown device \"\"; " + known);
  CHECK(refusal_of_name("networks") ==
        "cluster \"networks\": unknown device \"networks\"; " + known);
  for (const std::string sizes : {"x", "x0", "x8x", "x8x0", "x8x4x2", "x-1", "x8 ", "x1000001"}) {
    const std::string name = "h100" + sizes;
    CHECK(refusal_of_name(name) ==
          "cluster \"" + name +
              "\": expected DEVICE[xDEVICES[xNODES]][@NETWORK], as in h100x8x4 or "
              "h100x8x4@ib-8x400g");
  }
  for (const std::string network :
       {"", "ib", "ib-", "ib-400", "ib-0x400g", "ib-8x0g", "ib-8x400gb", "wifi-1g"}) {
    CHECK(refusal_of_name("h100x8x2@" + network) ==
          "cluster \"h100x8x2@" + network + "\": unknown network \"" + network +
              "\"; expected efa or eth or ib, the adapters of a node and the Gbit/s of each, as in "
              "eth-10g or ib-8x400g");
  }
  CHECK(refusal_of_name("no/such/file").starts_with("no/such/file: "));
}

TEST_CASE("more ranks than devices are refused") {
  const Cluster cluster = read_cluster("h100x8x2");
  check_devices(cluster, 16);
  CHECK_THROWS_WITH(check_devices(cluster, 17),
                    "cluster \"h100x8x2\" has 16 devices, fewer than the 17 ranks");
}

TEST_CASE("a file sets what it says") {
  const Cluster cluster = cluster_of(kGpuFile);
  CHECK(cluster.device == "a GPU");
  CHECK(!cluster.is_cpu);
  CHECK(cluster.num_devices() == 8);
  CHECK(cluster.device_memory == 1000000);
  CHECK(cluster.multiprocessors == 10);
  CHECK(flops(cluster, DType::fp32) == 1e12);
  CHECK(flops(cluster, DType::bf16) == 8e12);
  CHECK(flops(cluster, DType::fp16) == 0);
  CHECK(cluster.product_efficiency[static_cast<size_t>(DType::bf16)] == 0.8);
  CHECK(cluster.product_efficiency[static_cast<size_t>(DType::fp32)] == 0.6);
  CHECK(cluster.node_link.rate() == 2.5e9);
  CHECK(cluster.node_link_shared);
  CHECK(cluster.nics_per_node == 2);
  CHECK(cluster.network.bandwidth == 12.5e9);
  CHECK(cluster.host_link.rate() == Approx(1.4e10));
  CHECK(cluster.host_flops == 1e11);
  REQUIRE(cluster.kernels.size() == 2);
  CHECK(cluster.kernels[0].name == "gelu_forward");
  REQUIRE(cluster.kernels[0].points.size() == 2);
  CHECK(cluster.kernels[0].points[0].work == 50);
  CHECK(cluster.kernels[0].points[1].busy_ranks == 2);
  CHECK(cluster.kernels[1].points[0].k == 10);
  REQUIRE(cluster.collectives.size() == 1);
  CHECK(cluster.collectives[0].collective == Collective::all_reduce);
}

TEST_CASE("a file may change a known device") {
  const Cluster cluster = cluster_of(
      R"({"like": "h100", "devices_per_node": 4, "memory_bandwidth": 3e12, "network": "eth-100g",
          "network_latency": 2e-5})");
  const Cluster h100 = read_cluster("h100");
  CHECK(cluster.device == h100.device);
  CHECK(cluster.devices_per_node == 4);
  CHECK(cluster.memory_bandwidth == 3e12);
  CHECK(cluster.vector_flops == h100.vector_flops);
  CHECK(cluster.nics_per_node == 1);
  CHECK(cluster.network.bandwidth == 12.5e9);
  CHECK(cluster.network.latency == 2e-5);
}

TEST_CASE("a wrong file is refused in one line") {
  const auto changed = [](const std::string& before, const std::string& after) {
    return refusal(with(kGpuFile, before, after));
  };
  const std::string device = "\"device\": \"a GPU\"", bandwidth = "\"memory_bandwidth\": 1e11";
  CHECK(refusal(kGpuFile) == "");
  CHECK(refusal("[]") == "expected a JSON object");
  CHECK(changed(bandwidth, "\"memory_bandwith\": 1e11") == "\"memory_bandwith\": is no known key");
  CHECK(changed(bandwidth + ",", "") == "\"memory_bandwidth\": is missing");
  CHECK(changed(device + ",", "") == "\"device\": is missing");
  CHECK(changed(device, "\"device\": 3") == "\"device\": expected a text, got 3");
  for (const std::string number : {"0", "0.9", "-3", "1e-30", "1e30"}) {
    CHECK(changed(bandwidth, "\"memory_bandwidth\": " + number)
              .starts_with("\"memory_bandwidth\": expected a number from 1, below 1e30, got "));
  }
  for (const std::string value :
       {"\"fast\"", "null", "[1]", "{}", R"({"value": 1e11})", R"({"value": 1e11, "source": ""})",
        R"({"value": "1e11", "source": "x"})", R"({"value": 1, "source": "x", "unit": "B/s"})"}) {
    CAPTURE(value);
    CHECK(changed(bandwidth, "\"memory_bandwidth\": " + value)
              .starts_with("\"memory_bandwidth\": expected a number or {\"value\": number, "
                           "\"source\": text}, got "));
  }
  CHECK(changed("\"call_seconds\": 3e-6", "\"call_seconds\": -3e-6") ==
        "\"call_seconds\": expected seconds, 0 or more, got -3e-06");
  CHECK(changed("\"memory_efficiency\": 0.9", "\"memory_efficiency\": 1.1") ==
        "\"memory_efficiency\": expected a number from 1e-6 to 1, got 1.1");
  CHECK(changed("\"node_compute_share\": 0.1", "\"node_compute_share\": 1") ==
        "\"node_compute_share\": expected a number from 0, below 1, got 1");
  for (const std::string number : {"0", "-1", "1.5", "1e18"}) {
    CHECK(changed("\"nodes\": 2", "\"nodes\": " + number)
              .starts_with("\"nodes\": expected a whole number from 1, got "));
  }
  CHECK(changed("\"gpu\"", "\"tpu\"") == "\"kind\": expected cpu or gpu");
  CHECK(changed("\"gpu\"", "\"cpu\"") == "\"device_memory_bytes\": is for GPUs only");
  CHECK(changed("true", "1") == "\"node_link_shared\": expected true or false");
  CHECK(refusal(R"({"like": "h100", "recomputes_attention": true})") ==
        "\"recomputes_attention\": is no known key");  // but a program's
  CHECK(
      changed("ib-2x100g", "ib").starts_with("unknown network \"ib\"; expected efa or eth or ib"));
  CHECK(refusal(R"({"like": "h1000"})").starts_with("unknown device \"h1000\"; known are a100-40"));
  CHECK(refusal(R"({"like": "h100", "kind": "cpu"})") == "\"kind\": is not that of like");
}

TEST_CASE("a network's efficiencies by the number of nodes") {
  const auto points = [](const std::string& more) {
    return parse_cluster(nlohmann::json::parse(R"({"like": "h100")" + more + "}"),
                         {.where = "c",
                          .like =
                              [](const std::string&) {
                                Cluster cluster;
                                cluster.network_points = {{2, 0.9}, {4, 0.5}};
                                return cluster;
                              }})
        .network_points;
  };
  CHECK(points("").size() == 2);
  CHECK(points(R"(, "network_efficiency": 0.7)").empty());
  const std::string array = R"([{"nodes": 8, "efficiency": 0.3}, {"nodes": 2, "efficiency": 1}])";
  for (const std::string& value : {array, R"({"value": )" + array + R"(, "source": "measured"})"}) {
    const auto read = points(R"(, "network_efficiency": 0.7, "network_efficiencies": )" + value);
    REQUIRE(read.size() == 2);
    CHECK((read[0].num_nodes == 2 && read[1].num_nodes == 8));
    CHECK((read[0].efficiency == 1 && read[1].efficiency == 0.3));
  }
  const auto refused = [](const std::string& value) {
    return refusal(R"({"like": "h100", "network_efficiencies": )" + value + "}");
  };
  CHECK(refused("0.5") == "\"network_efficiencies\": expected an array of objects");
  CHECK(refused(R"([{"nodes": 2}])") == "\"efficiency\": is missing");
  CHECK(refused(R"([{"nodes": 2, "efficiency": 1, "part": 1}])") == "\"part\": is no known key");
  CHECK(refused(R"([{"nodes": 2, "efficiency": 1.2}])") ==
        "\"efficiency\": expected a number from 1e-6 to 1, got 1.2");
  CHECK(refused(R"([{"nodes": 2, "efficiency": 1}, {"nodes": 2, "efficiency": 0.5}])") ==
        "\"network_efficiencies\": two of them have the same nodes");
}

TEST_CASE("where sources are required, a number alone is refused") {
  const auto join = [](Cluster&, const std::string&) {};
  const nlohmann::json json = nlohmann::json::parse(kGpuFile);
  CHECK(parse_cluster(json, {.where = "c", .join = join}).multiprocessors == 10);
  CHECK_THROWS_WITH(
      parse_cluster(json, {.where = "c", .sources_required = true, .join = join}),
      "c: \"devices_per_node\": expected {\"value\": number, \"source\": text}, got 4");
  const nlohmann::json points =
      nlohmann::json::parse(R"({"efficiencies": [{"nodes": 2, "efficiency": 1}]})");
  CHECK(network_points_in(points, "efficiencies", {.where = "c"}).size() == 1);
  CHECK_THROWS_WITH(
      network_points_in(points, "efficiencies", {.where = "c", .sources_required = true}),
      "c: \"efficiencies\": its source is missing");
}

TEST_CASE("wrong measurements are refused") {
  const auto changed = [](const std::string& before, const std::string& after) {
    return refusal(with(kGpuFile, before, after));
  };
  CHECK(changed("\"kernels\": [", "\"kernels\": [3, ") ==
        "\"kernels\": expected an array of objects");
  CHECK(changed("\"m\": 8", "\"m\": 0") == "\"m\": expected a whole number from 1, got 0");
  CHECK(changed("\"k\": 10, ", "") == "\"k\": is missing");
  CHECK(changed("\"bytes\": 100, ", "")
            .starts_with("\"kernels\": expected m, n, k or flops or bytes in each, got {"));
  CHECK(changed("\"bytes\": 50", "\"bytes\": 100") ==
        "\"kernels\": two points of \"gelu_forward\" have the same work");
  CHECK(changed("\"bytes\": 50", "\"flops\": 50") ==
        "\"kernels\": \"gelu_forward\" has points in flops and points in bytes");
  const std::string point = R"({"name": "all_reduce", "ranks": 2, "bytes": 8, "seconds": 1e-6})";
  CHECK(changed(point, point + ", " + point) ==
        "\"collectives\": two points have the same name, ranks and bytes");
  CHECK(changed("\"dtype\": \"fp32\"", "\"dtype\": \"fp8\"") == "\"dtype\": \"fp8\" is none");
  CHECK(changed("\"seconds\": 0.1", "\"seconds\": 0") ==
        "\"seconds\": expected a number from 1e-12, below 1e6, got 0");
  CHECK(changed("\"all_reduce\"", "\"send\"") == "\"name\": \"send\" is none");
  CHECK(changed("\"ranks\": 2", "\"rank\": 2") == "\"rank\": is no known key");
}

}  // namespace
}  // namespace ladder
