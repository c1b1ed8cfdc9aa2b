// What a cluster is like when another program's kernels run on it.
#include "common/cluster/cluster_text.h"
#include "common/io/printable.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

constexpr auto kBf16 = static_cast<size_t>(DType::bf16);

Cluster run_as(const std::string& text, const std::string& cluster = "a100-80x8") {
  const TestFolder folder;
  return read_cluster(cluster, folder.write("p.json", text));
}

// What read_cluster says of a program's file with this text, without the file's path.
std::string refusal(const std::string& text, const std::string& cluster = "a100-80x8") {
  const TestFolder folder;
  const std::string path = folder.write("p.json", text);
  try {
    read_cluster(cluster, path);
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    const size_t at = message.find(path);
    return at == 0 ? message.substr(path.size() + 2) : message;
  }
  return "";
}

TEST_CASE("Every known program runs on some device, and its numbers have sources") {
  const std::vector<std::string> programs = known_programs();
  CHECK(programs.size() >= 6);
  for (const std::string& program : programs) {
    size_t num_devices = 0;
    for (const std::string& device : known_devices()) {
      try {
        const Cluster cluster = read_cluster(device, program);
        CHECK(cluster.program.name == program);
        ++num_devices;
      } catch (const UserError& error) {
        CHECK(std::string(error.what()).find("\"devices\": has ") != std::string::npos);
      }
    }
    CAPTURE(program);
    CHECK(num_devices > 0);
  }
}

TEST_CASE("A program changes what depends on it, and nothing else") {
  const Cluster known = read_cluster("a100-80x8x64"),
                megatron = read_cluster("a100-80x8x64", "megatron-2022");
  CHECK(known.program.name.empty());
  CHECK(megatron.name == known.name);
  CHECK(megatron.product_efficiency[kBf16] < known.product_efficiency[kBf16]);
  CHECK(megatron.memory_efficiency < known.memory_efficiency);
  CHECK(megatron.launch_seconds > known.launch_seconds);
  const OtherProgram& program = megatron.program;
  CHECK((program.attention_forward_score_bytes == 8 && !program.recomputes_attention));
  CHECK((program.host_waits_for_passes && !known.program.host_waits_for_passes));
  CHECK(program.instead_of("matmul_residual").launches == 2);
  CHECK(known.program.instead_of("matmul_residual").launches == 1);
  CHECK(megatron.product_flops == known.product_flops);
  CHECK(megatron.memory_bandwidth == known.memory_bandwidth);
  CHECK(megatron.node_link.rate() == known.node_link.rate());
  CHECK(megatron.network.rate() == known.network.rate());
}

TEST_CASE("A program is like another, and knows devices by name or by what they begin with") {
  const Cluster selective = read_cluster("a100-80", "megatron-2022-selective"),
                megatron = read_cluster("a100-80", "megatron-2022");
  CHECK(selective.program.recomputes_attention);
  CHECK(selective.launch_seconds == megatron.launch_seconds);
  CHECK(selective.program.name == "megatron-2022-selective");
  CHECK(selective.program.kernels.size() == megatron.program.kernels.size());

  const std::string text = R"({"about": "p", "launch_seconds": 1e-5, "devices": {
      "a100": {"memory_efficiency": 0.5}, "a100-40": {"memory_efficiency": 0.6}}})";
  CHECK(run_as(text, "a100-80x8").memory_efficiency == 0.5);
  CHECK(run_as(text, "a100-40x8").memory_efficiency == 0.6);
  CHECK(run_as(text).launch_seconds == 1e-5);
  const TestFolder folder;  // a cluster's file that is like a device
  const std::string file = folder.write("c.json", R"({"like": "a100-80", "devices_per_node": 4})");
  CHECK(run_as(text, file).memory_efficiency == 0.5);
}

TEST_CASE("Attention's efficiency is the forward's, and the backward's keeps its ratio") {
  const Cluster known = read_cluster("a100-80x8");
  const Cluster other = run_as(R"({"about": "p", "attention_efficiency": 0.48})");
  CHECK(other.attention_forward_efficiency == 0.48);
  CHECK(other.attention_backward_efficiency / other.attention_forward_efficiency ==
        Approx(known.attention_backward_efficiency / known.attention_forward_efficiency));
}

TEST_CASE("A program says what runs instead of a kernel") {
  const OtherProgram program = run_as(R"({"about": "p", "instead_of": {"matmul": {"launches": 2},
                                              "add": {"more_bytes": 0.5, "source": "counted"}}})")
                                   .program;
  CHECK(program.instead_of("add").more_bytes == 0.5);
  CHECK(program.instead_of("add").launches == 1);
  CHECK(program.instead_of("matmul").more_bytes == 0);
  CHECK(program.instead_of("matmul").launches == 2);
  for (const char* other : {"a", "b", "z"}) CHECK(program.instead_of(other).launches == 1);
  const OtherProgram known = read_cluster("a100-80", "megatron-2022").program,
                     like = run_as(R"({"about": "p", "like": "megatron-2022",
                                       "instead_of": {"add_residual": {"launches": 7}}})")
                                .program;
  CHECK(like.kernels.size() == known.kernels.size());
  CHECK(like.instead_of("add_residual").launches == 7);
  CHECK(like.instead_of("matmul_residual").launches == 2);
}

TEST_CASE("Numbers that one program has of another are that one's") {
  CHECK(read_cluster("a100-80", "megatron-2022").launch_seconds ==
        read_cluster("a100-80", "vtrain").launch_seconds);
  // A host that waits for each kernel is a gap as long as a launch.
  CHECK(read_cluster("a100-80", "bloom").least_kernel_seconds ==
        read_cluster("a100-80", "megatron-2021").launch_seconds);
}

TEST_CASE("A wrong program is refused in one line") {
  CHECK(refusal(R"({"about": "p", "recomputes_attention": "yes"})") ==
        "\"recomputes_attention\": expected true or false");
  CHECK(refusal(R"({"about": "p", "instead_of": []})") == "\"instead_of\": expected an object");
  CHECK(refusal(R"({"about": "p", "instead_of": {"add": 2}})") == "\"add\": expected an object");
  CHECK(refusal(R"({"about": "p", "instead_of": {"add": {"launches": 0}}})") ==
        "add: \"launches\": expected a whole number from 1, got 0");
  CHECK(refusal(R"({"about": "p", "instead_of": {"add": {"bytes": 1}}})") ==
        "add: \"bytes\": is no known key");
  CHECK(refusal(R"({"about": "p", "recomputes_attention": true})") == "");
  CHECK(refusal("{}") == "\"about\": is missing");
  CHECK(refusal(R"({"about": "p", "clock": 1e9})") == "\"clock\": is no known key");
  CHECK(refusal(R"({"about": "p", "memory_efficiency": 1.5})") ==
        "\"memory_efficiency\": expected a number from 1e-6 to 1, got 1.5");
  CHECK(refusal(R"({"about": "p", "attention_forward_score_bytes": 8})") ==
        "\"attention_forward_score_bytes\": and attention_backward_score_bytes go together");
  CHECK(refusal(R"({"about": "p", "devices": []})") == "\"devices\": expected an object");
  CHECK(refusal(R"({"about": "p", "devices": {"a100": 1}})") == "\"a100\": expected an object");
  CHECK(refusal(R"({"about": "p", "devices": {"a100": {"clock": 1}}})") ==
        "\"clock\": is no known key");
  CHECK(refusal(R"({"about": "p", "devices": {"a100-40": {}, "h100": {}}})") ==
        "\"devices\": has a100-40, h100, not NVIDIA A100 SXM 80 GB");
  CHECK(refusal(R"({"about": "p", "like": "./p.json"})") == "\"like\": expected a known program");
  CHECK(refusal(R"({"about": "p", "like": "q"})")
            .starts_with("\"like\": unknown program \"q\"; known are bloom, flash-attention-2, "));
  const TestFolder folder;
  const std::string measured = folder.write("c.json", R"({"like": "a100-80", "kernels": [
      {"name": "gelu_forward", "dtype": "fp32", "busy_ranks": 1, "bytes": 8, "seconds": 1}]})");
  CHECK_THROWS_WITH(read_cluster(measured, "megatron-2022"),
                    "program \"megatron-2022\": " + quoted_name(measured) +
                        " has measured kernels, which are the lessons'");
  CHECK(read_cluster(measured, "ladder").kernels.size() == 1);
}

TEST_CASE("A program that is refused is the one that was asked for, on every device") {
  size_t num_refused = 0;
  for (const std::string& program : known_programs()) {
    for (const std::string& device : known_devices()) {
      CAPTURE(program, device);
      try {
        read_cluster(device, program);
      } catch (const UserError& error) {
        CHECK(std::string(error.what()).starts_with("program " + program + ": "));
        ++num_refused;
      }
    }
  }
  CHECK(num_refused > 40);
  CHECK_THROWS_WITH(read_cluster("h100x8", "megatron-2022"),
                    "program megatron-2022: \"devices\": has a100, not NVIDIA H100 SXM 80 GB");
  // Its own file has values for the device, but not the program that it is like.
  CHECK(refusal(R"({"about": "p", "like": "vtrain", "devices": {"h100": {}}})", "h100") ==
        "\"like\": program vtrain: \"devices\": has a100, not NVIDIA H100 SXM 80 GB");
}

TEST_CASE("What a program has for a chip holds for all devices with it") {
  const Cluster h100 = read_cluster("h100"), h200 = read_cluster("h200");
  CHECK(h200.product_flops == h100.product_flops);
  for (const std::string& program : known_programs()) {
    CAPTURE(program);
    const auto efficiency_on = [&](const std::string& device) {
      try {
        return read_cluster(device, program).memory_efficiency;
      } catch (const UserError&) {
        return 0.0;
      }
    };
    CHECK(efficiency_on("h200") == efficiency_on("h100"));
    CHECK(efficiency_on("a100-40") == efficiency_on("a100-80"));
  }
  CHECK(read_cluster("h200", "pytorch-fsdp").program.device == "h100");
  CHECK(run_as(R"({"about": "p", "devices": {"h200": {"memory_efficiency": 0.4}, "h100": {}}})",
               "h200")
            .memory_efficiency == 0.4);  // its own come first
  const TestFolder folder;               // a device of the user's
  const std::string file =
      folder.write("c.json", R"({"like": "rtx3090", "chip": "h100", "devices_per_node": 4})");
  CHECK(read_cluster(file, "nanotron").program.device == "h100");
}

TEST_CASE("The lists have all that is known, with what it is") {
  const std::string clusters = cluster_list(), programs = program_list();
  for (const std::string& device : known_devices()) {
    CHECK_THAT(clusters, ContainsSubstring("\n  " + device + " "));
    CHECK_THAT(clusters, ContainsSubstring(read_cluster(device).device));
  }
  for (const std::string& program : known_programs()) {
    CHECK_THAT(programs, ContainsSubstring("\n  " + program + " ("));
  }
  CHECK_THAT(programs, ContainsSubstring("pytorch-fsdp (a100-40, a100-80, h100, h200): MPT of"));
}

TEST_CASE("What is assumed is said with the flag that changes it, and not if it was given") {
  const auto said = [](const std::string& name, size_t num_ranks, const std::string& program = "") {
    return assumptions(read_cluster(name, program), num_ranks, DType::bf16);
  };
  const std::string named = said("h100x8x2", 16);
  CHECK_THAT(named,
             ContainsSubstring("network ib-8x400g: 400 GB/s a node, 0.94 of it reached, 14 us") &&
                 ContainsSubstring("--cluster NAME@NETWORK\n"));
  CHECK_THAT(named, ContainsSubstring("in a node: 450 GB/s, 0.817 of it reached, 3.4 us"));
  CHECK_THAT(named, ContainsSubstring("program: the lessons' kernels"));
  CHECK_THAT(named, ContainsSubstring("products 0.837, memory 0.9, attention 0.165 and 0.13"));
  CHECK_THAT(said("h100x8x2", 8), !ContainsSubstring("network"));
  CHECK_THAT(said("h100x8x2", 1), !ContainsSubstring("in a node"));
  CHECK_THAT(said("h100x8x2@efa-8x400g", 16),
             ContainsSubstring("0.34 to 0.9 of it reached") && !ContainsSubstring("@NETWORK"));
  const std::string fsdp = said("h200x8", 8, "pytorch-fsdp");
  CHECK_THAT(fsdp, !ContainsSubstring("the lessons' kernels"));
  CHECK_THAT(fsdp, ContainsSubstring("products 0.715") && ContainsSubstring("as on h100") &&
                       ContainsSubstring("--program FILE"));
  CHECK_THAT(said("a100-80", 1, "megatron-2022"), !ContainsSubstring("attention"));
}

}  // namespace
}  // namespace ladder
