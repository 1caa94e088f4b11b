// Tensors that a kernel reads in row-major order.
#pragma once

#include <dlprim/copy.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

/// A tensor itself where it is row-major, else a copy of it in the workspace.
class RowMajor {
 public:
  RowMajor(const Context& context, const TensorDesc& x, WorkspaceParts& layout) {
    if (is_row_major(x)) return;
    copy_.emplace(context, CopyDesc{x, TensorDesc(x.shape, x.dtype)});
    at_ = layout.add(static_cast<size_t>(element_count(x.shape)) * size_of(x.dtype));
  }
  bool copies() const { return copy_.has_value(); }
  Tensor of(const Stream& stream, const Tensor& x, const Tensor& workspace) const {
    if (!copy_) return x;
    const Tensor packed = workspace_part(workspace, at_, x.shape(), x.dtype());
    copy_->run(stream, x, packed);
    return packed;
  }

 private:
  std::optional<Copy> copy_;
  size_t at_ = 0;
};

}  // namespace dlprim::detail
