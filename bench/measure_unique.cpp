// Distinct elements as cases of `measure`: "unique f=unique distinct=1000 with=both size=16777216 dtype=f32
// layout=nchw". f: unique, unique_consecutive. distinct: whole numbers below this. with: both, the inverse
// and the counts, or nothing but the elements.
#include <dlprim/copy.hpp>
#include <dlprim/unique.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const bool sorts = line.word("f", {"unique", "unique_consecutive"}) == "unique";
  const int64_t distinct = line.size("distinct");
  const bool both = line.word("with", {"both", "nothing"}) == "both";
  const Form form(line);
  line.finish();
  const Tensor x = cast(stream(), random_whole("x", form.shape, distinct), form.dtype);
  UniqueResults r{form.result({x.numel()}, form.dtype), Tensor(test::context(), {1}, DType::i64), {}, {}};
  if (both) {
    r.inverse = form.result(form.shape, DType::i64);
    r.counts = form.result({x.numel()}, DType::i64);
  }
  const auto results = [r] {
    const int64_t count = read<int64_t>(stream(), r.count)[0];
    std::vector<Tensor> all{r.y.slice(0, 0, count)};
    if (r.inverse.defined()) all.insert(all.end(), {r.inverse, r.counts.slice(0, 0, count)});
    return all;
  };
  return moving_case(bytes_of({x, r.y, r.inverse, r.counts}), results, [=] {
    if (sorts)
      unique(stream(), x, r);
    else
      unique_consecutive(stream(), x, r);
  });
}
const CasesOf kUnique("unique", make);

}  // namespace
}  // namespace dlprim::bench
