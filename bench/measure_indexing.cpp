// Indexing as cases of `measure`: "indexing f=embedding rows=50304 columns=768 count=32768 dtype=f32". The
// table is [rows, columns]; `count` indices name rows, uniformly, and gather and scatter have them in each
// column.
#include <dlprim/copy.hpp>
#include <dlprim/embedding.hpp>
#include <dlprim/random.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

Tensor random_rows(const Shape& shape, int64_t rows) {
  const Tensor real(test::context(), shape);
  random_uniform(stream(), real, 0, static_cast<double>(rows), {3, 0});
  return cast(stream(), real, DType::i64);
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f = line.word("f", {"embedding", "embedding_backward", "index_select", "index_add",
                                        "gather", "scatter_add", "scatter_max"});
  const int64_t rows = line.size("rows"), columns = line.size("columns"), count = line.size("count");
  const DType dtype = line.dtype("dtype", DType::f32);
  line.finish();
  const Tensor table = random_tensor({rows, columns}, dtype), dense = random_tensor({count, columns}, dtype);
  const bool each = f == "gather" || f == "scatter_add" || f == "scatter_max";
  const Tensor index = random_rows(each ? Shape{count, columns} : Shape{count}, rows);
  // Reading takes rows that the indices name; writing has all of the table to make.
  const double read = bytes_of({index, dense, dense}), written = bytes_of({index, dense, table});
  const ScatterParams sum{ScatterReduce::sum, true}, max{ScatterReduce::max, true};
  if (f == "embedding") return moving_case(read, [=] { embedding(stream(), table, index, dense); });
  if (f == "embedding_backward")
    return moving_case(written, [=] { embedding_backward(stream(), dense, index, table); });
  if (f == "index_select") return moving_case(read, [=] { index_select(stream(), table, index, 0, dense); });
  if (f == "index_add")
    return moving_case(read + bytes_of({dense}),
                       [=] { index_write(stream(), table, index, dense, 0, table, sum); });
  if (f == "gather") return moving_case(read, [=] { gather(stream(), table, index, 0, dense); });
  const ScatterParams params = f == "scatter_add" ? sum : max;
  return moving_case(read + bytes_of({dense}),
                     [=] { scatter(stream(), table, index, dense, 0, table, params); });
}
const CasesOf kIndexing("indexing", make);

}  // namespace
}  // namespace dlprim::bench
