// Networks by name: graphs of well-known networks, as their papers have them, with weights from files of the
// names that torchvision and transformers give them, or random ones.
//
//   NetGraph graph = networks::make("resnet50", {"resnet50.safetensors"});
//   const Model model(std::move(graph));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net_graph.hpp>

namespace dlprim::networks {

struct Config {
  /// A safetensors file with the network's state: names and shapes as torchvision's state_dict has them, of
  /// gpt2 transformers'. Empty: weights are random, drawn so that a deep network's results stay finite.
  std::string weights;
  int64_t classes = 1000;  ///< of a classifier
  uint64_t seed = 1;       ///< of random weights
};

/// One that there is.
struct Network {
  std::string name;   ///< torchvision's
  std::string paper;  ///< who describes it
  int64_t image = 0;  ///< the side of the images that it was made for; 0: it takes tokens
};

/// All of them, sorted by name.
DLPRIM_API const std::vector<Network>& list();

/// The network, with dropout and stochastic depth as torchvision has them, which drop in training alone; gpt2
/// has none. Image networks take "input" f32 [batch, 3, height, width], sizes open where the
/// network allows it, and give "output" f32 [batch, classes]: logits. gpt2 takes "input" i64 [batch, tokens]
/// and gives "output" f32 [batch, tokens, 50257]. Throws ValidationError: there is no such network; the file
/// lacks a tensor, has one of another shape or dtype than f32, f16 or bf16, or one that the network does not
/// know; and what SafetensorsReader throws.
DLPRIM_API NetGraph make(const std::string& name, const Config& config = {});

}  // namespace dlprim::networks
