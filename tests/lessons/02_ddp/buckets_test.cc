// Buckets: which units they hold.
#include "lessons/02_ddp/buckets.h"
#include "tests/catch.h"

namespace ladder {
namespace {

constexpr ModelConfig kModel = {
    .num_layers = 3, .num_heads = 2, .hidden = 32, .vocab_size = 64, .sequence_length = 16};

TEST_CASE("buckets are whole units from the last to the first, and the token embedding is alone") {
  const Layout layout(kModel, 2);
  const size_t block = layout.unit(2).padded_elements * sizeof(float);
  for (size_t bytes : {size_t{1}, block - 1, block, block + 1, 2 * block, size_t{1} << 40}) {
    INFO(bytes << " bytes, a block has " << block);
    const std::vector<Bucket> buckets = make_buckets(layout, DType::fp32, bytes);
    size_t end = layout.num_elements(), unit_end = layout.units().size();
    for (const Bucket& bucket : buckets) {
      CHECK(bucket.offset + bucket.num_elements == end);
      CHECK(bucket.offset == layout.unit(bucket.last_unit).offset);
      CHECK(bucket.last_unit < unit_end);
      const bool is_closed_early = &bucket >= &buckets.back() - 1;  // by the embedding, or it is it
      CHECK((is_closed_early || bucket.num_elements * sizeof(float) >= bytes));
      end = bucket.offset;
      unit_end = bucket.last_unit;
    }
    CHECK(end == 0);
    CHECK(buckets.back().num_elements == layout.unit(0).padded_elements);
  }
  CHECK(make_buckets(layout, DType::fp32, 1).size() == layout.units().size());
  CHECK(make_buckets(layout, DType::fp32, size_t{1} << 40).size() == 2);
}

}  // namespace
}  // namespace ladder
