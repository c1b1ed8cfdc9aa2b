// What a run writes to disk.
#include "common/train/run/outputs.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "common/io/dump_name.h"
#include "common/io/path.h"
#include "common/io/safetensors.h"
#include "common/model/train_choice.h"
#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("a dump folder is made where it is missing, and goes again if nothing comes into it") {
  const TestFolder folder;
  {
    const DumpFolder dump(folder / "a/b/c", 1);
    CHECK(folder.list("a/b/c").empty());
  }
  CHECK(folder.list().empty());
  fs::create_directory(folder / "a");
  {
    const DumpFolder dump(folder / "a/b/c/", 1);
    CHECK(folder.list("a/b/c").empty());
    folder.write("a/b/x", "");
  }
  CHECK(folder.list("a/b") == std::vector<std::string>{"x"});
  fs::create_directory(folder / "a/b/c");
  { const DumpFolder dump(folder / "a/b/c", 1); }  // there already
  CHECK(folder.list("a/b/c").empty());
  folder.write("a/b/c/step_000001.safetensors", "old");
  { const DumpFolder dump(folder / "a/b/c", 1); }
  CHECK(lines_of(folder / "a/b/c/step_000001.safetensors") == std::vector<std::string>{"old"});
  CHECK(folder.list("a/b/c").size() == 1);
}

// The message of the UserError that --dump `path` is refused with; "" if it is not.
std::string dump_refusal(const std::string& path, int64_t num_steps = 1) {
  try {
    const DumpFolder dump(path, num_steps);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a dump folder has one run at a time") {
  const TestFolder folder;
  {
    const DumpFolder first(folder / "dump", 1);
    fs::create_symlink("dump", folder / "link");
    for (const char* name : {"dump", "./dump", "link"}) {
      CHECK(dump_refusal(folder / name) ==
            concat("--dump ", folder / name,
                   ": another run is writing there; name a folder for each"));
    }
    CHECK(dump_refusal(folder / "other") == "");
  }
  CHECK(dump_refusal(folder / "dump") == "");
}

TEST_CASE("where one output cannot be written, nothing is left of the others") {
  const TestFolder folder;
  RunConfig config;
  config.dump = folder / "new/dump";
  config.trace = folder / "trace";
  const auto fault = [&] {
    std::string text;
    try {
      const OutputFiles files(config);
    } catch (const UserError& error) {
      text = error.what();
    }
    CHECK(folder.list().empty());
    return text;
  };
  config.draw = folder / "drawing";
  CHECK(fault() == "");
  config.draw = folder / "none/drawing";
  CHECK_THAT(fault(), StartsWith("--draw "));
  config.draw = "";
  config.metrics = folder / "none/metrics";
  CHECK_THAT(fault(), StartsWith("--metrics "));
  config.metrics = folder / "new/dump/metrics";  // in the folder that --dump makes
  CHECK(fault() == "");
  config.tensorboard = folder / "new/board";
  CHECK(fault() == "");
  config.trace = folder / "none/trace";
  CHECK_THAT(fault(), StartsWith("--trace "));
  config.tensorboard = "/proc/self";
  CHECK_THAT(fault(), StartsWith("--tensorboard "));
}

TEST_CASE(
    "a dump has the parameters of a model with frozen ones, and the rest of what is trained") {
  const TestFolder folder;
  ModelConfig config = {
      .num_layers = 2, .num_heads = 1, .hidden = 8, .vocab_size = 5, .sequence_length = 3};
  config.frozen = frozen_names(config, "last-1");
  const ModelDescription model = describe(config);
  const std::vector<double> ones(1000, 1);
  std::set<std::string> expected = {"loss", "grad_norm"};
  write_dump(folder / "", 1, {}, model, DType::fp64,
             [&](std::string_view kind, const TensorSink& sink) {
               if (kind == kMomentum) return;  // AdamW keeps none
               for (const UnitSpec& unit : model.units) {
                 const bool is_trained = unit.name == "h.1" || unit.name == "ln_f";
                 for (const ParameterSpec& parameter : unit.parameters) {
                   if (kind != kParam && !is_trained) continue;  // as FullTensors has it
                   expected.insert(concat(kind, ".", parameter.name));
                   sink(parameter, {ones.data(), DType::fp64, DeviceType::cpu, parameter.shape});
                 }
               }
             });
  const SafetensorsReader dump(folder / dump_name(1));
  std::set<std::string> names;
  for (const SafetensorsEntry& entry : dump.entries()) names.insert(entry.name);
  CHECK(names == expected);
  CHECK(names.contains("param.wte.weight"));
  CHECK(!names.contains("grad.wte.weight"));
}

TEST_CASE("metrics and board of a resumed run go on where its checkpoint was made") {
  const TestFolder folder;
  RunConfig config;
  config.metrics = folder / "metrics";
  config.tensorboard = folder / "board";
  const Memory memory(DeviceType::cpu, "device", 0);
  const auto write_step = [&](int64_t step, int64_t resumed_step) {
    OutputFiles files(config, resumed_step);
    files.metrics->write({step, {}, 1, 1, std::nullopt, std::nullopt}, memory);
    files.board->write({step, {}, 1, 1, std::nullopt, std::nullopt}, memory);
  };
  write_step(1, 0);
  write_step(2, 1);
  CHECK(lines_of(config.metrics).size() == 2);
  CHECK(folder.list("board").size() == 2);
  CHECK_THROWS_WITH(OutputFiles(config), StartsWith("--tensorboard "));
  config.tensorboard = "";
  folder.write("metrics", "In the beginning\n");
  CHECK_THROWS_WITH(OutputFiles(config, 2), StartsWith("--metrics "));
  CHECK_NOTHROW(OutputFiles(config));
}

TEST_CASE("a run that resumes nothing leaves curves alone that it has not begun") {
  const TestFolder folder;
  RunConfig config;
  config.checkpoint.path = folder / "typo";
  config.checkpoint.resume = true;
  config.metrics = folder / "metrics";
  config.tensorboard = folder / "board";
  const Memory memory(DeviceType::cpu, "device", 0);
  const auto write_step = [&](const std::set<std::string>& begun) {
    OutputFiles files(config, 0, begun);
    if (files.metrics) files.metrics->write({1, {}, 1, 1, std::nullopt, std::nullopt}, memory);
    if (files.board) files.board->write({1, {}, 1, 1, std::nullopt, std::nullopt}, memory);
  };
  write_step({});  // there are none yet
  const std::string metrics = lines_of(config.metrics).at(0);
  const std::vector<std::string> board = folder.list("board");
  const std::string why = concat(": has the curves of an earlier run, but --resume finds no ",
                                 "checkpoint of it in --checkpoint ", folder / "typo",
                                 "; name the folder that has it, or another place for the curves");
  CHECK_THROWS_WITH(write_step({}), concat("--metrics ", config.metrics, why));
  CHECK_THROWS_WITH(write_step({whole_path(config.metrics)}),
                    concat("--tensorboard ", config.tensorboard, why));
  CHECK_THROWS_AS(write_step({}), UserError);
  CHECK(lines_of(config.metrics) == std::vector<std::string>{metrics});
  CHECK(folder.list("board") == board);
  write_step(curves_of(config));  // they are those of a run that was killed early
  CHECK(folder.list("board").size() == 2);
  config.checkpoint.resume = false;
  config.tensorboard = "";
  CHECK_NOTHROW(write_step({}));
}

TEST_CASE("dumps of a longer run do not stay among those of a shorter one") {
  const TestFolder folder;
  folder.write("step_000003.safetensors", "");
  folder.write("step_1000000.safetensors.partial-abcdef", "");  // what a killed run has left
  folder.write("step_9.safetensors", "");                       // not called like a dump
  CHECK(dump_refusal(folder.path(), 3) == "");
  CHECK(dump_refusal(folder.path(), 2) ==
        concat("--dump ", folder.path(), ": has dumps of a longer run, such as ",
               "\"step_000003.safetensors\", which would stay among the 2 steps of this one; ",
               "remove them, or name another folder"));
  CHECK_THAT(dump_refusal(folder.path(), 1), ContainsSubstring("among the 1 step of this one"));
}

TEST_CASE("a dump folder that cannot be is the user's error") {
  const TestFolder folder;
  folder.write("file", "text");
  for (const std::string& path : {folder / "file", folder / "file/below"}) {
    CHECK_THAT(dump_refusal(path), StartsWith("--dump " + path + ": "));
  }
  fs::create_directories(folder / "taken/step_000001.safetensors");
  CHECK_THAT(dump_refusal(folder / "taken"), ContainsSubstring("it is a folder"));
  // Nobody, root included, makes files there.
  CHECK_THAT(dump_refusal("/proc/self"), StartsWith("--dump /proc/self: "));
  CHECK(folder.list() == std::vector<std::string>{"file", "taken"});
}

// A small number for each kind of tensor.
int number_of(std::string_view kind) {
  return static_cast<int>(std::ranges::find(kDumpedKinds, kind) - std::begin(kDumpedKinds));
}

// Tensors whose elements tell kind and place: number of the kind + i / 1024.
void visit(const ModelDescription& model, DType dtype, Memory& memory, std::string_view kind,
           const TensorSink& sink) {
  if (kind == kMomentum) return;  // AdamW keeps none
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& p : unit.parameters) {
      const Tensor tensor(memory, Category::workspace, dtype, p.shape);
      dispatch_accumulation(dtype, [&](auto zero) {
        using T = decltype(zero);
        for (size_t i = 0; i < p.shape.num_elements(); ++i) {
          tensor.view().as<T>()[i] = static_cast<T>(number_of(kind)) + static_cast<T>(i) / 1024;
        }
      });
      sink(p, tensor);
    }
  }
}

TEST_CASE("a dump holds loss, norm and every tensor of every kind") {
  const TestFolder folder;
  const DType dtype = GENERATE(DType::fp32, DType::fp64);
  const ModelDescription model = describe({1, 2, 6, 10, 4});
  Memory memory(DeviceType::cpu, "host", 0);
  const StepResult result = {.loss = 0.1 + 0.2, .grad_norm = 5, .learning_rate = 1};
  write_dump(folder / "", 42, result, model, dtype,
             [&](std::string_view kind, const TensorSink& sink) {
               visit(model, dtype, memory, kind, sink);
             });
  CHECK(folder.list() == std::vector<std::string>{"step_000042.safetensors"});

  const SafetensorsReader reader(folder / "step_000042.safetensors");
  std::vector<std::string> expected = {"loss", "grad_norm"}, got;
  const auto read = [&](const std::string& name) {
    const SafetensorsEntry& entry = *reader.find(name);
    std::vector<double> values(entry.num_elements());
    reader.read(entry, {values.data(), DType::fp64, DeviceType::cpu, {values.size()}});
    return values;
  };
  for (const std::string kind : {"grad", "param", "exp_avg", "exp_avg_sq"}) {
    const std::string prefix = kind + ".";
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& p : unit.parameters) {
        expected.push_back(prefix + p.name);
        const SafetensorsEntry* entry = reader.find(prefix + p.name);
        REQUIRE(entry != nullptr);
        CHECK(entry->dtype == (dtype == DType::fp32 ? "F32" : "F64"));
        CHECK(entry->shape.size() == p.shape.num_dims());
        CHECK(entry->shape.back() == p.shape[p.shape.num_dims() - 1]);
        const std::vector<double> values = read(prefix + p.name);
        CHECK(values.front() == number_of(kind));
        CHECK(values.back() ==
              number_of(kind) + static_cast<double>(p.shape.num_elements() - 1) / 1024);
      }
    }
  }
  for (const SafetensorsEntry& entry : reader.entries()) got.push_back(entry.name);
  CHECK(got == expected);
  CHECK(reader.find("loss")->dtype == "F64");
  CHECK(reader.find("loss")->shape == std::vector<size_t>{1});
  CHECK(read("loss") == std::vector<double>{0.1 + 0.2});
  CHECK(read("grad_norm") == std::vector<double>{5});
}

TEST_CASE("a dump that fails on its way leaves the one before") {
  const TestFolder folder;
  folder.write("step_000001.safetensors", "good");
  CHECK_THROWS_WITH(write_dump(folder / "", 1, {}, describe({1, 2, 6, 10, 4}), DType::fp32,
                               [](std::string_view, const TensorSink&) { fail("broken"); }),
                    ContainsSubstring("broken"));
  CHECK(lines_of(folder / "step_000001.safetensors") == std::vector<std::string>{"good"});
  CHECK(folder.list().size() == 1);
}

}  // namespace
}  // namespace ladder
