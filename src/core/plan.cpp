// Plan's report, and the checks that every plan's run() makes.
#include <dlprim/plan.hpp>

#include "core/engine.hpp"
#include "core/state.hpp"

namespace dlprim {

const std::string& Plan::engine() const noexcept {
  return info_->engine;
}
const std::string& Plan::request() const noexcept {
  return info_->request;
}
size_t Plan::workspace_size() const noexcept {
  return info_->workspace;
}

std::string Plan::serialize() const {
  return info_->record;
}

std::string Plan::explain() const {
  std::string text = info_->text + "\n";
  for (const auto& [name, refusal, avoidance, prediction] : info_->engines) {
    text += "  " + name + ": ";
    if (name == info_->engine) {
      text += detail::cat("chosen, ", info_->reason, ", workspace ", info_->workspace, " bytes");
      if (info_->request != name) text += ", as " + info_->request;
    } else if (!refusal.empty()) {
      text += "refused, " + refusal;
    } else if (!avoidance.empty()) {
      text += "avoided, " + avoidance;
    } else {
      text += "could serve, ranks below or was not asked for";
      if (prediction > 0) text += detail::cat(", predicted to take ", prediction, " us");
    }
    text += "\n";
  }
  return text;
}

namespace detail {

size_t host_bytes(const Plan& plan) {
  const PlanInfo& info = plan.info();
  size_t bytes = kOfEngine + sizeof(PlanInfo) + info.text.size() + info.record.size() + info.reason.size();
  for (const EngineVerdict& verdict : info.engines)
    bytes += sizeof(EngineVerdict) + verdict.refusal.size() + verdict.avoidance.size();
  return bytes;
}

Tensor workspace_for(const PlanInfo& info, const Stream& stream, const Tensor& given) {
  if (given.defined()) require_context("workspace", given, stream.context());
  if (info.workspace == 0) return {};
  const auto bytes = static_cast<int64_t>(info.workspace);
  if (!given.defined()) return Tensor(stream, {bytes}, DType::u8);
  require(given.is_contiguous() && given.bytes() >= bytes, "workspace", given, " is not ", bytes,
          " contiguous bytes");
  const Tensor raw = given.reinterpret(DType::u8).slice(0, 0, bytes);
  require(raw.offset() % 16 == 0, "workspace", "does not start on a 16-byte boundary");
  return raw;
}

void require_stream(const PlanInfo& info, const Stream& stream) {
  require(info.context == &stream.context().state(), "stream", "belongs to another context than the plan");
}

}  // namespace detail
}  // namespace dlprim
