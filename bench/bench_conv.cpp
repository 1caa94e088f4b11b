// Convolution over the shapes of tests/cases/conv, in its three directions. --engine=NAME times one engine by
// name; --batch=N sets the network layers' batch (64, as the cases say, but 8 on a CPU).
#include "cases/conv.hpp"
#include "main.hpp"
#include "timing.hpp"

namespace {

using namespace dlprim;
using namespace dlprim::test;

void time_conv(benchmark::State& state, const ConvCase& c, const std::string& direction,
               const Options& options) {
  Rng rng(1);
  const auto random = [&](const Shape& shape) {
    return device_tensor(shape, reals(element_count(shape), rng));
  };
  const Tensor x = random(c.x_shape()), w = random(c.w_shape()), y = random(c.y_shape());
  const ConvDesc desc{x, w, y, c.params};
  const auto time = [&](const Plan& plan, const auto& run) {
    bench::time_runs(state, stream(), c.flops(), c.bytes(), run);
    state.SetLabel(plan.engine());
  };
  if (direction == "forward") {
    const Conv plan(context(), desc, options);
    time(plan, [&] { plan.run(stream(), x, w, {}, y); });
  } else if (direction == "backward_data") {
    const ConvBackwardData plan(context(), backward_data_of(desc), options);
    time(plan, [&] { plan.run(stream(), y, w, x); });
  } else {
    const ConvBackwardFilter plan(context(), backward_filter_of(desc), options);
    time(plan, [&] { plan.run(stream(), x, y, {}, w); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_main(argc, argv, [](bench::Arguments& arguments) {
    Options options;
    options.engine = arguments.take("engine", "auto");
    const bool cpu = context().device().kind() == DeviceKind::cpu;
    const int64_t batch = arguments.take_count("batch", cpu ? 8 : 64);
    std::vector<ConvCase> cases = demo_convs();
    for (const ConvCase& c : network_convs()) cases.push_back(c.with_batch(batch));
    for (const ConvCase& c : cases)
      for (const char* direction : {"forward", "backward_data", "backward_filter"})
        benchmark::RegisterBenchmark(
            ("conv/" + c.name + "/n" + std::to_string(c.n) + "/" + direction).c_str(),
            [options, c, direction](benchmark::State& state) { time_conv(state, c, direction, options); })
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
  });
}
