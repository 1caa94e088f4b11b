// `dlprim eval`: the accuracy of trained weights on the test images.
#include <cstdio>

#include "classifier.hpp"
#include "commands.hpp"
#include "device_choice.hpp"
#include "waiting.hpp"

namespace dlprim::cli {

int run_eval(const EvalOptions& options) {
  const Context context(choose_device(options.device));
  const Dataset test = read_dataset(options.data, "t10k");
  const Stream stream(context);
  const Waiting waiting(compiling());
  const Classifier classifier(stream, 0, test.rows, test.columns);
  classifier.net.load(stream, options.weights);
  const Score score = evaluate(stream, classifier, test, options.batch);
  std::printf("device         %s\n", describe(context.device()).c_str());
  std::printf("test images    %lld\n", static_cast<long long>(score.count));
  std::printf("test loss      %.4f\n", score.loss);
  std::printf("test accuracy  %.2f %%\n", 100 * score.accuracy());
  return 0;
}

}  // namespace dlprim::cli
