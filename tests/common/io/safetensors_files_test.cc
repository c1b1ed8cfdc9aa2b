// Tensors that are divided among several files.
#include "common/io/safetensors_files.h"

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/common/io/test_files.h"

namespace ladder {
namespace {

using Names = std::vector<std::string>;

// A folder that the tests fill with files of tensors and an index.
class Model : public TestFolder {
 public:
  // Writes a file whose tensors have four floats each: `number`, number + 1, ...
  void add_file(const std::string& name, const Names& tensors, float number) const {
    std::vector<SafetensorsWriter::Tensor> declared;
    for (const std::string& tensor : tensors) declared.push_back({tensor, DType::fp32, {4}});
    SafetensorsWriter writer(*this / name, declared);
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float> values(4);
      for (float& value : values) value = number++;
      writer.write(ConstTensorView(values.data(), DType::fp32, DeviceType::cpu, {4}));
    }
    writer.finish();
  }
  void add_index(const nlohmann::json& map) const {
    write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  }
  // What is said of the folder, without the path of the file that is named.
  std::string fault(const std::string& file = "") const {
    try {
      const SafetensorsFiles files(path());
    } catch (const UserError& error) {
      const std::string begin = path() + (file.empty() ? "" : "/" + file) + ": ";
      CHECK_THAT(error.what(), StartsWith(begin));
      return std::string(error.what()).substr(begin.size());
    }
    return "";
  }
};

constexpr const char* kIndex = "model.safetensors.index.json";

// Two files with the tensors a and c, and b.
void add_two_files(const Model& model) {
  model.add_file("one.safetensors", {"c", "a"}, 0);
  model.add_file("two.safetensors", {"b"}, 8);
  model.add_index({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "one.safetensors"}});
}

float first_of(const SafetensorsFiles& files, const std::string& name, size_t at = 0) {
  const SafetensorsEntry* const entry = files.find(name);
  REQUIRE(entry != nullptr);
  CHECK(entry->name == name);
  float value = -1;
  files.read_part(*entry, at, TensorView(&value, DType::fp32, DeviceType::cpu, {1}));
  return value;
}

TEST_CASE("a file, a folder with one and a folder with several are read alike") {
  const Model model;
  add_two_files(model);
  const SafetensorsFiles files(model.path());
  CHECK(files.entries().size() == 3);
  CHECK(first_of(files, "c") == 0);
  CHECK(first_of(files, "a", 3) == 7);
  CHECK(first_of(files, "b", 1) == 9);
  CHECK(files.find("d") == nullptr);
  CHECK(files_of_tensors(model.path()) ==
        Names{model / kIndex, model / "one.safetensors", model / "two.safetensors"});

  const SafetensorsFiles file(model / "one.safetensors");
  CHECK(file.entries().size() == 2);
  CHECK(first_of(file, "a") == 4);
  CHECK(files_of_tensors(model / "one.safetensors") == Names{model / "one.safetensors"});

  // transformers prefers this file, too.
  model.add_file("model.safetensors", {"a"}, 50);
  CHECK(first_of(SafetensorsFiles(model.path()), "a") == 50);
  CHECK(files_of_tensors(model.path()) == Names{model / "model.safetensors"});
}

TEST_CASE("a tensor that the index does not know is there all the same") {
  const Model model;
  add_two_files(model);
  model.add_index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  CHECK(first_of(SafetensorsFiles(model.path()), "c") == 0);
}

TEST_CASE("tensors that are missing or doubled are refused") {
  const Model model;
  add_two_files(model);
  model.add_index({{"a", "one.safetensors"}, {"b", "one.safetensors"}, {"c", "two.safetensors"}});
  CHECK(model.fault(kIndex) == "tensor \"b\" is not in one.safetensors");
  model.add_index({{"a", "one.safetensors"}, {"d", "two.safetensors"}});
  CHECK(model.fault(kIndex) == "tensor \"d\" is not in two.safetensors");
  model.add_file("two.safetensors", {"b", "a"}, 0);
  model.add_index({{"a", "one.safetensors"}, {"b", "two.safetensors"}});
  CHECK(model.fault("two.safetensors") ==
        concat("tensor \"a\" is also in ", model / "one.safetensors"));
  model.add_index({{"a", "none.safetensors"}});
  CHECK(model.fault("none.safetensors") == "cannot be read: No such file or directory");
}

TEST_CASE("an index that is damaged, or leads out of the folder, is refused") {
  const Model model;
  add_two_files(model);
  const std::string no_map = "\"weight_map\": expected an object that gives each tensor its file";
  for (const std::string text : {"{}", "{\"weight_map\": {}}", "{\"weight_map\": [1]}"}) {
    model.write(kIndex, text);
    CHECK(model.fault(kIndex) == no_map);
  }
  model.write(kIndex, "{\"weight_map\": {\"a\": \"one.safetensors\", \"a\": \"two.safetensors\"}}");
  CHECK(model.fault(kIndex) == "the key \"a\" is there twice");
  using Json = nlohmann::json;
  for (const Json& name :
       {Json("../one.safetensors"), Json(model / "one.safetensors"), Json("x/one.safetensors"),
        Json(".."), Json("."), Json(""), Json(3), Json(nullptr), Json(std::string("one\0", 4))}) {
    model.add_index({{"a\n", name}});
    CHECK_THAT(model.fault(kIndex),
               StartsWith("tensor \"a\\n\": expected the name of a file in this folder, got "));
  }
}

TEST_CASE("a folder without weights is refused with what to do") {
  const Model model;
  const std::string neither =
      "the folder has neither model.safetensors nor model.safetensors.index.json; ";
  CHECK(model.fault() == neither + "to start from one file in it, name the file");
  model.write("pytorch_model.bin", "");
  CHECK(model.fault() == neither + "load its pytorch_model.bin in transformers and save it anew");
  model.write("model.safetensors", "");
  CHECK_THAT(model.fault("model.safetensors"), ContainsSubstring("header"));
}

}  // namespace
}  // namespace ladder
