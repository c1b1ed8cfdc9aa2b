#include "tests/kernels/arguments.h"

#include <string>

namespace ladder::testing {
namespace {

constexpr DType kDTypes[] = {DType::fp32, DType::fp64, DType::int32, DType::bf16, DType::fp16};

// The kernel throws an Error that names it and the argument; `name` null: some argument.
void require_refused(const Kernel& kernel, const Views& views, const char* name) {
  std::string what;
  try {
    kernel.call(views);
    FAIL("no error");
  } catch (const Error& error) {
    what = error.what();
  }
  INFO(what);
  CHECK(what.find(kernel.name) != std::string::npos);
  CHECK(what.find('\n') == std::string::npos);
  bool named = false;
  for (const Argument& argument : kernel.arguments) {
    if (name != nullptr && std::string(name) != argument.name) continue;
    named = named || what.find(concat("`", argument.name, "`")) != std::string::npos;
  }
  CHECK(named);
}

Shape with_one_more_dim(const Shape& s) {
  return s.num_dims() == 1   ? Shape{s[0], 1}
         : s.num_dims() == 2 ? Shape{s[0], s[1], 1}
                             : Shape{s[0], s[1], s[2], 1};
}

Shape with_last_less(const Shape& s) {
  return s.num_dims() == 1   ? Shape{s[0] - 1}
         : s.num_dims() == 2 ? Shape{s[0], s[1] - 1}
                             : Shape{s[0], s[1], s[2] - 1};
}

// May argument i be of `dtype` where the leading one is of x?
bool may_be(const Kernel& kernel, size_t i, DType dtype, DType x) {
  const bool is_sum = accumulation_dtype(dtype) == dtype;
  if (i == kernel.first) return dtype != DType::int32 && (kernel.has_low_precision || is_sum);
  switch (kernel.arguments[i].kind) {
    case Kind::x:
      // The gradient of fp32 logits may be of a lower precision.
      return dtype == x ||
             (std::string(kernel.arguments[i].name) == "dlogits" && accumulation_dtype(dtype) == x);
    case Kind::sum:
      return dtype == accumulation_dtype(x);
    case Kind::either:
      return dtype == x || dtype == accumulation_dtype(x);
    case Kind::any:
      return dtype != DType::int32;
    case Kind::int32:
      return dtype == DType::int32;
    case Kind::fp64:
      return dtype == DType::fp64;
  }
  return false;
}

DType dtype_of_kind(Kind kind, DType x) {
  if (kind == Kind::int32) return DType::int32;
  if (kind == Kind::fp64) return DType::fp64;
  return kind == Kind::sum ? accumulation_dtype(x) : x;
}

void damage(const Kernel& kernel, const Views& good, size_t i) {
  const TensorView view = good[i];
  const bool is_first = i == kernel.first;
  const char* const name = kernel.arguments[i].name;
  const auto refused = [&](const TensorView& bad, const char* blamed) {
    Views views = good;
    views[i] = bad;
    require_refused(kernel, views, blamed);
  };
  const auto with_dtype = [&](DType dtype) {
    return TensorView(view.data(), dtype, view.device(), view.shape());
  };
  const auto with_shape = [&](const Shape& shape) {
    return TensorView(view.data(), view.dtype(), view.device(), shape);
  };
  if (!kernel.arguments[i].may_be_empty) refused({}, name);
  const bool on_cpu = view.device() == DeviceType::cpu;
  const DeviceType elsewhere = on_cpu ? cuda_device_of_build() : DeviceType::cpu;
  refused(TensorView(view.data(), view.dtype(), elsewhere, view.shape()), name);
  const DType x = good[kernel.first].dtype();
  for (DType dtype : kDTypes) {
    if (!may_be(kernel, i, dtype, x)) refused(with_dtype(dtype), name);
  }
  if (kernel.any_shape && kernel.arguments.size() == 1) return;
  refused(with_shape(with_one_more_dim(view.shape())),
          is_first && kernel.any_shape ? nullptr : name);
  if (kernel.arguments[i].last_is_free) return;
  refused(with_shape(with_last_less(view.shape())), nullptr);
}

void require_refuses_all(const Kernel& kernel, DType x) {
  std::vector<Tensor> tensors;  // zeros: valid tokens and targets
  Views good;
  for (const Argument& argument : kernel.arguments) {
    // Room for the damage that makes a view larger, or its elements.
    const Shape room{4 * argument.shape.num_elements()};
    tensors.emplace_back(memory(), Category::workspace, dtype_of_kind(argument.kind, x), room);
    good.push_back(tensors.back().view().elements(0, argument.shape));
  }
  INFO(kernel.name << " of " << name_of(x));
  REQUIRE_NOTHROW(kernel.call(good));
  for (size_t i = 0; i < good.size(); ++i) {
    INFO("damaged: " << kernel.arguments[i].name);
    damage(kernel, good, i);
  }
}

}  // namespace

void require_refusals(std::span<const Kernel> kernels) {
  const OnDevice on = on_every_device();
  for (const Kernel& kernel : kernels) {
    for (DType x : floats()) {
      if (kernel.has_low_precision || accumulation_dtype(x) == x) require_refuses_all(kernel, x);
    }
  }
}

}  // namespace ladder::testing
