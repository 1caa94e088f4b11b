// Places in sorted sequences as cases of `measure`: "searchsorted n=1024 sequences=one size=16777216
// dtype=f32 layout=nchw". n: elements of a sequence. sequences: one, or each for one a row of x.
#include <dlprim/searchsorted.hpp>
#include <dlprim/sort.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const int64_t n = line.size("n");
  const bool each = line.word("sequences", {"one", "each"}) == "each";
  const Form form(line);
  line.finish();
  Shape shape{n};
  if (each) {
    shape = form.shape;
    shape[shape.size() - 1] = n;
  }
  const Tensor elements = form.input("elements", shape, form.dtype),
               sorted(test::context(), shape, form.dtype);
  sort(stream(), elements, {}, sorted);
  const Tensor x = form.input("x"), y = form.result(form.shape, DType::i64);
  return moving_case(bytes_of({sorted, x, y}), {y}, [=] { searchsorted(stream(), sorted, x, false, y); });
}
const CasesOf kSearchsorted("searchsorted", make);

}  // namespace
}  // namespace dlprim::bench
