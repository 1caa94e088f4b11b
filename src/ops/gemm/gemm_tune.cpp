// GEMM as tuning sees it: what its tables are asked by, a problem with operands to measure, and which
// problems are worth a row.
#include "core/gen/arguments.hpp"
#include "core/tune/problem_line.hpp"
#include "ops/gemm/gemm_impl.hpp"
#include "ops/tune/tune_operands.hpp"

namespace dlprim::detail {
namespace {

class GemmSubject : public PlanSubject {
 public:
  /// Bias, activation, alpha and beta of the description do not count: they are the same text in all engines.
  GemmSubject(const Context& context, GemmDesc desc, const Options& options)
      : PlanSubject(context, options),
        desc_(without_epilogue(std::move(desc))),
        problem_(gemm_problem(desc_)),
        tuned_(gemm_tune_problem(problem_, this->options())) {}

  const TuneProblem& problem() const override { return tuned_; }
  TuneRun plan(const std::string& engine) override {
    return run_of<Gemm>(desc_, engine, [this](const Gemm& p, const Tensor& workspace) {
      p.run(stream(), a_, b_, {}, c_, workspace);
    });
  }
  int64_t wrong_elements() override { return count("x0 == x1 ? 0 : 1"); }

 private:
  static GemmDesc without_epilogue(GemmDesc desc) {
    return {std::move(desc.a), std::move(desc.b), std::move(desc.c)};
  }
  TuneCandidates found(const Options& options) const override {
    return gemm_candidates(stream().context(), problem_, options);
  }
  void make_operands() override {
    a_ = tune_integers(stream(), desc_.a, 1);
    b_ = tune_integers(stream(), desc_.b, 2);
    c_ = tune_memory(stream(), desc_.c);
  }
  const Tensor& result() const override { return c_; }

  GemmDesc desc_;
  GemmProblem problem_;
  TuneProblem tuned_;
  Tensor a_, b_, c_;
};

/// [batch,] rows, columns; transposed in memory or not.
TensorDesc matrices(int64_t batch, int64_t rows, int64_t columns, bool transposed, DType dtype) {
  const Strides strides = transposed ? Strides{1, rows} : Strides{columns, 1};
  if (batch == 1) return {{rows, columns}, strides, dtype, true};
  return {{batch, rows, columns}, {rows * columns, strides[0], strides[1]}, dtype, true};
}

std::unique_ptr<TuneSubject> subject(const Context& context, const std::string& text, TuneMode mode) {
  ProblemLine line(text);
  const int64_t m = line.size("m"), n = line.size("n"), k = line.size("k"), batch = line.size("batch", 1);
  const bool a_transposed = line.word("a", {"n", "t"}) == "t",
             b_transposed = line.word("b", {"n", "t"}) == "t";
  const DType dtype = line.dtype("dtype", DType::f32);
  const DType result = line.dtype("c_dtype", dtype == DType::i8 ? DType::i32 : dtype);
  Options options;
  options.math = parse_math(line.word("math", {"standard", "strict", "tf32"}));
  line.word("engine", {"auto"});
  line.finish();
  options.tune = mode;
  const GemmDesc desc{matrices(batch, m, k, a_transposed, dtype), matrices(batch, k, n, b_transposed, dtype),
                      matrices(batch, m, n, false, result)};
  gemm_problem(desc);  // refuses dtypes that do not go together
  require_real(context, dtype);
  return std::make_unique<GemmSubject>(context, desc, options);
}

struct Sizes {
  int64_t m, n, k;
};

/// What networks ask for: squares, narrow products, linear layers, vectors; odd sizes, which no vector
/// divides.
constexpr Sizes kFull[] = {{64, 64, 64},       {128, 128, 128},    {256, 256, 256},    {512, 512, 512},
                           {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096}, {8192, 8192, 8192},
                           {1025, 1025, 1025}, {2049, 2049, 2049}, {64, 64, 2048},     {64, 2048, 64},
                           {2048, 64, 64},     {64, 2048, 2048},   {2048, 64, 2048},   {2048, 2048, 64},
                           {128, 128, 8192},   {32, 1024, 1024},   {128, 512, 784},    {8, 4096, 4096},
                           {1, 4096, 4096},    {4096, 1, 4096}};
constexpr Sizes kQuick[] = {{64, 64, 64},       {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024},
                            {2048, 2048, 2048}, {64, 64, 2048},  {64, 2048, 512}, {1, 2048, 2048}};
constexpr const char* kForms[] = {"a=n b=n", "a=n b=t", "a=t b=n", "a=t b=t"};

bool is_fit(const Device& device, const Sizes& s, DType dtype) {
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  return tune_fits(device, 2 * m * n * k, (m * k + k * n + 2 * m * n) * static_cast<double>(size_of(dtype)));
}

std::vector<std::string> problems(const Context& context, bool full) {
  const Device& device = context.device();
  const bool matrix = device.probes().matrix != MatrixEngine::none;
  struct Kind {
    DType dtype;
    const char* text;
    bool all;  ///< every problem in every form
  };
  std::vector<Kind> kinds = {{DType::f32, "dtype=f32", true}};
  if (full && matrix) kinds.push_back({DType::f32, "dtype=f32 math=tf32", true});
  if (full || matrix) kinds.push_back({DType::f16, "dtype=f16", full && matrix});
  if (full) kinds.push_back({DType::bf16, "dtype=bf16", matrix});
  std::vector<std::string> lines;
  const auto add = [&](const Sizes& s, const char* form, const Kind& kind) {
    if (is_fit(device, s, kind.dtype))
      lines.push_back(cat("gemm m=", s.m, " n=", s.n, " k=", s.k, " ", form, " ", kind.text));
  };
  for (const Kind& kind : kinds) {
    if (full && kind.all)
      for (const char* form : kForms)
        for (const Sizes& s : kFull) add(s, form, kind);
    else
      for (const Sizes& s : kQuick) add(s, kForms[0], kind);
    if (!full)
      for (int form = 1; form < 4; form++) add({512, 512, 512}, kForms[form], kind);
  }
  return lines;
}

}  // namespace

TuneProblem gemm_tune_problem(const GemmProblem& p, const Options& options) {
  TuneProblem result;
  result.op = "gemm";
  result.dtype = p.dtype;
  result.result = p.c_dtype;
  const bool tf32 = p.dtype == DType::f32 && options.math == MathMode::tf32;
  result.math = tf32 ? MathMode::tf32 : MathMode::standard;
  // "odd": 16-byte reads of an operand are not possible, which costs some engines a copy and others half
  // their rate.
  result.form =
      cat(p.a.unit_k ? "mk" : "km", p.b.unit_k ? "-nk" : "-kn", p.a.vectors && p.b.vectors ? "" : "-odd");
  result.sizes = {{"m", p.m}, {"n", p.n}, {"k", p.k}, {"batch", p.batch}};
  return result;
}

void measure_gemm_on_first_use(const Context& context, const GemmDesc& desc, const GemmProblem& p,
                               const Options& options) {
  if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0) return;
  measure_on_first_use(context, gemm_tune_problem(p, options), options.tune,
                       [&] { return std::make_unique<GemmSubject>(context, desc, options); });
}

extern const TuneFamily kGemmTuning;
const TuneFamily kGemmTuning = {"gemm", problems, subject};

}  // namespace dlprim::detail
