// Writing tensors that stay where they are, under names of the file's own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <dlprim/safetensors.hpp>

namespace dlprim::detail {

struct NamedTensor {
  std::string name;
  const HostTensor* tensor;
};

/// As save_safetensors.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace dlprim::detail
