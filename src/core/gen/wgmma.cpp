#include "core/gen/wgmma.hpp"

#include <vector>

#include "core/gen/slots.hpp"
#include "core/text.hpp"

namespace dlprim::detail {
namespace {

constexpr int kSteps = 4;         // instructions along the 128 bytes of a row
constexpr int kFragment = 16;     // registers of A, hi or lo, for all of them
constexpr int kAlongK = 2;        // what they are apart in a descriptor: 32 bytes of a row,
constexpr int kAcrossK = 16 * 8;  // or 16 rows of 128 bytes

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// One asm statement: instructions and numbered operands.
class Asm {
 public:
  Asm(const std::string& accumulators, int count) {
    std::vector<std::string> names;
    for (int i = 0; i < count; i++) {
      outputs_.push_back(cat("\"+f\"(", accumulators, '[', i, "])"));
      names.push_back(cat('%', i));
    }
    accumulators_ = cat('{', joined(names), '}');
  }
  const std::string& accumulators() const { return accumulators_; }
  /// The name of a new input operand.
  std::string input(const char* constraint, const std::string& expression) {
    inputs_.push_back(cat('"', constraint, "\"(", expression, ')'));
    return cat('%', outputs_.size() + inputs_.size() - 1);
  }
  void line(const std::string& instruction) { lines_ += cat("    \"//@", instruction, ";\\n\"\n"); }
  std::string text() const {
    return cat("__asm__ volatile(\n", lines_, "    : ", joined(outputs_), "\n    : ", joined(inputs_),
               "\n    : \"memory\");\n");
  }

 private:
  std::vector<std::string> outputs_, inputs_;
  std::string accumulators_, lines_;
};

std::string instruction(const WgmmaForm& form) {
  const char* type = form.dtype == DType::f16 ? "f16" : form.dtype == DType::bf16 ? "bf16" : "tf32";
  return cat("wgmma.mma_async.sync.aligned.m64n", form.tile_n, form.dtype == DType::f32 ? "k8" : "k16",
             ".f32.", type, '.', type, ' ');
}

std::string multiply(const WgmmaForm& form) {
  Asm code("sums", form.tile_n / 2);
  std::vector<std::string> registers;
  if (form.a_registers) {
    for (int i = 0; i < kFragment; i++) registers.push_back(code.input("r", cat("as_uint(a[", i, "])")));
    for (int i = 0; i < kFragment; i++) code.input("r", cat("as_uint(before[", i, "])"));
  }
  code.line("wgmma.fence.sync.aligned");
  for (int i = 0; i < kSteps; i++) {
    const auto at = static_cast<size_t>(4 * i);
    const std::string a =
        form.a_registers
            ? cat('{', joined({registers[at], registers[at + 1], registers[at + 2], registers[at + 3]}), '}')
            : code.input("l", cat("a_at + ", i * (form.a_unit_k ? kAlongK : kAcrossK)));
    const std::string b = code.input("l", cat("b_at + ", i * (form.b_unit_k ? kAlongK : kAcrossK)));
    const std::string order =
        form.dtype == DType::f32 ? "" : cat(", ", form.a_unit_k ? 0 : 1, ", ", form.b_unit_k ? 0 : 1);
    code.line(cat(instruction(form), code.accumulators(), ", ", a, ", ", b, ", 1, 1, 1", order));
  }
  code.line("wgmma.commit_group.sync.aligned");
  code.line("wgmma.wait_group.sync.aligned 1");
  return code.text();
}

/// `registers` are arrays that the products read: they must stay as they are until then.
std::string wait(const char* accumulators, const WgmmaForm& form,
                 std::initializer_list<const char*> registers = {}) {
  Asm code(accumulators, form.tile_n / 2);
  code.line("wgmma.wait_group.sync.aligned 0");
  for (const char* name : registers)
    for (int i = 0; i < kFragment; i++) code.input("r", cat("as_uint(", name, '[', i, "])"));
  return code.text();
}

/// The smallest products first.
std::string split_multiply(const WgmmaForm& form) {
  Asm code("part", form.tile_n / 2);
  std::vector<std::string> hi, lo, b, b_lo;
  for (int i = 0; i < kFragment; i++) {
    hi.push_back(code.input("r", cat("hi[", i, ']')));
    lo.push_back(code.input("r", cat("lo[", i, ']')));
  }
  for (int i = 0; i < kSteps; i++) {
    b.push_back(code.input("l", cat("b_at + ", i * kAlongK)));
    b_lo.push_back(code.input("l", cat("b_lo_at + ", i * kAlongK)));
  }
  bool first = true;
  const auto product = [&](const std::vector<std::string>& x, const std::vector<std::string>& y, int i) {
    const auto at = static_cast<size_t>(4 * i);
    code.line(cat(instruction(form), code.accumulators(), ", {",
                  joined({x[at], x[at + 1], x[at + 2], x[at + 3]}), "}, ", y[static_cast<size_t>(i)], ", ",
                  first ? 0 : 1, ", 1, 1"));
    first = false;
  };
  code.line("wgmma.fence.sync.aligned");
  for (int i = 0; i < kSteps; i++) {
    product(lo, b, i);
    product(hi, b_lo, i);
    product(hi, b, i);
  }
  code.line("wgmma.commit_group.sync.aligned");
  return code.text();
}

/// Parts of A and of B follow each other; the smallest products first, in one accumulator.
std::string parts_multiply(const WgmmaPartsForm& form) {
  Asm code(form.parts > 1 ? "part_sums" : "sums", form.tile_n / 2);
  const int steps = form.pixels / 16;
  WgmmaForm one;
  one.dtype = form.dtype, one.tile_n = form.tile_n;
  std::vector<std::string> a, b;
  for (int part = 0; part < form.parts; part++)
    for (int i = 0; i < steps; i++) {
      a.push_back(code.input("l", cat("a_at + ", (part * form.a_bytes) / 16 + i * kAcrossK)));
      b.push_back(code.input("l", cat("b_at + ", (part * form.b_bytes) / 16 + i * kAcrossK)));
    }
  code.line("wgmma.fence.sync.aligned");
  bool first = form.parts > 1;
  for (int order = form.parts - 1; order >= 0; order--)
    for (int of_a = order; of_a >= 0; of_a--)
      for (int i = 0; i < steps; i++) {
        code.line(cat(instruction(one), code.accumulators(), ", ", a[static_cast<size_t>(of_a * steps + i)],
                      ", ", b[static_cast<size_t>((order - of_a) * steps + i)], ", ", first ? 0 : 1,
                      ", 1, 1, 1, 1"));
        first = false;
      }
  code.line("wgmma.commit_group.sync.aligned");
  code.line(cat("wgmma.wait_group.sync.aligned ", form.parts > 1 ? 0 : 1));
  return code.text();
}

}  // namespace

std::string fill_wgmma_parts_slots(const std::string& text, const WgmmaPartsForm& form) {
  WgmmaForm one;
  one.tile_n = form.tile_n;
  return fill_slots(text, {{"PARTS_MULTIPLY", form.parts > 1 ? parts_multiply(form) : ""},
                           {"MULTIPLY", form.parts > 1 ? "" : parts_multiply(form)},
                           {"WAIT", wait("sums", one)}});
}

std::string fill_wgmma_slots(const std::string& text, const WgmmaForm& form) {
  std::map<std::string, std::string> slots = {{"MULTIPLY", ""},          {"WAIT", ""},
                                              {"SPLIT_MULTIPLY", ""},    {"SPLIT_WAIT", ""},
                                              {"REGISTER_MULTIPLY", ""}, {"REGISTER_WAIT", ""}};
  if (form.split) {
    slots["SPLIT_MULTIPLY"] = split_multiply(form);
    slots["SPLIT_WAIT"] = wait("part", form, {"hi", "lo"});
  } else if (form.a_registers) {
    slots["REGISTER_MULTIPLY"] = multiply(form);
    slots["REGISTER_WAIT"] = wait("sums", form, {"even", "odd"});
  } else {
    slots["MULTIPLY"] = multiply(form);
    slots["WAIT"] = wait("sums", form);
  }
  // Kernels need not have slots for forms that they do not take.
  for (auto slot = slots.begin(); slot != slots.end();)
    slot = slot->second.empty() && text.find("//$ " + slot->first) == std::string::npos ? slots.erase(slot)
                                                                                        : std::next(slot);
  return fill_slots(text, slots);
}

}  // namespace dlprim::detail
