// The list of networks, and how one is made.
#include <algorithm>

#include "core/check.hpp"
#include "net/networks/builder.hpp"

namespace dlprim::networks {
namespace {

struct Entry {
  Network network;
  NetGraph (*make)(Builder& builder);
};

const std::vector<Entry>& entries() {
  static const auto* all = new std::vector<Entry>{
      {{"alexnet", "Krizhevsky, 2014", 224}, alexnet},
      {{"densenet121", "Huang et al., 2017", 224}, densenet121},
      {{"efficientnet_b0", "Tan and Le, 2019", 224}, efficientnet_b0},
      {{"efficientnet_b4", "Tan and Le, 2019", 380}, efficientnet_b4},
      {{"googlenet", "Szegedy et al., 2015", 224}, googlenet},
      {{"gpt2", "Radford et al., 2019", 0}, gpt2},
      {{"inception_v3", "Szegedy et al., 2016", 299}, inception_v3},
      {{"mnasnet1_0", "Tan et al., 2019", 224}, mnasnet},
      {{"mobilenet_v2", "Sandler et al., 2018", 224}, mobilenet_v2},
      {{"mobilenet_v3_large", "Howard et al., 2019", 224}, mobilenet_v3_large},
      {{"regnet_y_400mf", "Radosavovic et al., 2020", 224}, regnet},
      {{"resnet18", "He et al., 2016", 224}, resnet18},
      {{"resnet50", "He et al., 2016", 224}, resnet50},
      {{"resnext50_32x4d", "Xie et al., 2017", 224}, resnext50},
      {{"shufflenet_v2_x1_0", "Ma et al., 2018", 224}, shufflenet},
      {{"squeezenet1_0", "Iandola et al., 2016", 224}, squeezenet},
      {{"vgg16", "Simonyan and Zisserman, 2015", 224}, vgg16},
      {{"vit_b_16", "Dosovitskiy et al., 2021", 224}, vit},
      {{"wide_resnet50_2", "Zagoruyko and Komodakis, 2016", 224}, wide_resnet50},
  };
  return *all;
}

}  // namespace

const std::vector<Network>& list() {
  static const auto* networks = [] {
    auto* all = new std::vector<Network>;
    for (const Entry& entry : entries()) all->push_back(entry.network);
    return all;
  }();
  return *networks;
}

NetGraph make(const std::string& name, const Config& config) {
  const auto found = std::find_if(entries().begin(), entries().end(),
                                  [&](const Entry& e) { return e.network.name == name; });
  if (found == entries().end()) {
    std::string names;
    for (const Entry& entry : entries()) names += (names.empty() ? "" : ", ") + entry.network.name;
    throw ValidationError("name", detail::cat("there is no network '", name, "'; there are ", names));
  }
  Builder builder(found->network, config);
  return found->make(builder);
}

}  // namespace dlprim::networks
