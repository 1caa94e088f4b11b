// Models as JSON that people read and write, with weights in a safetensors file beside it:
// docs/model_format.md specifies the format.
//
//   save_json("resnet50.json", networks::make("resnet50"));  // and resnet50.safetensors
//   const Model model(load_json("resnet50.json"));
#pragma once

#include <string>
#include <vector>

#include <dlprim/export.hpp>
#include <dlprim/net_graph.hpp>

namespace dlprim {

/// Writes the graph as `path`, which ends in ".json", and constants that do not stand in it as a file of the
/// same name that ends in ".safetensors"; without such constants there is none. Gives the files' names, the
/// JSON's first. Each is written under another name and renamed, the JSON last. Throws ValidationError (see
/// NetGraph::check(); a path that ends otherwise; a text that is not UTF-8; more nodes, or bodies deeper in
/// one another, than load_json reads), Error (a file cannot be written).
DLPRIM_API std::vector<std::string> save_json(const std::string& path, const NetGraph& graph);

/// Reads such a model: the graph that was saved, but that values are numbered anew (inputs, constants, what
/// nodes write), those that nothing writes are gone, and a constant's tensor has its value's name. Nothing in
/// the files is believed before it is checked. Throws Error (the file cannot be read), ValidationError that
/// names the place in it, such as nodes[3].inputs[0], and what stands there.
DLPRIM_API NetGraph load_json(const std::string& path);

}  // namespace dlprim
