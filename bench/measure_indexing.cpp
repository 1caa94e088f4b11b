// Indexing as cases of `measure`: "indexing f=embedding direction=forward rows=50304 columns=768 count=32768
// dtype=f32". The table is [rows, columns]; `count` indices name rows, uniformly; gather and scatter have
// them in each column, index and index_put as many pairs of row and column. direction=backward: the gradient
// of the table.
#include <dlprim/embedding.hpp>

#include "measure.hpp"
#include "support.hpp"

namespace dlprim::bench {
namespace {

using test::stream;

/// The indices and `dense`, what is read from the table or written to it.
struct Operands {
  Tensor table, dense;
  std::vector<Tensor> indices;

  /// What has to be moved: `times` dense ones, the indices, and the table if all of it is written.
  double bytes(int times, bool all) const {
    return bytes_of(indices) + times * bytes_of({dense}) + (all ? bytes_of({table}) : 0);
  }
};

/// Reading, and its gradient, to which each place that was read adds.
std::unique_ptr<Case> reading_case(const std::string& f, bool backward, const Operands& o) {
  const Tensor &table = o.table, &dense = o.dense, &index = o.indices[0];
  const auto indices = o.indices;
  if (backward) {
    const auto gradient = [&](auto run) { return moving_case(o.bytes(1, true), {table}, run); };
    if (f == "embedding") return gradient([=] { embedding_backward(stream(), dense, index, {}, table); });
    if (f == "index_select")
      return gradient([=] { index_select_backward(stream(), dense, index, 0, table); });
    if (f == "gather") return gradient([=] { gather_backward(stream(), dense, index, 0, table); });
    return gradient([=] { dlprim::index_backward(stream(), dense, indices, table); });
  }
  const auto read = [&](auto run) { return moving_case(o.bytes(2, false), {dense}, run); };
  if (f == "embedding") return read([=] { embedding(stream(), table, index, dense); });
  if (f == "index_select") return read([=] { index_select(stream(), table, index, 0, dense); });
  if (f == "gather") return read([=] { gather(stream(), table, index, 0, dense); });
  return read([=] { dlprim::index(stream(), table, indices, dense); });
}

/// Writing in place, "scatter" or "scatter_sum" with the name of a reduction; reductions read as well.
std::unique_ptr<Case> writing_case(const std::string& f, const Operands& o) {
  const size_t at = f.rfind('_');
  const std::string reduce = f == "scatter" || f == "index_write" || f == "index_put" ? "" : f.substr(at + 1);
  const ScatterParams params{reduce.empty()    ? ScatterReduce::none
                             : reduce == "sum" ? ScatterReduce::sum
                             : reduce == "max" ? ScatterReduce::max
                                               : ScatterReduce::mean,
                             true};
  const Tensor &table = o.table, &dense = o.dense, &index = o.indices[0];
  const auto indices = o.indices;
  const auto write = [&](auto run) {
    return moving_case(o.bytes(reduce.empty() ? 2 : 3, false), {table}, run);
  };
  if (f.rfind("scatter", 0) == 0)
    return write([=] { scatter(stream(), table, index, dense, 0, params, table); });
  if (f.rfind("index_write", 0) == 0)
    return write([=] { index_write(stream(), table, index, dense, 0, params, table); });
  return write([=] { index_put(stream(), table, indices, dense, params, table); });
}

std::unique_ptr<Case> make(detail::ProblemLine& line) {
  const std::string f =
      line.word("f", {"embedding", "index_select", "gather", "index", "scatter", "scatter_sum", "scatter_max",
                      "scatter_mean", "index_write", "index_write_sum", "index_put", "index_put_sum"});
  const bool backward = line.word("direction", {"forward", "backward"}) == "backward";
  const int64_t rows = line.size("rows"), columns = line.size("columns"), count = line.size("count");
  const DType dtype = line.dtype("dtype", DType::f32);
  line.finish();
  const bool reads = f == "embedding" || f == "index_select" || f == "gather" || f == "index";
  if (backward && !reads) throw Error("indexing f=" + f + " has no direction=backward");
  const bool pairs = f == "index" || f.rfind("index_put", 0) == 0;
  const bool each = f == "gather" || f.rfind("scatter", 0) == 0;
  Operands o{random_tensor("table", {rows, columns}, dtype),
             random_tensor("dense", pairs ? Shape{count} : Shape{count, columns}, dtype),
             {random_whole("index", each ? Shape{count, columns} : Shape{count}, rows)}};
  if (pairs) o.indices.push_back(random_whole("column", {count}, columns));
  return reads ? reading_case(f, backward, o) : writing_case(f, o);
}
const CasesOf kIndexing("indexing", make);

}  // namespace
}  // namespace dlprim::bench
