// Searches of index tensors, and the error that a wait throws for what they found.
#include "core/index_check.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "core/check.hpp"
#include "core/defines.hpp"
#include "core/gen/expression.hpp"
#include "core/launch.hpp"
#include "core/state.hpp"

namespace dlprim::detail {

#include "kernels/lib/int64.h"

namespace {

#include "kernels/lib/check_index.h"

using Record = std::array<cl_long, 3>;

thread_local const char* checked_operator = nullptr;

cl::Buffer empty_record(const Stream& stream) {
  cl_int code = CL_SUCCESS;
  cl::Buffer buffer(stream.context().cl(), CL_MEM_READ_WRITE, sizeof(Record), nullptr, &code);
  cl_check(code, "clCreateBuffer");
  return buffer;
}

void clear(const Stream& stream, const cl::Buffer& buffer) {
  const Record none{};
  cl_check(clEnqueueWriteBuffer(stream.cl()(), buffer(), CL_TRUE, 0, sizeof none, none.data(), 0, nullptr,
                                nullptr),
           "clEnqueueWriteBuffer");
}

/// The coordinates of element `number` of a tensor, in row-major order.
Dims coordinates(const Shape& shape, int64_t number) {
  Dims result = Dims::filled(shape.size(), 0);
  for (int i = shape.size() - 1; i >= 0; i--) {
    result[i] = number % shape[i];
    number /= shape[i];
  }
  return result;
}

std::string text_of(const IndexRange& range) {
  std::string text = range.least < range.end ? cat("from ", range.least, " to ", range.end - 1)
                                             : std::string("nothing, as the axis is empty");
  if (range.skip) text += cat(", or ", *range.skip);
  return text;
}

}  // namespace

int64_t IndexChecks::number_of(const std::string& name, const Shape& shape, const IndexRange& range) {
  const std::string key = cat(name, ' ', to_string(shape), ' ', text_of(range));
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<int64_t>(sites_.size()) + 1);
  if (is_new) sites_.push_back({name, shape, range});
  return found->second;
}

void IndexChecks::search(const Stream& stream, const std::string& site, const Tensor& index,
                         const IndexRange& range) {
  const Context& context = stream.context();
  const DeviceFacts& facts = context.device().facts();
  const bool cpu = context.device().kind() == DeviceKind::cpu;
  const int64_t group = cpu ? 1 : std::min<int64_t>(256, facts.max_work_group);
  Defines defines;
  defines.set("INDEX", storage_type(index.dtype())).set("GROUP", group);
  const Kernel kernel = context.state().programs.kernel("check_index", "check_index", defines);
  if (record_() == nullptr) {
    record_ = empty_record(stream);
    clear(stream, record_);
  }

  IndexSearch search{};
  std::fill(std::begin(search.size), std::end(search.size), 1);
  for (int i = 0; i < index.rank(); i++) {
    search.size[i] = index.shape()[i];
    search.stride[i] = index.strides()[i];
  }
  search.count = index.numel();
  search.least = range.least, search.end = range.end;
  search.skip = range.skip.value_or(0), search.skips = range.skip.has_value();
  search.site = number_of(site, index.shape(), range);
  Launch launch(stream, kernel);
  launch.arg(index).buffer(record_()).arg(search);
  launch.run({static_cast<size_t>(group)}, {static_cast<size_t>(group)});
}

void IndexChecks::throw_bad(const Stream& stream) {
  if (record_() == nullptr) return;
  Record found{};
  cl_check(clEnqueueReadBuffer(stream.cl()(), record_(), CL_TRUE, 0, sizeof found, found.data(), 0, nullptr,
                               nullptr),
           "clEnqueueReadBuffer");
  if (found[0] == 0) return;
  clear(stream, record_);
  const Site& site = sites_.at(static_cast<size_t>(found[0] - 1));
  throw IndexError(cat(site.name, ": element ", to_string(coordinates(site.shape, found[1])), " is ",
                       found[2], ", must be ", text_of(site.range)));
}

bool index_checks_asked() {
  const char* asked = std::getenv("DLPRIM_CHECK_INDEX");
  return asked && std::string(asked) == "1";
}

void check_index(const Stream& stream, const char* op, const std::string& name, const Tensor& index,
                 const IndexRange& range) {
  if (!stream.context().checks_indices() || index.numel() == 0) return;
  stream.state().index_checks.search(stream, cat(checked_operator ? checked_operator : op, ": ", name), index,
                                     range);
}

CheckedOperator::CheckedOperator(const char* name) noexcept : before_(checked_operator) {
  if (!before_) checked_operator = name;
}
CheckedOperator::~CheckedOperator() {
  checked_operator = before_;
}

}  // namespace dlprim::detail
