// The host's side of epilogue.cl.
#pragma once

#include <dlprim/epilogue.hpp>

#include "core/launch.hpp"

namespace dlprim::detail {

/// Binds EPILOGUE_PARAMETERS of a kernel that writes `dtype`.
inline void bind_epilogue(Launch& launch, DType dtype, double alpha, double beta,
                          const EpilogueTensors& with) {
  launch.real(dtype, alpha).real(dtype, beta);
  launch.arg(with.bias).arg(with.scale).arg(with.residual).arg(with.preactivation);
}
inline void bind_epilogue(Launch& launch, DType dtype, const EpilogueTensors& with) {
  bind_epilogue(launch, dtype, 1, 0, with);
}

}  // namespace dlprim::detail
