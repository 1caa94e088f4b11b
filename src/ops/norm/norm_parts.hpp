// What operators of normalisation share: checks, expressions over optional tensors, and mean and squared
// deviations in one read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <dlprim/pointwise.hpp>

#include "core/composed.hpp"

namespace dlprim::detail {

/// A floating tensor of `shape`, if it is there.
void require_affine(const char* name, const std::optional<TensorDesc>& desc, const Shape& shape);

/// Of statistics of the caller's, which may be views.
TensorDesc statistics_desc(const Shape& shape, DType dtype);

/// The usual refusal of a non-finite or negative epsilon.
void require_epsilon(double epsilon);

/// Inputs of a generated kernel as they are added: add() says what the kernel calls it.
struct NamedInputs {
  std::vector<TensorDesc> descs;
  std::string add(const TensorDesc& desc) {
    descs.push_back(desc);
    return cat('x', descs.size() - 1);
  }
};

/// A reduction whose `finish` knows `count`, `mean` and `squares`, the sum of squared deviations from it. As
/// good as Welford's without a division an element: each lane adds up differences from its own first element
/// and their squares. That element lies within sqrt(n) standard deviations of the mean of a lane's n, so at
/// worst n units of rounding are lost, as in any sum of n; lanes are merged by their means.
Reduction moments_of(const std::string& element, const std::string& finish);

}  // namespace dlprim::detail
