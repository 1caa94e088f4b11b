// Feeds broken ONNX files to the reader: fuzz_onnx SECONDS SEED FILES... changes the files at random, a few
// changes on top of each other, and reads what comes of it. Nothing but dlprim::Error may be thrown; build it
// with sanitizers. A quarter of the files is changed blindly; the others inside fields, whose messages get
// the length that they then have, so that the readers of the innermost messages are reached. It knows nothing
// of ONNX's fields. The same seed makes the same files.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "cases/fuzz.hpp"
#include "onnx/constant.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::onnx;
using namespace dlprim::test::fuzz;

/// Where a field lies in its message; `value` is behind the tag, and behind the length if it has one.
struct Field {
  size_t begin, value, end;
  bool has_length;
};

/// The fields up to the first that is none.
std::vector<Field> fields_of(const std::string& bytes) {
  std::vector<Field> fields;
  for (size_t at = 0; at < bytes.size();) {
    const int type = bytes[at] & 7;
    const size_t value = at + varint_length(bytes, at);
    if (value >= bytes.size()) break;
    uint64_t length = type == 1 ? 8 : type == 5 ? 4 : 0;
    size_t begin = value;
    if (type == 0) {
      length = varint_length(bytes, value);
    } else if (type == 2) {
      begin += varint_length(bytes, value);
      for (size_t i = begin; i-- > value;)
        length = length << 7 | (static_cast<unsigned char>(bytes[i]) & 0x7f);
    }
    if (length == 0 && type != 2) break;
    if (begin > bytes.size() || length > bytes.size() - begin) break;
    fields.push_back({at, begin, begin + static_cast<size_t>(length), type == 2});
    at = fields.back().end;
  }
  return fields;
}

/// Changes a field of the message, or one of a message in it.
void mutate_inside(std::string& bytes, const std::string& other, Random& random, int depth = 0) {
  const std::vector<Field> fields = fields_of(bytes);
  if (fields.empty() || depth > 12) return mutate(bytes, other, random);
  const Field field = fields[below(random, fields.size())];
  const std::string whole = bytes.substr(field.begin, field.end - field.begin);
  switch (random() % 16) {
    case 0:
      bytes.insert(fields[below(random, fields.size())].begin, whole);
      return;
    case 1:
      bytes.erase(field.begin, whole.size());
      return;
    case 2:  // another field's number, or another wire type
      bytes[field.begin] = static_cast<char>(random() % 2 ? random() % 128 : bytes[field.begin] ^ 2);
      return;
    default:
      break;
  }
  std::string value = bytes.substr(field.value, field.end - field.value);
  if (!field.has_length) {
    mutate(value, other, random);
    bytes.replace(field.value, field.end - field.value, value);
    return;
  }
  mutate_inside(value, other, random, depth + 1);
  const size_t tag = varint_length(bytes, field.begin);
  bytes.replace(field.begin + tag, whole.size() - tag, varint(value.size()) + value);
}

struct Counts {
  int64_t runs = 0, models = 0, tensors = 0, constants = 0;
};

/// Reads the numbers of all tensors below a message.
class Reader {
 public:
  Reader(ExternalFiles& files, Counts& counts) : files_(files), counts_(counts) {}

  void read(const GraphMessage& graph) {
    for (const TensorMessage& tensor : graph.initializers) constant(tensor);
    for (const SparseTensorMessage& sparse : graph.sparse_initializers) constant(sparse);
    for (const NodeMessage& node : graph.nodes) read(node.attributes);
  }
  void read(const std::vector<AttributeMessage>& attributes) {
    for (const AttributeMessage& attribute : attributes) {
      for (const TensorMessage& tensor : attribute.tensors) constant(tensor);
      for (const SparseTensorMessage& sparse : attribute.sparse_tensors) constant(sparse);
      for (const GraphMessage& graph : attribute.graphs) read(graph);
    }
  }
  void read(const ModelMessage& model) {
    read(model.graph);
    for (const FunctionMessage& function : model.functions) {
      read(function.attribute_defaults);
      for (const NodeMessage& node : function.nodes) read(node.attributes);
    }
  }
  template <class Tensor>
  void constant(const Tensor& tensor) {
    try {
      const HostTensor made = constant_of(tensor, files_);
      counts_.constants++;
      if (made.data.size() != static_cast<size_t>(element_count(made.shape)) * size_of(made.dtype))
        std::abort();
    } catch (const Error&) {  // refused, as it should be
    }
  }

 private:
  ExternalFiles& files_;
  Counts& counts_;
};

/// `bytes` as a model and as a tensor, from memory of their own so that a sanitizer sees a byte too much.
void read_all(const std::string& bytes, ExternalFiles& files, Counts& counts) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const std::string_view view(copy.data(), copy.size());
  Reader reader(files, counts);
  counts.runs++;
  try {
    const ModelMessage model = parse_model(view);
    counts.models++;
    reader.read(model);
  } catch (const Error&) {
  }
  try {
    const TensorMessage tensor = parse_tensor(view);
    counts.tensors++;
    reader.constant(tensor);
  } catch (const Error&) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: fuzz_onnx SECONDS SEED FILES...\n");
    return 2;
  }
  const std::vector<std::string> paths(argv + 3, argv + argc);
  std::vector<std::string> corpus;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (!file || corpus.back().empty()) {
      std::fprintf(stderr, "cannot read '%s'\n", path.c_str());
      return 2;
    }
  }
  ExternalFiles files(paths[0]);
  Random random(std::strtoull(argv[2], nullptr, 10));
  Counts counts;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atol(argv[1]));
  for (const std::string& bytes : corpus) read_all(bytes, files, counts);
  while (std::chrono::steady_clock::now() < end) {
    std::string bytes = corpus[below(random, corpus.size())];
    const std::string& other = corpus[below(random, corpus.size())];
    const bool blindly = random() % 4 == 0;
    for (size_t changes = 1 + below(random, 6); changes > 0; changes--)
      if (blindly)
        mutate(bytes, other, random);
      else
        mutate_inside(bytes, other, random);
    read_all(bytes, files, counts);
  }
  std::printf("%lld executions: %lld models and %lld tensors were read, %lld constants made\n",
              static_cast<long long>(counts.runs), static_cast<long long>(counts.models),
              static_cast<long long>(counts.tensors), static_cast<long long>(counts.constants));
  return 0;
}
