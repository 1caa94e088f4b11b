// The host's side of epilogue.cl.
#pragma once

#include <dlprim/epilogue.hpp>

#include "core/launch.hpp"

namespace dlprim::detail {

/// Binds EPILOGUE_PARAMETERS.
inline void bind_epilogue(Launch& launch, float alpha, float beta, const EpilogueTensors& with) {
  launch.arg(alpha).arg(beta).arg(with.bias).arg(with.scale).arg(with.residual).arg(with.preactivation);
}

}  // namespace dlprim::detail
