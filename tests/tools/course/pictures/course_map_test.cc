#include "tools/course/pictures/course_map.h"

#include "tests/catch.h"
#include "tests/common/io/picture_check.h"
#include "tests/tools/course/pictures/svg_text.h"

namespace ladder {
namespace {

using testing::count_text;
using testing::rects_of;

size_t num_arrows(const std::string& map) {
  size_t arrows = 0;
  for (size_t at = map.find("class=\"head\""); at != map.npos;
       at = map.find("class=\"head\"", at + 1)) {
    ++arrows;
  }
  return arrows;
}

TEST_CASE("the core path stands below itself, and what needs it to the right of it") {
  const std::string map = course_map({{"01_a", {}},
                                      {"02_b", {"01_a"}},
                                      {"03_c", {"02_b"}},
                                      {"04_d", {"03_c"}},
                                      {"05_e", {"02_b"}},
                                      {"06_f", {"04_d", "02_b", "07_g"}},
                                      {"07_g", {"01_a"}}},
                                     {"01_a", "02_b", "07_g"});
  // 01
  // 02 -> 03 -> 04 -> 06
  //    -> 05
  // 07
  // From 02 to 06 there is another way; 07 is read after 06.
  CHECK(num_arrows(map) == 6);
  for (const std::string title : {"01 a", "02 b", "03 c", "04 d", "05 e", "06 f", "07 g"}) {
    CHECK(count_text(map, title) == 1);
  }
  CHECK(rects_of(map, "plain") == std::vector<std::string>{"294.7 38 12 12",  // the legend's
                                                           "208 120 142 40", "376 120 142 40",
                                                           "208 174 142 40", "544 120 142 40"});
  CHECK(testing::picture_findings(map).empty());
}

// Three more of them, which the course may get: 18 adds its idea to 01 and 09, 20 to 03, 21 to 05.
TEST_CASE("lessons that are added find a cell, and their arrows a way past the boxes") {
  LessonGraph graph = {
      {"00_collectives", {}},
      {"01_single_gpu", {}},
      {"02_ddp", {"01_single_gpu"}},
      {"03_zero1", {"02_ddp"}},
      {"04_zero2", {"03_zero1"}},
      {"05_zero3", {"04_zero2"}},
      {"06_offload", {"05_zero3"}},
      {"07_tensor_parallel", {"01_single_gpu"}},
      {"08_pipeline_parallel", {"01_single_gpu"}},
      {"09_3d_parallel", {"08_pipeline_parallel", "07_tensor_parallel", "10_mixed"}},
      {"10_mixed", {"03_zero1"}},
      {"12_gradient_compression", {"02_ddp"}},
      {"14_context_parallel", {"02_ddp"}},
      {"17_elastic", {"09_3d_parallel", "05_zero3"}},
      {"18_fine_tuning", {"01_single_gpu", "09_3d_parallel"}},
      {"19_planning", {"09_3d_parallel", "06_offload"}},
      {"20_muon", {"03_zero1"}},
      {"21_hybrid_shard", {"05_zero3"}}};
  const std::string map =
      course_map(graph, {"00_collectives", "01_single_gpu", "02_ddp", "03_zero1",
                         "07_tensor_parallel", "08_pipeline_parallel", "09_3d_parallel"});
  CHECK(testing::picture_findings(map) == std::vector<std::string>());
  CHECK(rects_of(map, "plain").size() == 1 + 11);
}

}  // namespace
}  // namespace ladder
