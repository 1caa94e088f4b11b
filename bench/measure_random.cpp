// Random numbers and samples as cases of `measure`: "random f=normal size=64x256x56x56 dtype=f32
// layout=nchw". f: uniform, normal, log_normal, bernoulli, exponential, cauchy, geometric, integers (below
// `range`); permutation of the size's product, i64; multinomial, `samples` of each of size's rows, with or
// without replacement; dropout, of every second element, forward or backward: the same operation.
#include <dlprim/dropout.hpp>
#include <dlprim/random.hpp>
#include <dlprim/sampling.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

std::unique_ptr<Case> fill_case(const std::string& f, const Form& form, int64_t range) {
  const Tensor y = form.result();
  const auto fill = [&](auto run) { return moving_case(bytes_of({y}), {y}, run); };
  const RandomState state{1, 0};
  if (f == "uniform") return fill([=] { random_uniform(stream(), 0, 1, state, y); });
  if (f == "normal") return fill([=] { random_normal(stream(), 0, 1, state, y); });
  if (f == "log_normal") return fill([=] { random_log_normal(stream(), 0, 1, state, y); });
  if (f == "bernoulli") return fill([=] { random_bernoulli(stream(), 0.5, state, y); });
  if (f == "exponential") return fill([=] { random_exponential(stream(), 1, state, y); });
  if (f == "cauchy") return fill([=] { random_cauchy(stream(), 0, 1, state, y); });
  if (f == "geometric") return fill([=] { random_geometric(stream(), 0.25, state, y); });
  return fill([=] { random_integers(stream(), 0, range, state, y); });
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f =
      line.word("f", {"uniform", "normal", "log_normal", "bernoulli", "exponential", "cauchy", "geometric",
                      "integers", "permutation", "multinomial", "dropout"});
  line.word("direction", {"forward", "backward"});
  const int64_t range = line.size("range", 1000), samples = line.size("samples", 1);
  const bool replacement = line.word("replacement", {"yes", "no"}) == "yes";
  const Form form(line);
  line.finish();
  if (f == "permutation") {
    const Tensor y(test::context(), {element_count(form.shape)}, DType::i64);
    return moving_case(bytes_of({y}), {y}, [y] { random_permutation(stream(), {1, 0}, y); });
  }
  if (f == "multinomial") {
    const Tensor w = form.input("w"), y(test::context(), {form.shape[0], samples}, DType::i64);
    return moving_case(bytes_of({w, y}), {y}, [=] { multinomial(stream(), w, replacement, {1, 0}, y); });
  }
  if (f == "dropout") {
    const Tensor x = form.input("x"), y = form.result();
    return moving_case(bytes_of({x, y}), {y}, [=] { dropout(stream(), x, 0.5, {1, 0}, y); });
  }
  return fill_case(f, form, range);
}
const CasesOf kRandom("random", make);

}  // namespace
}  // namespace dlprim::bench
