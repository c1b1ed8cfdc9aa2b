// Graphs of operations, as cuDNN takes them: it looks for one kernel that computes a whole graph.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cudnn/library.h"

namespace ladder::cudnn {

// A descriptor of cuDNN's, which is what its backend API makes everything of. Each function throws
// an Error that says what the descriptor is for.
class Descriptor {
 public:
  Descriptor(cudnnBackendDescriptorType_t type, std::string what);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, size_t count,
           const void* values);
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }
  void finalize();

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const std::string& what() const { return what_; }

 private:
  std::string what_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// A handle of cuDNN's, for the GPU that this thread uses.
class Handle {
 public:
  Handle();
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

// Which element is where: (batch, head, row, column), in elements.
using Extents = std::array<int64_t, 4>;
struct Form {
  cudnnDataType_t type;
  Extents extents, strides;

  Form transposed() const;               // the last two exchanged
  Form as(cudnnDataType_t other) const;  // with another type
  static Form packed(cudnnDataType_t type, const Extents& extents);
};

// What a tensor in memory is called when a plan runs.
struct Bound {
  int64_t id;
  const void* address;  // on the GPU; of a scalar, on the host
};

// A kernel that computes a graph, which cuDNN has chosen. It runs with any handle of that GPU.
class Plan {
 public:
  // Takes the first of the engines that cuDNN suggests for the graph which can be made. Throws an
  // Error, with what the engines said, if there is none.
  Plan(const Handle& handle, const Descriptor& graph);

  size_t workspace_bytes() const { return workspace_bytes_; }
  // Asynchronous on the handle's stream.
  void run(const Handle& handle, std::span<const Bound> tensors, void* workspace) const;

 private:
  std::optional<Descriptor> plan_;
  size_t workspace_bytes_ = 0;
};

// A graph that is being made. Its tensors are named by the references that its functions return.
class Graph {
 public:
  // `what` is for messages.
  explicit Graph(std::string what) : what_(std::move(what)) {}

  using Node = const Descriptor&;
  // Return a tensor in memory, and a number (fp32) in the host's memory.
  Node memory(int64_t id, const Form& form) { return tensor(id, form, false, false); }
  Node scalar(int64_t id);

  // Return the result of an operation, which only other operations of the graph see.
  Node matmul(Node a, Node b, const Form& form) { return matmul_into(between(form), a, b); }
  Node pointwise(cudnnPointwiseMode_t mode, const Form& form,
                 std::initializer_list<const Descriptor*> in) {
    return pointwise_into(between(form), mode, in);
  }
  Node index(int64_t axis, Node in, const Form& form);
  Node reduce(cudnnReduceTensorOp_t op, Node in, const Form& form);
  Node reshape(Node in, const Form& form);  // the same elements with other extents and strides
  // Write the result of an operation to a tensor in memory.
  Node matmul_into(Node out, Node a, Node b);
  Node pointwise_into(Node out, cudnnPointwiseMode_t mode,
                      std::initializer_list<const Descriptor*> in);
  Node reduce_into(Node out, cudnnReduceTensorOp_t op, Node in);

  Plan plan(const Handle& handle);

 private:
  Node between(const Form& form) { return tensor(next_id_++, form, true, false); }
  Node tensor(int64_t id, const Form& form, bool is_virtual, bool by_value);
  Descriptor& make(cudnnBackendDescriptorType_t type, const char* kind);
  // Adds an operation to the graph that has all its attributes, and returns its result.
  Node end_operation(Descriptor& operation, Node out);
  Node apply_pointwise(Node out, const Descriptor& how,
                       std::initializer_list<const Descriptor*> in);

  std::string what_;
  std::deque<Descriptor> descriptors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  int64_t next_id_ = 1000;  // those of tensors in memory are smaller
};

}  // namespace ladder::cudnn
