#include "kernels/runtime/tensor.h"

#include <cstdint>
#include <utility>

#include "tests/catch.h"

namespace ladder {
namespace {

TEST_CASE("dtypes: sizes, names, dispatch") {
  CHECK(size_of(DType::fp32) == 4);
  CHECK(size_of(DType::fp64) == 8);
  CHECK(size_of(DType::int32) == 4);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::fp16) == 2);
  CHECK(name_of(DType::fp32) == "fp32");
  CHECK(name_of(DType::fp64) == "fp64");
  CHECK(name_of(DType::int32) == "int32");
  CHECK(name_of(DType::bf16) == "bf16");
  CHECK(name_of(DType::fp16) == "fp16");
  for (DType dtype : {DType::fp32, DType::fp64, DType::int32}) {
    CHECK(accumulation_dtype(dtype) == dtype);
  }
  CHECK(accumulation_dtype(DType::bf16) == DType::fp32);
  CHECK(accumulation_dtype(DType::fp16) == DType::fp32);
  const auto bytes = [](auto zero) { return sizeof zero; };
  CHECK(dispatch_float(DType::fp32, bytes) == 4);
  CHECK(dispatch_float(DType::fp64, bytes) == 8);
  CHECK(dispatch_float(DType::bf16, bytes) == 2);
  CHECK(dispatch_float(DType::fp16, bytes) == 2);
  const auto name = [](auto zero) { return name_of(dtype_of<decltype(zero)>); };
  for (DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
    CHECK(dispatch_float(dtype, name) == name_of(dtype));
  }
  CHECK(dispatch_accumulation(DType::fp32, bytes) == 4);
  CHECK(dispatch_accumulation(DType::fp64, bytes) == 8);
  CHECK_THROWS_WITH(dispatch_float(DType::int32, bytes), ContainsSubstring("int32"));
  CHECK_THROWS_WITH(dispatch_accumulation(DType::bf16, bytes), ContainsSubstring("bf16"));
}

TEST_CASE("shapes") {
  CHECK(Shape{}.num_elements() == 1);
  CHECK(Shape{3, 4, 5}.num_elements() == 60);
  CHECK(Shape{3, 0}.num_elements() == 0);
  CHECK(Shape{3, 4} == Shape{3, 4});
  CHECK(Shape{3, 4} != Shape{4, 3});
  CHECK(Shape{3, 4} != Shape{3, 4, 1});
  CHECK(Shape{12} != Shape{3, 4});
  CHECK(Shape{3, 4}.with_rows(7) == Shape{7, 4});
  CHECK(to_string(Shape{3, 4}) == "(3, 4)");
  CHECK(to_string(Shape{}) == "()");
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5}), Error);
}

TEST_CASE("a tensor is zero-filled, counted while it lives, and released") {
  Memory memory(DeviceType::cpu, "device", 0);
  {
    const Tensor tensor(memory, Category::gradients, DType::fp64, {3, 5});
    CHECK(memory.current()[Category::gradients] == 3 * 5 * 8);
    CHECK(tensor.dtype() == DType::fp64);
    CHECK(tensor.shape() == Shape{3, 5});
    for (size_t i = 0; i < 15; ++i) CHECK(tensor.view().as<double>()[i] == 0);
  }
  CHECK(memory.current().total() == 0);
  CHECK(memory.peak()[Category::gradients] == 120);
  CHECK(Tensor(memory, Category::gradients, DType::fp32, {3, 0}).view().empty());
  CHECK(memory.current().total() == 0);
}

TEST_CASE("moving a tensor moves its memory and leaves it empty") {
  Memory memory(DeviceType::cpu, "device", 0);
  Tensor a(memory, Category::parameters, DType::fp32, {10});
  a.view().as<float>()[3] = 5;
  Tensor b(std::move(a));
  CHECK(a.view().empty());  // NOLINT: what a moved-from tensor is, is the point
  CHECK(b.view().as<float>()[3] == 5);
  CHECK(memory.current().total() == 40);

  Tensor c(memory, Category::workspace, DType::fp64, {100});
  c = std::move(b);
  CHECK(b.view().empty());  // NOLINT
  CHECK(c.shape() == Shape{10});
  CHECK(c.view().as<float>()[3] == 5);
  CHECK(memory.current()[Category::workspace] == 0);  // c's own memory went back at once
  CHECK(memory.current().total() == 40);
  Tensor& same = c;
  c = std::move(same);
  CHECK(c.view().as<float>()[3] == 5);
  c = Tensor();
  CHECK(c.view().empty());
  CHECK(memory.current().total() == 0);
}

TEST_CASE("a tensor that does not fit is out of memory; one of absurd extents too") {
  Memory capped(DeviceType::cpu, "device", 100), open(DeviceType::cpu, "device", 0);
  CHECK_THROWS_AS(Tensor(capped, Category::gradients, DType::fp64, {13}), OutOfMemory);
  const Tensor fits(capped, Category::gradients, DType::fp32, {25});
  // The first wraps to 4 bytes when multiplied in 64 bits, the others to a few elements or none.
  const size_t half = size_t{1} << 32;
  for (const Shape& shape : {Shape{(size_t{1} << 62) + 1}, Shape{half, half}, Shape{half, half + 1},
                             Shape{half, half, half, half}}) {
    INFO(to_string(shape));
    CHECK_THROWS_AS(Tensor(open, Category::gradients, DType::fp32, shape), Error);
  }
  CHECK(open.current() == MemoryUse{});
}

TEST_CASE("views: reshape, rows, elements") {
  Memory memory(DeviceType::cpu, "device", 0);
  const Tensor tensor(memory, Category::workspace, DType::fp32, {4, 6});
  const TensorView view = tensor;
  float* const data = view.as<float>();
  CHECK(view.num_elements() == 24);
  CHECK(view.num_bytes() == 96);
  CHECK(view.reshape({2, 12}).shape() == Shape{2, 12});
  CHECK(view.reshape({2, 12}).data() == data);
  CHECK_THROWS_AS(view.reshape({5, 5}), Error);

  CHECK(view.rows(1, 2).shape() == Shape{2, 6});
  CHECK(view.rows(1, 2).as<float>() == data + 6);
  CHECK(view.rows(4, 0).num_elements() == 0);
  CHECK_THROWS_AS(view.rows(3, 2), Error);
  CHECK_THROWS_AS(view.rows(5, 0), Error);
  CHECK_THROWS_AS(view.rows(1, SIZE_MAX), Error);  // first + count wraps around
  CHECK_THROWS_AS(TensorView(data, DType::fp32, DeviceType::cpu, {}).rows(0, 1), Error);

  CHECK(view.elements(5, {3, 2}).shape() == Shape{3, 2});
  CHECK(view.elements(5, {3, 2}).as<float>() == data + 5);
  CHECK(view.elements(23, {1}).as<float>() == data + 23);
  CHECK_THROWS_AS(view.elements(20, {5}), Error);
  CHECK_THROWS_AS(view.elements(25, {0}), Error);

  const ConstTensorView read_only = view;
  CHECK(read_only.as<float>() == data);
  CHECK(read_only.rows(1, 2).as<float>() == data + 6);
  static_assert(std::is_same_v<decltype(read_only.as<float>()), const float*>);
  static_assert(!std::is_convertible_v<ConstTensorView, TensorView>);
  CHECK_THROWS_AS(view.as<double>(), Error);
  CHECK(TensorView().empty());
  CHECK(!view.empty());
}

TEST_CASE("views: the first columns of a matrix, whose rows then lie apart") {
  Memory memory(DeviceType::cpu, "device", 0);
  const Tensor tensor(memory, Category::workspace, DType::fp32, {4, 6});
  float* const data = tensor.view().as<float>();
  const TensorView view = tensor.view().first_columns(5);
  CHECK(view.shape() == Shape{4, 5});
  CHECK(view.pitch() == 6);
  CHECK(!view.is_contiguous());
  CHECK(view.num_bytes() == 80);  // without what lies between the rows
  CHECK(view.rows(1, 2).as<float>() == data + 6);
  CHECK(view.rows(1, 2).pitch() == 6);
  CHECK(ConstTensorView(view).pitch() == 6);
  CHECK(view.first_columns(2).pitch() == 6);
  CHECK_THROWS_WITH(view.reshape({20}), ContainsSubstring("lie apart"));
  CHECK_THROWS_AS(view.elements(0, {5}), Error);
  CHECK_THROWS_AS(view.first_columns(6), Error);
  CHECK_THROWS_AS(tensor.view().reshape({24}).first_columns(1), Error);
  CHECK(tensor.view().first_columns(6).is_contiguous());
  CHECK(tensor.view().pitch() == 6);
  CHECK(tensor.view().rows(0, 0).pitch() == 0);
}

TEST_CASE("check_argument names the kernel, the argument and what is wrong") {
  Memory memory(DeviceType::cpu, "device", 0);
  const Tensor tensor(memory, Category::workspace, DType::fp32, {4, 6});
  const auto check_it = [&](const ConstTensorView& view, DType dtype, const Shape& shape) {
    check_argument("layernorm", "weight", view, DeviceType::cpu, dtype, shape);
  };
  CHECK_NOTHROW(check_it(tensor, DType::fp32, {4, 6}));
  const auto says = [](const char* what) {
    return ContainsSubstring(concat("layernorm: argument `weight` ", what));
  };
  CHECK_THROWS_WITH(check_it({}, DType::fp32, {4, 6}), says("is empty"));
  CHECK_THROWS_WITH(check_it(tensor, DType::fp64, {4, 6}), says("is fp32, expected fp64"));
  CHECK_THROWS_WITH(check_it(tensor, DType::fp32, {6, 4}),
                    says("has shape (4, 6), expected (6, 4)"));
  const TensorView apart = tensor.view().first_columns(5);
  CHECK_THROWS_WITH(check_it(apart, DType::fp32, {4, 5}), says("has rows that lie apart"));
  CHECK_NOTHROW(
      check_argument("matmul", "a", apart, DeviceType::cpu, DType::fp32, {4, 5}, Rows::apart));
}

TEST_CASE("check and fail name the place") {
  CHECK_NOTHROW(check(true, "fine"));
  CHECK_THROWS_WITH(check(false, "the reason"),
                    ContainsSubstring("the reason") && ContainsSubstring("tensor_test.cc"));
  CHECK_THROWS_AS(fail("x"), Error);
  CHECK(concat("rows ", 3, " of ", 2.5) == "rows 3 of 2.5");
}

}  // namespace
}  // namespace ladder
