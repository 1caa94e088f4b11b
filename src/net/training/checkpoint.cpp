// A trainer's state as a safetensors file: parameters, statistics, the optimizer's states, the loss's scale,
// and, as metadata, how many updates there were and what random numbers were drawn.
#include <algorithm>
#include <charconv>

#include <dlprim/copy.hpp>
#include <dlprim/net_host.hpp>
#include <dlprim/safetensors.hpp>

#include "core/check.hpp"
#include "net/training/trainer.hpp"

namespace dlprim {

using detail::cat;
using detail::require;

namespace {

constexpr const char* kFormat = "dlprim training 1";

uint64_t whole_number(const std::map<std::string, std::string>& metadata, const std::string& name,
                      const std::string& path) {
  const auto found = metadata.find(name);
  uint64_t value = 0;
  const char* end = found == metadata.end() ? nullptr : found->second.data() + found->second.size();
  const bool read = end && !found->second.empty() &&
                    std::from_chars(found->second.data(), end, value).ptr == end && value <= INT64_MAX;
  require(read, "path", "'", path, "' has no whole number '", name, "'");
  return value;
}

/// "adam, decoupled": what makes one optimizer's states mean something else than another's.
std::string text_of(const OptimizerDesc& d) {
  constexpr const char* kMethods[] = {"sgd", "adam", "rmsprop", "adagrad"};
  std::string text = kMethods[static_cast<size_t>(d.method)];
  for (const auto& [name, set] : {std::pair("momentum", d.momentum), std::pair("nesterov", d.nesterov),
                                  std::pair("decoupled", d.decoupled), std::pair("amsgrad", d.amsgrad),
                                  std::pair("centered", d.centered), std::pair("maximize", d.maximize)})
    if (set) text += cat(", ", name);
  return text;
}

/// Of names such as "state1/fc.weight": how many states there are.
int64_t states_in(const std::vector<std::string>& names) {
  int64_t count = 0;
  for (const std::string& name : names)
    while (name.rfind(cat("state", count, "/"), 0) == 0) count++;
  return count;
}

/// A checkpoint of another optimizer is told as such, before anything is said of its tensors.
void check_optimizer(const std::string& path, const SafetensorsReader& reader, const Trainer::Config& config,
                     const std::vector<Trainer::Parameter>& kept) {
  const std::string ours = text_of(config.optimizer);
  const auto theirs = reader.metadata().find("optimizer");
  require(theirs == reader.metadata().end() || theirs->second == ours, "path", "'", path,
          "' was written with the optimizer ", theirs == reader.metadata().end() ? "" : theirs->second,
          "; this trainer's is ", ours);
  std::vector<std::string> held, wanted;
  for (const auto& entry : reader.entries()) held.push_back(entry.name);
  for (const Trainer::Parameter& p : kept) wanted.push_back(p.name);
  require(states_in(held) == states_in(wanted), "path", "'", path, "' has ", states_in(held),
          " states of an optimizer for each parameter; this trainer's optimizer, ", ours, ", has ",
          states_in(wanted));
  const bool scaled = std::find(held.begin(), held.end(), "scale") != held.end();
  require(scaled == config.scaling.has_value(), "path", "'", path, "' was written with", scaled ? "" : "out",
          " a scaled loss; this trainer has ", config.scaling ? "one" : "none");
}

}  // namespace

std::vector<Trainer::Parameter> Trainer::State::kept() const {
  std::vector<Parameter> list;
  for (const Parameter& p : parameters) list.push_back({"parameters/" + p.name, p.value});
  for (const Parameter& p : statistics) list.push_back({"statistics/" + p.name, p.value});
  for (size_t k = 0; k < states.size(); k++)
    for (size_t i = 0; i < parameters.size(); i++)
      list.push_back({cat("state", k, "/", parameters[i].name), states[k][i]});
  if (config.scaling) list.push_back({"scale", scale}), list.push_back({"good_steps", good_steps});
  return list;
}

void Trainer::save(const std::string& path) const {
  require(state_->summed == 0, "path", "'", path, "': ", state_->summed, " of ", state_->config.accumulate,
          " steps of an update are done; a checkpoint is of whole updates");
  std::vector<HostTensor> tensors;
  for (const Parameter& p : state_->kept()) tensors.push_back(to_host(state_->stream, p.value, p.name));
  const RandomState random = state_->step_model.random();
  save_safetensors(path, tensors,
                   {{"format", kFormat},
                    {"optimizer", text_of(state_->config.optimizer)},
                    {"updates", std::to_string(state_->updates)},
                    {"random_seed", std::to_string(random.seed)},
                    {"random_offset", std::to_string(random.offset)}});
}

void Trainer::load(const std::string& path) {
  SafetensorsReader reader(path);
  const auto format = reader.metadata().find("format");
  require(format != reader.metadata().end() && format->second == kFormat, "path", "'", path,
          "' is no checkpoint of a Trainer");
  const auto updates = static_cast<int64_t>(whole_number(reader.metadata(), "updates", path));
  const RandomState random{whole_number(reader.metadata(), "random_seed", path),
                           whole_number(reader.metadata(), "random_offset", path)};
  const std::vector<Parameter> kept = state_->kept();
  check_optimizer(path, reader, state_->config, kept);
  const auto& entries = reader.entries();
  require(entries.size() == kept.size(), "path", "'", path, "' has ", entries.size(),
          " tensors, the trainer ", kept.size());
  // Everything is checked, and read, before anything changes.
  std::vector<HostTensor> tensors;
  for (const Parameter& p : kept) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == p.name; });
    require(entry != entries.end(), "path", "'", path, "' lacks '", p.name, "', which the trainer has",
            reader.why_lacking(p.name));
    require(entry->shape == p.value.shape() && entry->dtype == p.value.dtype(), "path", "'", path, "' has '",
            p.name, "' as ", name_of(entry->dtype), to_string(entry->shape), ", the trainer as ",
            p.value.describe());
    tensors.push_back(reader.read(*entry));
  }
  for (size_t i = 0; i < kept.size(); i++)
    write(state_->stream, kept[i].value, tensors[i].data.data(), kept[i].value.bytes());
  state_->updates = updates;
  state_->summed = 0;
  state_->step_model.set_random(random);
}

}  // namespace dlprim
