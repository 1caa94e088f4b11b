// Models of one ONNX node for tests, run node by node, recorded and replayed.
#pragma once

#include <dlprim/net_host.hpp>
#include <dlprim/onnx.hpp>

#include "cases/onnx_writer.hpp"
#include "catch.hpp"
#include "onnx/constant.hpp"
#include "support.hpp"

namespace dlprim::test {

inline onnx::ElementType element_type(DType dtype) {
  for (int code = 1; code <= 16; code++)
    if (onnx::dtype_of(onnx::ElementType{code}) == dtype) return onnx::ElementType{code};
  return onnx::ElementType::undefined;
}

inline HostTensor reals(const Shape& shape, const std::vector<double>& elements, DType dtype = DType::f32) {
  return host_tensor(dtype, shape, elements);
}
inline HostTensor wholes(const Shape& shape, const std::vector<int64_t>& elements, DType dtype = DType::i64) {
  return host_tensor(dtype, shape, elements);
}

/// A node whose inputs are the model's, i0, i1, ..., and its outputs o0, o1, ...: as many as `outputs` has
/// dtypes. An input without a shape's elements and of the name "" is left out.
struct OnnxNode {
  std::string op;
  std::vector<HostTensor> inputs;
  std::vector<DType> outputs{DType::f32};
  std::vector<onnx_writer::Message> attributes{};
  int64_t opset = 21;
  std::string domain{};
  std::vector<bool> constant{};  ///< the inputs that are initializers
  std::vector<bool> absent{};    ///< the inputs that are left out

  static bool at(const std::vector<bool>& list, size_t k) { return k < list.size() && list[k]; }

  std::string bytes() const {
    using namespace onnx_writer;
    Graph g;
    std::vector<std::string> ins, outs;
    for (size_t k = 0; k < inputs.size(); k++) {
      const HostTensor& t = inputs[k];
      ins.push_back(at(absent, k) ? "" : "i" + std::to_string(k));
      if (at(absent, k)) continue;
      std::vector<onnx_writer::Dimension> dims(t.shape.begin(), t.shape.end());
      if (at(constant, k))
        g.initializers.push_back(tensor(ins.back(), element_type(t.dtype), {t.shape.begin(), t.shape.end()},
                                        std::string(t.data.begin(), t.data.end())));
      else
        g.inputs.push_back(value(ins.back(), element_type(t.dtype), dims));
    }
    for (size_t k = 0; k < outputs.size(); k++) {
      outs.push_back("o" + std::to_string(k));
      g.outputs.push_back(Message().text(1, outs.back()).message(2, tensor_type(element_type(outputs[k]))));
    }
    g.nodes = {node(op, ins, outs, attributes, domain)};
    Message made = model(graph(g), opset);
    if (!domain.empty()) made.message(8, onnx_writer::opset(domain, 1));
    return made.bytes();
  }

  Model::Tensors feeds() const {
    Model::Tensors feeds;
    for (size_t k = 0; k < inputs.size(); k++)
      if (!at(absent, k) && !at(constant, k)) feeds["i" + std::to_string(k)] = to_device(stream(), inputs[k]);
    return feeds;
  }

  /// The outputs. The three kinds of runs must give the same bits.
  std::vector<HostTensor> run() const {
    const Model made(onnx::parse_graph(bytes()));
    std::vector<HostTensor> results;
    for (int times = 0; times < 3; times++) {
      const Model::Tensors tensors = made.run(stream(), feeds());
      for (size_t k = 0; k < outputs.size(); k++) {
        HostTensor result = to_host(stream(), tensors.at("o" + std::to_string(k)));
        if (times == 0)
          results.push_back(result);
        else
          CHECK(result.data == results[k].data);
      }
    }
    return results;
  }
  std::vector<double> numbers(size_t k = 0) const { return numbers_of(run()[k]); }
};

/// Equal, NaN to NaN and the signs of zeros too.
inline bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && (a[i] != b[i] || std::signbit(a[i]) != std::signbit(b[i]))) return false;
  }
  return true;
}

}  // namespace dlprim::test
