// Elementwise functions as cases of `measure`: "elementwise f=gelu direction=forward size=64x256x56x56
// dtype=f32 layout=nchw low=-1 high=1". All inputs have one shape and numbers from low to high; backward
// gives all gradients that there are. layout: nchw, nhwc, or strided, every second column of larger tensors.
// f=copy: a plain copy.
#include <cstdlib>

#include <dlprim/copy.hpp>
#include <dlprim/random.hpp>

#include "cases/conv.hpp"
#include "cases/elementwise.hpp"
#include "measure.hpp"

namespace dlprim::bench {
namespace {

using test::context;
using test::stream;

/// Where tensors lie, and what they hold.
struct Form {
  explicit Form(detail::ProblemLine& line)
      : layout(line.word("layout", {"nchw", "nhwc", "strided"})),
        dtype(line.dtype("dtype", DType::f32)),
        low(std::strtod(line.text("low", "-1").c_str(), nullptr)),
        high(std::strtod(line.text("high", "1").c_str(), nullptr)) {
    for (int64_t size : line.sizes("size", {})) shape.push_back(size);
  }
  Tensor tensor(DType of) const {
    if (layout == "strided") {
      Shape wide = shape;
      wide[shape.size() - 1] *= 2;
      const Tensor x = filled(wide, of);
      Strides strides = x.strides();
      strides[shape.size() - 1] = 2;
      return x.as_strided(shape, strides);
    }
    if (layout == "nhwc")
      return filled({element_count(shape)}, of)
          .as_strided(shape, test::strides_in(test::Layout::nhwc, shape));
    return filled(shape, of);
  }

  Shape shape;
  std::string layout;
  DType dtype;
  double low, high;

 private:
  Tensor filled(const Shape& size, DType of) const {
    const Tensor values(context(), size), x(context(), size, of);
    random_uniform(stream(), values, low, high, RandomState{1, 0});
    copy(stream(), values, x);
    return x;
  }
};

struct FunctionCase : Case {
  FunctionCase(const ElementwiseFunction& f, const Form& form, bool backward)
      : function(f, backward, form.dtype, [&](DType of) { return form.tensor(of); }) {}
  void run() override { function.run(stream()); }
  std::string engine() const override { return "generated"; }

 private:
  test::ElementwiseCase function;
};

struct CopyCase : Case {
  explicit CopyCase(const Form& form) : x(form.tensor(form.dtype)), y(form.tensor(form.dtype)) {}
  void run() override { copy(stream(), x, y); }
  std::string engine() const override { return "copy"; }

 private:
  Tensor x, y;
};

}  // namespace

std::unique_ptr<Case> elementwise_case(detail::ProblemLine& line) {
  const std::string f = line.text("f", "copy");
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const Form form(line);
  line.finish();
  if (f == "copy") return std::make_unique<CopyCase>(form);
  return std::make_unique<FunctionCase>(elementwise_function(f), form, backward);
}

}  // namespace dlprim::bench
