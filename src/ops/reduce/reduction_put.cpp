// The kernel's text, which has the ranks compiled in, and its arguments.
#include "ops/reduce/reduction_put.hpp"

#include "core/gen/expression.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

std::string put_source(DType dy, DType index, DType dx, size_t kept, size_t reduced) {
  std::string parameters, kept_text, reduced_text;
  for (size_t d = 0; d < kept; d++) {
    parameters += cat("long n", d, ", long dy_t", d, ", long index_t", d, ", long dx_t", d, ",\n");
    kept_text += cat("dy_at += rest % n", d, " * dy_t", d, "; index_at += rest % n", d, " * index_t", d,
                     "; dx_at += rest % n", d, " * dx_t", d, "; rest /= n", d, ";\n");
  }
  for (size_t d = 0; d < reduced; d++) {
    parameters += cat("long m", d, ", long v", d, ", long u", d, ",\n");
    reduced_text += cat("dx_at += i / v", d, " % m", d, " * u", d, ";\n");
  }
  const std::string head = cat("#define DY ", storage_type(dy), "\n#define LOAD_DY LOAD_", name_of(dy),
                               "\n#define INDEX_T ", storage_type(index), "\n#define DX ", storage_type(dx),
                               "\n#define STORE_DX STORE_", name_of(dx), "\n");
  return fill_slots(
      kernel_source("reduction_put"),
      {{"HEAD", head}, {"PARAMETERS", parameters}, {"KEPT", kept_text}, {"REDUCED", reduced_text}});
}

}  // namespace

ReductionPut::ReductionPut(const Context& context, const TensorDesc& dy, const TensorDesc& index,
                           const TensorDesc& dx) {
  int64_t place = 1;
  for (int d = dx.shape.size() - 1; d >= 0; d--) {
    const int at = d - (dx.shape.size() - dy.shape.size());
    if (dx.shape[d] == 1) continue;
    if (at >= 0 && dy.shape[at] == dx.shape[d]) {
      kept_.push_back({dx.shape[d], dy.strides[at], index.strides[at], dx.strides[d]});
      kept_count_ *= dx.shape[d];
    } else {
      reduced_.push_back({dx.shape[d], 0, place, dx.strides[d]});
      place *= dx.shape[d];
    }
  }
  reduced_count_ = place;
  kernel_ = context.state().programs.generated(
      "reduction_put", put_source(dy.dtype, index.dtype, dx.dtype, kept_.size(), reduced_.size()),
      "reduction_put");
}

void ReductionPut::run(const Stream& stream, const Tensor& dy, const Tensor& index, const Tensor& dx) const {
  Launch launch(stream, kernel_);
  launch.arg(dy).arg(index).arg(dx);
  for (const Axis& a : kept_) launch.arg(a.size).arg(a.dy).arg(a.index).arg(a.dx);
  for (const Axis& a : reduced_) launch.arg(a.size).arg(a.index).arg(a.dx);
  launch.arg(kept_count_).arg(reduced_count_);
  constexpr int64_t kGroup = 64;
  launch.run({items_in_groups(kept_count_, kGroup)}, {kGroup});
}

}  // namespace dlprim::detail
