// Sorting engine `boost_compute`: one long row by Boost.Compute's stable sort of keys with values, a radix
// sort on GPUs and a merge sort on CPUs, on the caller's queue. The only file that includes Boost.Compute;
// without its headers the engine refuses. What it allocates on the way is its own and no part of the
// workspace, and it keeps its programs, and with them the OpenCL context, until the process ends.
#ifdef DLPRIM_BOOST_COMPUTE
#include <dlprim/opencl.hpp>

#include <boost/compute/algorithm/stable_sort_by_key.hpp>
#include <boost/compute/buffer.hpp>
#include <boost/compute/exception/opencl_error.hpp>
#include <boost/compute/exception/program_build_failure.hpp>
#include <boost/compute/iterator/buffer_iterator.hpp>
#endif

#include <dlprim/rehearsal.hpp>

#include "core/composed.hpp"
#include "core/recorder.hpp"
#include "ops/sort/sort_impl.hpp"

namespace dlprim::detail {

extern const SortEngine kSortBoostCompute;

namespace {

#ifdef DLPRIM_BOOST_COMPUTE

namespace bc = boost::compute;

void sort_pairs(const Stream& stream, const Tensor& keys, const Tensor& values) {
  bc::command_queue queue(stream.cl()());
  const bc::buffer key_buffer(keys.buffer()()), value_buffer(values.buffer()());
  const auto first = bc::make_buffer_iterator<bc::uint_>(
      key_buffer, static_cast<size_t>(keys.offset()) * size_of(keys.dtype()) / sizeof(bc::uint_));
  const auto last = first + values.numel();
  bc::stable_sort_by_key(
      first, last, bc::make_buffer_iterator<bc::uint_>(value_buffer, static_cast<size_t>(values.offset())),
      queue);
}

struct BoostCompute : SortImpl {
  BoostCompute(const Context& context, const SortProblem& problem) : SortImpl(problem) {
    keys_at = parts.add(static_cast<size_t>(p.n) * sizeof(uint32_t));
    indices_at = parts.add(static_cast<size_t>(p.n) * sizeof(uint32_t));
    ProgramCache& programs = context.state().programs;
    split = programs.kernel("sort_split", "sort_split", sort_defines(p));
    join = programs.kernel("sort_split", "sort_join", sort_defines(p));
    if (context.device().kind() == DeviceKind::cpu) block = 4096;
  }
  size_t workspace_size() const override { return parts.size(); }

  void run(const Stream& stream, const SortTensors& t, const Tensor& ws) const override {
    const Tensor keys =
        workspace_part(ws, keys_at, {p.n * static_cast<int64_t>(sizeof(uint32_t))}, DType::u8);
    const Tensor indices = workspace_part(ws, indices_at, {p.n}, DType::i32);
    const size_t group = block > 1 ? 1 : 64,
                 items = items_in_groups(ceil_div(p.n, block), static_cast<int64_t>(group));
    for (const Kernel* kernel : {&split, &join}) {
      if (kernel == &join) sort(stream, keys, indices);
      Launch launch(stream, *kernel);
      p.bind_all(launch, t);
      launch.arg(kernel == &split ? p.n : p.k).arg(block).arg(keys).arg(indices);
      launch.run({items}, {group});
    }
  }

  void sort(const Stream& stream, const Tensor& keys, const Tensor& indices) const {
    if (Rehearsal::active()) return;
    require(!RecordingState::active(stream.state()), "engine",
            "boost_compute enqueues commands that a recording does not see");
    try {
      sort_pairs(stream, keys, indices);
    } catch (const bc::program_build_failure& error) {
      throw BuildError("boost_compute", "", error.build_log());
    } catch (const bc::opencl_error& error) {
      throw DeviceError("boost::compute::stable_sort_by_key", error.error_code());
    }
  }

  WorkspaceParts parts;
  size_t keys_at = 0, indices_at = 0;
  int block = 1;
  Kernel split, join;
};

std::string refuse(const Context&, const SortProblem& p, const EngineOptions&) {
  // Its merge sort left keys of 16 and 64 bits as they were, on PoCL with Boost 1.74: shorter keys are kept
  // in 32.
  if (p.key_bits() == 64) return cat("elements of ", name_of(p.dtype), " have 64 bits");
  if (p.at.rows != 1) return cat("sorts one row, not ", p.at.rows);
  return {};
}

std::unique_ptr<const SortImpl> make(const Context& context, const SortProblem& p, const EngineOptions&) {
  return std::make_unique<BoostCompute>(context, p);
}

#else

std::string refuse(const Context&, const SortProblem&, const EngineOptions&) {
  return "was built without Boost.Compute";
}

std::unique_ptr<const SortImpl> make(const Context&, const SortProblem&, const EngineOptions&) {
  return nullptr;
}

#endif

}  // namespace

const SortEngine kSortBoostCompute = {"boost_compute", refuse, make};

}  // namespace dlprim::detail
