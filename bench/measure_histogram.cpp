// Counting elements as cases of `measure`: "histogram f=bincount bins=256 size=16777216 dtype=f32
// layout=nchw". f: bincount, weighted (of that dtype), histc from -1 to 1, histc_data, whose range is the
// data's. Elements of bincount are i64, uniform in the bins.
#include <dlprim/histogram.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"bincount", "weighted", "histc", "histc_data"});
  const int64_t bins = line.size("bins");
  const Form form(line);
  line.finish();
  const Tensor x = form.input("x");
  if (f == "histc" || f == "histc_data") {
    const HistogramRange range = f == "histc" ? HistogramRange{-1, 1} : HistogramRange{};
    const Tensor y = form.result({bins}, form.dtype);
    return moving_case(bytes_of({x, y}), {y}, [=] { histc(stream(), x, range, y); });
  }
  const Tensor places = random_whole("places", form.shape, bins);
  if (f == "bincount") {
    const Tensor y = form.result({bins}, DType::i64);
    return moving_case(bytes_of({places, y}), {y}, [=] { bincount(stream(), places, {}, y); });
  }
  const Tensor y = form.result({bins}, form.dtype);
  return moving_case(bytes_of({places, x, y}), {y}, [=] { bincount(stream(), places, x, y); });
}
const CasesOf kHistogram("histogram", make);

}  // namespace
}  // namespace dlprim::bench
