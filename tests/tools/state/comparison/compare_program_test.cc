// The program as its user meets it: files, folders, exit statuses.
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/io/safetensors.h"
#include "tests/catch.h"

namespace ladder {
namespace {

namespace fs = std::filesystem;

using Doubles = std::vector<double>;

template <class T>
ConstTensorView view(const std::vector<T>& elements) {
  return {elements.data(), dtype_of<T>, DeviceType::cpu, {elements.size()}};
}

// A folder under TEST_TMPDIR, empty at first.
class Folder {
 public:
  explicit Folder(const std::string& name) {
    const char* const root = std::getenv("TEST_TMPDIR");
    path_ = fs::path(root != nullptr ? root : "/tmp") / name;
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

  using Named = std::vector<std::pair<std::string, Doubles>>;
  void put(const std::string& file, const Named& tensors) const {
    std::vector<SafetensorsWriter::Tensor> declared;
    for (const auto& [name, values] : tensors) {
      declared.push_back({name, DType::fp64, {values.size()}});
    }
    SafetensorsWriter writer(*this / file, declared);
    for (const auto& [name, values] : tensors) writer.write(view(values));
    writer.finish();
  }

 private:
  fs::path path_;
};

struct Outcome {
  int status;
  std::string text;
};

// Runs the program; its output, errors included, and its exit status.
Outcome run(const std::string& arguments) {
  const Folder folder("run");
  const std::string log = folder / "log";
  const int status =
      std::system(concat("env -u BUILD_WORKING_DIRECTORY tools/state/comparison/comparison ",
                         arguments, " > ", log, " 2>&1")
                      .c_str());
  std::ifstream in(log);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, {std::istreambuf_iterator<char>(in), {}}};
}

const std::string kStep1 = "step_000001.safetensors", kStep2 = "step_000002.safetensors";

TEST_CASE("the program compares files") {
  const Folder folder("files");
  folder.put("a", {{"x", {1, 2}}, {"y", {3}}});
  folder.put("b", {{"y", {3}}, {"x", {1, 2.5}}});
  folder.put("c", {{"x", {1, 2}}});
  folder.put("nan", {{"x", {std::nan("")}}});
  folder.put("none", {});
  const auto both = [&](const std::string& a, const std::string& b) {
    return (folder / a) + " " + (folder / b);
  };
  CHECK(run(both("a", "a")).status == 0);
  CHECK_THAT(run(both("a", "a")).text, ContainsSubstring("EQUAL bitwise: 2 tensors in 1 file"));
  const Outcome differs = run(both("a", "b"));
  CHECK(differs.status == 1);
  CHECK_THAT(differs.text, ContainsSubstring("FAIL  x") &&
                               ContainsSubstring("DIFFERENT (bitwise): 1 of 2") &&
                               !ContainsSubstring("FAIL  y") && !ContainsSubstring("pass  y"));
  CHECK_THAT(run(both("a", "b") + " --all").text, ContainsSubstring("pass  y"));
  CHECK(run(both("a", "b") + " --tolerance 0.2").status == 0);
  CHECK(run(both("a", "b") + " --tolerance 0.199").status == 1);
  CHECK(run(both("a", "c")).status == 1);
  CHECK(run(both("c", "a") + " --tolerance 1").status == 1);
  CHECK_THAT(run(both("c", "a")).text, ContainsSubstring("only in B"));
  CHECK(run(both("nan", "nan") + " --tolerance 1").status == 1);
  CHECK(run(both("a", "none")).status == 1);
  const Outcome nothing = run(both("none", "none"));
  CHECK(nothing.status == 2);
  CHECK_THAT(nothing.text, ContainsSubstring("nothing to compare"));
}

TEST_CASE("tensors of other shapes differ, even with as many elements") {
  const Folder folder("shapes");
  const Doubles six(6);
  for (const auto& [file, shape] : std::vector<std::pair<std::string, std::vector<size_t>>>{
           {"a", {2, 3}}, {"b", {3, 2}}, {"c", {1, 1, 1, 1, 2, 3}}}) {
    SafetensorsWriter writer(folder / file, {{"x", DType::fp64, shape}});
    writer.write(view(six));
    writer.finish();
  }
  CHECK(run((folder / "a") + " " + (folder / "b") + " --tolerance 1").status == 1);
  CHECK(run((folder / "a") + " " + (folder / "c") + " --tolerance 1").status == 1);
  CHECK(run((folder / "c") + " " + (folder / "c")).status == 0);
}

TEST_CASE("the rows of an embedding in a file are compared each by its own size") {
  const Folder folder("rows");
  const auto put = [&](const std::string& file, const std::string& name, double last) {
    SafetensorsWriter writer(folder / file, {{name, DType::fp64, {2, 2}}});
    writer.write(view(Doubles{100, 50, 1, last}));
    writer.finish();
  };
  put("a", "wte.weight", 1);
  put("b", "wte.weight", 1.25);
  const std::string both = (folder / "a") + " " + (folder / "b");
  CHECK(run(both + " --tolerance 0.2").status == 0);
  const Outcome differs = run(both + " --tolerance 0.1");
  CHECK(differs.status == 1);
  CHECK_THAT(differs.text, ContainsSubstring("max rel 2.00e-01  (row 1)"));
  put("a", "h.0.mlp.c_fc.weight", 1);
  put("b", "h.0.mlp.c_fc.weight", 1.25);
  CHECK(run(both + " --tolerance 0.1").status == 0);
}

TEST_CASE("the program compares folders") {
  const Folder a("folder_a"), b("folder_b"), empty("folder_empty"), file("folder_file");
  const std::string both = a.path() + " " + b.path();
  a.put(kStep1, {{"x", {1}}});
  b.put(kStep1, {{"x", {1}}});
  std::ofstream(a / "notes.txt") << "not a dump";
  std::ofstream(b / (kStep1 + ".partial")) << "not a dump either";
  CHECK(run(both).status == 0);
  a.put(kStep2, {{"x", {1}}});
  CHECK(run(both).status == 1);
  CHECK_THAT(run(both).text,
             ContainsSubstring("step_000002.safetensors: only in A") &&
                 ContainsSubstring("0 of 1 tensors in 2 files, 1 of them on one side"));
  CHECK(run(b.path() + " " + a.path()).status == 1);
  CHECK_THAT(run(b.path() + " " + a.path()).text,
             ContainsSubstring("step_000002.safetensors: only in B"));
  b.put(kStep2, {{"x", {2}}});
  CHECK(run(both).status == 1);
  CHECK_THAT(run(both).text,
             ContainsSubstring("pass  " + kStep1) && ContainsSubstring("FAIL  " + kStep2));
  CHECK(run(both + " --tolerance 0.5").status == 0);
  CHECK(run(a.path() + " " + empty.path()).status == 2);
  CHECK_THAT(run(a.path() + " " + empty.path()).text, ContainsSubstring("folder_empty"));
  CHECK(run(a.path() + " " + (a / kStep1)).status == 2);
  CHECK_THAT(run(a.path() + " " + (a / kStep1)).text,
             ContainsSubstring("cannot compare a file with a folder"));
  CHECK(run(a.path() + " " + (a / "nowhere")).status == 2);
  CHECK_THAT(run(a.path() + " " + (a / "nowhere")).text,
             ContainsSubstring("nowhere: cannot be read: No such file"));
  CHECK(run(a.path() + " " + std::string(300, 'n')).status == 2);
}

TEST_CASE("the program applies the key-bias rule to the steps of folders") {
  const Folder a("keys_a"), b("keys_b");
  const std::string grad = "grad.h.0.attn.c_attn.bias", param = "param.h.0.attn.c_attn.bias";
  const auto put = [&](const Folder& folder, double gradient, double first, double second) {
    folder.put(kStep1, {{param, {1, first, 1}}, {grad, {1, gradient, 1}}});
    folder.put(kStep2, {{param, {1, second, 1}}, {grad, {1, gradient, 1}}});
  };
  const std::string arguments =
      a.path() + " " + b.path() + " --tolerance 1e-11 --learning-rate 1e-3 --epsilon 1e-8";
  // |g| = 1e-16: 1e-3 * 1e-16 / 1e-8 = 1e-11 a step, beside the tolerance of 1e-11.
  put(a, 1e-16, 0, 0);
  put(b, 1e-16, 1.9e-11, 2.9e-11);
  CHECK(run(arguments).status == 0);
  CHECK(run(arguments + " --learning-rate 1e-4").status == 2);  // a flag given twice
  CHECK(run(a.path() + " " + b.path() + " --tolerance 1e-11 --learning-rate 1e-4").status == 1);
  CHECK(run(a.path() + " " + b.path() + " --tolerance 1e-11 --epsilon 1e-7").status == 1);
  CHECK(run(a.path() + " " + b.path() + " --tolerance 1e-11").status == 0);
  CHECK(run((a / kStep2) + " " + (b / kStep2) + " --tolerance 1e-11").status == 0);
  put(b, 1e-16, 1.9e-11, 3.1e-11);
  CHECK(run(arguments).status == 1);
  put(b, 1e-16, 2.1e-11, 2.9e-11);
  CHECK(run(arguments).status == 1);
}

TEST_CASE("names of files do not command the terminal") {
  const Folder folder("names");
  folder.put("a\x1b[31m", {{"x\x1b[31m", {1}}});
  folder.put("b\x1b[31m", {{"x\x1b[31m", {2}}});
  const auto run_with = [&](const char* other) {
    return run(concat("'", folder / "a\x1b[31m", "' '", folder / other, "'"));
  };
  const Outcome differs = run_with("b\x1b[31m");
  CHECK(differs.status == 1);
  CHECK_THAT(differs.text, ContainsSubstring("a\\x1b[31m") && !ContainsSubstring("\x1b"));
  const Outcome missing = run_with("none\x1b[31m");
  CHECK(missing.status == 2);
  CHECK_THAT(missing.text, ContainsSubstring("none\\x1b[31m") && !ContainsSubstring("\x1b"));
}

TEST_CASE("wrong usage and damaged files are exit status 2") {
  const Folder folder("usage");
  folder.put("a", {{"x", {1}}});
  std::ofstream(folder / "damaged") << "not a tensor in sight";
  SafetensorsWriter writer(folder / "integers", {{"x", DType::int32, {1}}});
  writer.write(view(std::vector<int32_t>{1}));
  writer.finish();
  const std::string a = folder / "a", same = a + " " + a;
  CHECK(run("").status == 2);
  CHECK(run(a).status == 2);
  CHECK(run(same + " " + a).status == 2);
  CHECK(run(same + " --unknown").status == 2);
  for (const std::string value : {"-1", "-1e-11", "nan", "inf", "1e999", "abc", "1e-11x", "''"}) {
    INFO(value);
    CHECK(run(same + " --tolerance=" + value).status == 2);
    CHECK(run(same + " --learning-rate=" + value).status == 2);
    CHECK(run(same + " --epsilon=" + value).status == 2);
  }
  CHECK(run(same + " --tolerance -1").status == 2);
  CHECK(run(same + " --epsilon 0").status == 2);
  CHECK_THAT(run(same + " --tolerance=-1").text,
             ContainsSubstring("--tolerance") && ContainsSubstring("-1"));
  CHECK(run(a + " " + (folder / "damaged")).status == 2);
  CHECK_THAT(run(a + " " + (folder / "damaged")).text, ContainsSubstring("usage/damaged: "));
  CHECK(run(a + " " + (folder / "nowhere")).status == 2);
  CHECK(run((folder / "integers") + " " + (folder / "integers")).status == 2);
  CHECK(run("--help").status == 0);
}

}  // namespace
}  // namespace ladder
