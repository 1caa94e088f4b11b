// Net::save and Net::load: a net's parameters as a safetensors file.
#include <algorithm>

#include <dlprim/copy.hpp>
#include <dlprim/safetensors.hpp>

#include "core/check.hpp"
#include "net/graph.hpp"

namespace dlprim {

using detail::cat;
using detail::require;

void Net::save(const Stream& stream, const std::string& path) const {
  std::vector<HostTensor> tensors;
  for (const Parameter& parameter : graph_->parameters) {
    HostTensor tensor{parameter.name, parameter.value.dtype(), parameter.value.shape(), {}};
    tensor.data.resize(static_cast<size_t>(parameter.value.bytes()));
    read(stream, parameter.value, tensor.data.data(), parameter.value.bytes());
    tensors.push_back(std::move(tensor));
  }
  save_safetensors(path, tensors, {{"format", "dlprim"}});
}

void Net::load(const Stream& stream, const std::string& path) const {
  require(stream.context() == graph_->stream.context(), "stream", "belongs to another context than the net");
  SafetensorsReader reader(path);
  const auto& entries = reader.entries();
  // Everything is checked, and read into host memory, before the first parameter changes.
  std::vector<HostTensor> tensors;
  for (const Parameter& parameter : graph_->parameters) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == parameter.name; });
    require(entry != entries.end(), "path", "'", path, "' lacks '", parameter.name, "', which the net has",
            reader.why_lacking(parameter.name));
    require(entry->shape == parameter.value.shape() && entry->dtype == parameter.value.dtype(), "path", "'",
            path, "' has '", parameter.name, "' as ", name_of(entry->dtype), to_string(entry->shape),
            ", the net as ", parameter.value.describe());
    tensors.push_back(reader.read(*entry));
  }
  for (const auto& entry : entries) {
    const bool known = std::any_of(graph_->parameters.begin(), graph_->parameters.end(),
                                   [&](const Parameter& p) { return p.name == entry.name; });
    require(known, "path", "'", path, "' has '", entry.name, "', which the net lacks");
  }
  for (size_t i = 0; i < tensors.size(); i++)
    write(stream, graph_->parameters[i].value, tensors[i].data.data(), graph_->parameters[i].value.bytes());
}

}  // namespace dlprim
