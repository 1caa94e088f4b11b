// The tables that come with the library: each tuning/*/*.json, made into rows by cmake/TuningRows.cmake.
#pragma once

#include <cstdint>

#include <dlprim/plan.hpp>
#include <dlprim/tensor.hpp>

namespace dlprim::detail {

struct TuneRow {
  static constexpr int kMostSizes = 16;

  DType dtype, result;
  MathMode math;
  const char* form;
  const char* engine;  ///< as Options::engine takes it
  double microseconds;
  int64_t sizes[kMostSizes];  ///< in the order of the sheet's names
};

/// One file.
struct TuneSheet {
  const char* file;  ///< "tuning/FOLDER/FAMILY.json"; null behind the last sheet
  // What it was measured on, or is meant for: DeviceFacts' texts, the kind's name. Empty: any.
  const char *device, *architecture, *vendor, *kind;
  const char* op;
  const char* size_names;  ///< "m n k batch"
  const TuneRow* rows;
  int count;
};

/// All sheets, and one without a file behind them.
const TuneSheet* shipped_tuning();

}  // namespace dlprim::detail
