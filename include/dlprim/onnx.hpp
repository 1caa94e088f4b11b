// The ONNX importer: opset 7 to 28, IR up to 14. docs/onnx.md lists its operators.
#pragma once

#include <string>
#include <string_view>

#include <dlprim/export.hpp>
#include <dlprim/net_model.hpp>

namespace dlprim::onnx {

/// Reads a model, and what it has in files beside it. Nothing in the file is believed before it is checked.
/// Throws Error (a file cannot be read), ValidationError: a damaged file; or a node that is not supported,
/// with its name, operator, opset, and what to do.
DLPRIM_API Model load(const std::string& path);
/// The same without what runs it.
DLPRIM_API NetGraph load_graph(const std::string& path);
/// From memory; data in other files is refused.
DLPRIM_API NetGraph parse_graph(std::string_view bytes);

/// The data of a TensorProto by itself, as in ONNX's test data.
DLPRIM_API HostTensor load_tensor(const std::string& path);

}  // namespace dlprim::onnx
