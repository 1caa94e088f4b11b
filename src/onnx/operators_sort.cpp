// The largest elements, distinct elements, boxes that do not overlap, counts of sequences.
#include "core/text.hpp"
#include "onnx/operators.hpp"

namespace dlprim::onnx {
namespace {

/// k is an attribute before opset 10.
void top_k(NodeImport& node) {
  Attributes attributes{{"axis", node.integer("axis", -1)}};
  int k = NetGraph::kNone;
  if (node.opset < 10) {
    if (!node.has("k")) node.refuse("has no k");
    k = node.constant({node.integer("k", 0)});
  } else {
    k = node.in(1);
  }
  if (node.opset >= 11) {
    attributes.emplace("largest", node.integer("largest", 1) != 0);
    attributes.emplace("sorted", node.integer("sorted", 1) != 0);
  }
  node.results(node.emit_many("top_k", {node.in(0), k}, 2, std::move(attributes)));
}

void unique(NodeImport& node) {
  Attributes attributes{{"sorted", node.integer("sorted", 1) != 0}};
  if (node.has("axis")) attributes.emplace("axis", node.integer("axis", 0));
  node.results(node.emit_many("unique", {node.in(0)}, 4, std::move(attributes)));
}

void non_max_suppression(NodeImport& node) {
  node.result(node.emit("non_max_suppression", node.all_inputs(),
                        {{"center", node.integer("center_point_box", 0) != 0}}));
}

/// Of whole numbers. Weights are said to be the n-grams', and taken by columns elsewhere: where these differ
/// they are refused.
void tf_idf_vectorizer(NodeImport& node) {
  const std::string mode = node.text("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") node.refuse("has mode '" + mode + "'");
  if (node.has("pool_strings")) node.refuse("has pool_strings: texts are not supported");
  const std::vector<int64_t> columns = node.integers("ngram_indexes");
  Attributes attributes{{"pool", node.integers("pool_int64s")},
                        {"starts", node.integers("ngram_counts")},
                        {"columns", columns},
                        {"min", node.integer("min_gram_length", 1)},
                        {"max", node.integer("max_gram_length", 1)},
                        {"skips", node.integer("max_skip_count", 0)},
                        {"presence", mode == "IDF"}};
  const std::vector<double> weights = node.numbers("weights");
  if (mode != "TF" && !weights.empty()) {
    for (size_t i = 0; i < columns.size(); i++)
      if (columns[i] != static_cast<int64_t>(i))
        node.refuse("has weights and ngram_indexes that are not 0, 1, 2, ...");
    attributes.emplace("weights", weights);
  }
  node.result(node.emit("count_ngrams", {node.in(0)}, std::move(attributes)));
}

constexpr OperatorEntry kOperators[] = {
    {"NonMaxSuppression", non_max_suppression},
    {"TfIdfVectorizer", tf_idf_vectorizer},
    {"TopK", top_k},
    {"Unique", unique},
};

}  // namespace

OperatorList sort_operators() {
  return list_of(kOperators);
}

}  // namespace dlprim::onnx
