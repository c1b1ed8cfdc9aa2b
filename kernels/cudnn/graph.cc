#include "kernels/cudnn/graph.h"

#include <utility>

#include "kernels/runtime/check.h"

namespace ladder::cudnn {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type, std::string what)
    : what_(std::move(what)) {
  check_status(library().create_descriptor(type, &descriptor_), "cudnnBackendCreateDescriptor",
               what_);
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) library().destroy_descriptor(descriptor_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : what_(std::move(other.what_)), descriptor_(std::exchange(other.descriptor_, nullptr)) {}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     size_t count, const void* values) {
  const cudnnStatus_t status =
      library().set_attribute(descriptor_, name, type, static_cast<int64_t>(count), values);
  if (status == CUDNN_STATUS_SUCCESS) return;
  check_status(status, "cudnnBackendSetAttribute",
               concat(what_, ", attribute ", static_cast<int>(name)));
}

void Descriptor::finalize() {
  check_status(library().finalize(descriptor_), "cudnnBackendFinalize", what_);
}

Handle::Handle() { check_status(library().create(&handle_), "cudnnCreate", "a handle"); }
Handle::~Handle() { library().destroy(handle_); }

Form Form::transposed() const {
  Form form = *this;
  std::swap(form.extents[2], form.extents[3]);
  std::swap(form.strides[2], form.strides[3]);
  return form;
}

Form Form::as(cudnnDataType_t other) const { return {other, extents, strides}; }

Form Form::packed(cudnnDataType_t type, const Extents& extents) {
  Form form{type, extents, {}};
  int64_t stride = 1;
  for (size_t i = 4; i-- > 0; stride *= extents[i]) form.strides[i] = stride;
  return form;
}

Descriptor& Graph::make(cudnnBackendDescriptorType_t type, const char* kind) {
  return descriptors_.emplace_back(type, concat(what_, ", ", kind, " ", descriptors_.size()));
}

Graph::Node Graph::end_operation(Descriptor& operation, Node out) {
  operation.finalize();
  operations_.push_back(operation.get());
  return out;
}

Graph::Node Graph::tensor(int64_t id, const Form& form, bool is_virtual, bool by_value) {
  constexpr int64_t kAlignment = 16;
  Descriptor& made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, form.type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, form.extents.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, form.strides.data());
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, by_value);
  made.finalize();
  return made;
}

Graph::Node Graph::scalar(int64_t id) {
  return tensor(id, Form::packed(CUDNN_DATA_FLOAT, {1, 1, 1, 1}), false, true);
}

Graph::Node Graph::matmul_into(Node out, Node a, Node b) {
  Descriptor& how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "product");
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "product");
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  return end_operation(made, out);
}

Graph::Node Graph::apply_pointwise(Node out, const Descriptor& how,
                                   std::initializer_list<const Descriptor*> in) {
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise");
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  size_t at = 0;
  for (const Descriptor* input : in) made.set(kInputs[at++], *input);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
  return end_operation(made, out);
}

Graph::Node Graph::pointwise_into(Node out, cudnnPointwiseMode_t mode,
                                  std::initializer_list<const Descriptor*> in) {
  Descriptor& how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
  const bool compares = mode == CUDNN_POINTWISE_CMP_GE;
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
          compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  how.finalize();
  return apply_pointwise(out, how, in);
}

Graph::Node Graph::index(int64_t axis, Node in, const Form& form) {
  Descriptor& how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "index");
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  how.finalize();
  return apply_pointwise(between(form), how, {&in});
}

Graph::Node Graph::reduce_into(Node out, cudnnReduceTensorOp_t op, Node in) {
  Descriptor& how = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction");
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, in);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  return end_operation(made, out);
}

Graph::Node Graph::reduce(cudnnReduceTensorOp_t op, Node in, const Form& form) {
  return reduce_into(between(form), op, in);
}

Graph::Node Graph::reshape(Node in, const Form& form) {
  Node out = between(form);
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "reshape");
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, in);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, out);
  return end_operation(made, out);
}

Plan Graph::plan(const Handle& handle) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, concat(what_, ", the graph"));
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_.size(),
            operations_.data());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle.get());
  graph.finalize();
  return Plan(handle, graph);
}

}  // namespace ladder::cudnn
