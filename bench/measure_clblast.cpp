// GEMM of CLBlast, "clblast-gemm ..." as "gemm ...", on the device and the buffers that dlprim would use.
#include <clblast.h>
#include <clblast_half.h>

#include <type_traits>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

template <class T>
struct ClblastGemm : Case {
  explicit ClblastGemm(const GemmOperands& operands) : x(operands) {}

  void run() override {
    const int rank = x.c.shape().size();
    const auto batch = static_cast<size_t>(rank == 3 ? x.c.shape()[0] : 1);
    const auto m = static_cast<size_t>(x.c.shape()[rank - 2]), n = static_cast<size_t>(x.c.shape()[rank - 1]);
    const auto k = static_cast<size_t>(x.a.shape()[rank - 1]);
    const T one = std::is_same_v<T, half> ? static_cast<T>(FloatToHalf(1)) : static_cast<T>(1), zero = 0;
    cl_command_queue queue = test::stream().cl()();
    const auto status =
        batch == 1 ? clblast::Gemm<T>(clblast::Layout::kRowMajor, order(x.a), order(x.b), m, n, k, one,
                                      memory(x.a), at(x.a), pitch(x.a), memory(x.b), at(x.b), pitch(x.b),
                                      zero, memory(x.c), at(x.c), pitch(x.c), &queue)
                   : clblast::GemmStridedBatched<T>(clblast::Layout::kRowMajor, order(x.a), order(x.b), m, n,
                                                    k, one, memory(x.a), at(x.a), pitch(x.a), m * k,
                                                    memory(x.b), at(x.b), pitch(x.b), n * k, zero,
                                                    memory(x.c), at(x.c), pitch(x.c), m * n, batch, &queue);
    if (status != clblast::StatusCode::kSuccess)
      throw Error("CLBlast's status is " + std::to_string(static_cast<int>(status)));
  }
  std::vector<Tensor> results() const override { return {x.c}; }

 private:
  static int64_t stride(const Tensor& t, int from_last) {
    return t.strides()[t.strides().size() - from_last];
  }
  static bool is_transposed(const Tensor& t) { return stride(t, 1) != 1; }
  static clblast::Transpose order(const Tensor& t) {
    return is_transposed(t) ? clblast::Transpose::kYes : clblast::Transpose::kNo;
  }
  static size_t pitch(const Tensor& t) { return static_cast<size_t>(stride(t, is_transposed(t) ? 1 : 2)); }
  static size_t at(const Tensor& t) { return static_cast<size_t>(t.offset()); }
  static cl_mem memory(const Tensor& t) { return t.buffer()(); }

  GemmOperands x;
};

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const GemmOperands operands(line);
  line.text("constant", "");
  options_of(line);
  line.finish();
  switch (operands.c.dtype()) {
    case DType::f32:
      return std::make_unique<ClblastGemm<float>>(operands);
    case DType::f64:
      return std::make_unique<ClblastGemm<double>>(operands);
    case DType::f16:
      return std::make_unique<ClblastGemm<half>>(operands);
    default:
      throw Error(std::string("CLBlast has no GEMM of ") + name_of(operands.c.dtype()));
  }
}
const CasesOf kClblast("clblast-gemm", make);

}  // namespace
}  // namespace dlprim::bench
