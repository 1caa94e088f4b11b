// The text of multi_tensor.cl's kernels, and their launches.
#include "ops/multi_tensor.hpp"

#include <algorithm>
#include <climits>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"

namespace dlprim::detail {
namespace {

constexpr size_t kMostPlaces = 32;  // bits of `aligned`

/// A launch's arguments may have CL_DEVICE_MAX_PARAMETER_SIZE bytes; 200 are for those beside the lists.
size_t places_of(const Context& context, size_t lists) {
  size_t most = 1024;
  cl_check(
      clGetDeviceInfo(context.device().cl()(), CL_DEVICE_MAX_PARAMETER_SIZE, sizeof most, &most, nullptr),
      "clGetDeviceInfo");
  return std::clamp<size_t>((std::max<size_t>(most, 1024) - 200) / (16 * lists + 12), 1, kMostPlaces);
}

/// The loads, the body and the stores of element `index`.
std::string element_text(const MultiTensorForm& form, const char* index) {
  std::string loads, stores;
  for (size_t k = 0; k < form.lists.size(); k++) {
    const TensorList& list = form.lists[k];
    const char* type = name_of(list.dtype);
    loads += list.read ? cat("real x", k, " = LOAD_", type, "(x", k, "_p, ", index, ");\n")
                       : cat("real x", k, ";\n");
    if (list.written) stores += cat("STORE_", type, "(x", k, "_p, ", index, ", x", k, ");\n");
  }
  return cat(loads, form.body, '\n', stores);
}

/// The slots of the loop over V elements at a time.
struct VectorTexts {
  std::string load, body, store;
  explicit VectorTexts(const MultiTensorForm& form) {
    std::string results;
    for (size_t k = 0; k < form.lists.size(); k++) {
      const TensorList& list = form.lists[k];
      const char* type = name_of(list.dtype);
      load += cat("real X", k, "[V];\n");
      if (list.read) load += cat("VLOAD_", type, "(x", k, "_p, i, X", k, ");\n");
      body += list.read ? cat("real x", k, " = X", k, "[e];\n") : cat("real x", k, ";\n");
      if (!list.written) continue;
      results += cat('X', k, "[e] = x", k, ";\n");
      store += cat("VSTORE_", type, "(x", k, "_p, i, X", k, ");\n");
    }
    body += cat(form.body, '\n', results);
  }
};

/// The parameters of the lists, and how a group chooses its place among them.
struct PlaceTexts {
  std::string parameters, choose, advance;
  PlaceTexts(const MultiTensorForm& form, size_t places) {
    for (size_t p = 0; p < places; p++) {
      std::string chosen;
      for (size_t k = 0; k < form.lists.size(); k++) {
        const char* type = storage_type(form.lists[k].dtype);
        const std::string at = cat('x', k, '_', p, " + x", k, "_o", p);
        parameters += cat("__global ", type, "* x", k, '_', p, ", long x", k, "_o", p, ",\n");
        if (p == 0) choose += cat("__global ", type, "* x", k, "_p = ", at, ";\n");
        if (p == 0) advance += cat('x', k, "_p += begin;\n");
        chosen += cat(", x", k, "_p = ", at);
      }
      parameters += cat("long n_", p, ", int g_", p, ",\n");
      choose += p == 0 ? std::string("long n = n_0;\n")
                       : cat("if (group >= g_", p, ") place = ", p, ", first = g_", p, ", n = n_", p, chosen,
                             ";\n");
    }
    for (int s = 0; s < form.scalars; s++) parameters += cat("real s", s, ",\n");
  }
};

/// The loop of a CPU. Sums go into lanes, so that they become vector instructions too.
std::string cpu_loop(const MultiTensorForm& form) {
  if (!form.sums)
    return cat("INDEPENDENT_ROUNDS\nfor (int i = 0; i < count; i++) {\n", element_text(form, "i"), "}\n");
  return cat("int i = 0;\nfor (; i + LANES <= count; i += LANES)\n  for (int e = 0; e < LANES; e++) {\n",
             element_text(form, "i + e"), "}\nfor (const int e = 0; i < count; i++) {\n",
             element_text(form, "i"), "}\n");
}

std::string source_of(const MultiTensorForm& form, DType real, size_t places, bool cpu) {
  const VectorTexts vector(form);
  const PlaceTexts place(form, places);
  const std::string head = cat(real == DType::f64 ? "#define REAL double\n" : "#define REAL float\n",
                               "#define V 4\n#define LOCAL ", cpu ? 1 : 256, '\n');
  return fill_slots(kernel_source("multi_tensor"), {{"HEAD", head},
                                                    {"PARAMETERS", place.parameters},
                                                    {"CHOOSE", place.choose},
                                                    {"ADVANCE", place.advance},
                                                    {"CPU", cpu_loop(form)},
                                                    {"LOAD", vector.load},
                                                    {"BODY", vector.body},
                                                    {"STORE", vector.store},
                                                    {"REST", element_text(form, "i")},
                                                    {"FINISH", form.finish + "\n"}});
}

/// The elements lie side by side, in whatever order.
bool has_no_gaps(const TensorDesc& desc) {
  return element_count(desc.shape) == 0 || extent_of(desc) == element_count(desc.shape);
}

void bind(Launch& launch, const Tensor& number) {
  launch.arg(number).arg(static_cast<int>(number.defined()));
}

}  // namespace

MultiTensor::MultiTensor(const Context& context, const MultiTensorForm& form)
    : lists_(form.lists), scalars_(form.scalars), cpu_(context.device().kind() == DeviceKind::cpu) {
  for (const TensorList& list : lists_) {
    require(is_floating(list.dtype), list.name, "dtype ", name_of(list.dtype), " is not floating");
    if (list.dtype == DType::f64) real_ = DType::f64;
  }
  for (const TensorList& list : lists_)
    require((list.dtype == DType::f64) == (real_ == DType::f64), list.name, "dtype ", name_of(list.dtype),
            " stands beside f64");
  require_real(context, real_);
  chunk_ = cpu_ ? 1 << 15 : 1 << 12;
  places_ = places_of(context, lists_.size());
  kernel_ = context.state().programs.generated("multi_tensor", source_of(form, real_, places_, cpu_),
                                               "multi_tensor");
}

void MultiTensor::check(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists,
                        const DeviceNumbers& numbers) const {
  const Context& context = stream.context();
  for (size_t k = 0; k < lists.size(); k++)
    require(lists[k]->size() == lists[0]->size(), lists_[k].name, lists[k]->size(), " tensors, of ",
            lists_[0].name, " there are ", lists[0]->size());
  for (size_t i = 0; i < lists[0]->size(); i++) {
    for (size_t k = 0; k < lists.size(); k++) {
      const Tensor &x = (*lists[k])[i], &first = (*lists[0])[i];
      const ArgName name(lists_[k].name, i);
      require_context(name, x, context);
      require_dtype(name, x, lists_[k].dtype);
      require_shape(name, x, first.shape());
      require(has_no_gaps(x), name, "strides ", to_string(x.strides()), " leave gaps");
      TensorDesc like(first);
      like.dtype = lists_[k].dtype;
      require_tensor(name, x, context,
                     TensorDesc(like.shape, like.strides, like.dtype, TensorDesc(x).aligned));
      for (size_t j = 0; j < k; j++)
        if (lists_[k].written || lists_[j].written)
          require_no_overlap(ArgName(lists_[k].name, i), x, ArgName(lists_[j].name, i), (*lists[j])[i]);
    }
  }
  require_device_number("factor", numbers.factor, context);
  require_device_number("scale", numbers.scale, context);
  require_device_number("found_inf", numbers.flag, context);
}

std::vector<MultiTensor::Place> MultiTensor::places(
    const std::vector<const std::vector<Tensor>*>& lists) const {
  std::vector<Place> result;
  const auto follows = [&](size_t i, const Place& place) {
    return std::all_of(lists.begin(), lists.end(), [&](const std::vector<Tensor>* list) {
      const Tensor &x = (*list)[i], &first = (*list)[place.index];
      return x.storage() == first.storage() && x.offset() == first.offset() + place.count;
    });
  };
  for (size_t i = 0; i < lists[0]->size(); i++) {
    const int64_t count = (*lists[0])[i].numel();
    if (count == 0) continue;
    if (!result.empty() && follows(i, result.back()))
      result.back().count += count;
    else
      result.push_back({i, count});
  }
  return result;
}

int64_t MultiTensor::groups(const std::vector<const std::vector<Tensor>*>& lists) const {
  int64_t sum = 0;
  for (const Place& place : places(lists)) sum += ceil_div(place.count, chunk_);
  return sum;
}

void MultiTensor::run(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists,
                      const std::vector<double>& scalars, const DeviceNumbers& numbers) const {
  const std::vector<Place> all = places(lists);
  int64_t before = 0;
  for (size_t i = 0; i < all.size(); i += places_) {
    const size_t count = std::min(places_, all.size() - i);
    launch(stream, lists, all.data() + i, count, scalars, numbers, before);
    for (size_t k = i; k < i + count; k++) before += ceil_div(all[k].count, chunk_);
  }
}

void MultiTensor::launch(const Stream& stream, const std::vector<const std::vector<Tensor>*>& lists,
                         const Place* first, size_t count, const std::vector<double>& scalars,
                         const DeviceNumbers& numbers, int64_t groups_before) const {
  Launch launch(stream, kernel_);
  uint32_t aligned = 0;
  int64_t groups = 0;
  for (size_t p = 0; p < places_; p++) {
    bool whole = p < count;
    for (const std::vector<Tensor>* list : lists) {
      const Tensor x = p < count ? (*list)[first[p].index] : Tensor();
      whole = whole && x.offset() % 4 == 0;
      launch.arg(x);
    }
    aligned |= static_cast<uint32_t>(whole) << p;
    launch.arg(p < count ? first[p].count : int64_t{0});
    launch.arg(p < count ? to_int("groups", groups) : INT_MAX);
    if (p < count) groups += ceil_div(first[p].count, chunk_);
  }
  to_int("groups", groups);
  for (double s : scalars)
    if (real_ == DType::f64)
      launch.arg(s);
    else
      launch.arg(static_cast<float>(s));
  launch.arg(aligned).arg(chunk_);
  bind(launch, numbers.factor);
  bind(launch, numbers.scale);
  launch.arg(numbers.flag).arg(static_cast<int>(numbers.flag.defined() && numbers.skips));
  launch.arg(numbers.parts.defined() ? numbers.parts.slice(0, groups_before, numbers.parts.numel())
                                     : Tensor());
  const int64_t local = cpu_ ? 1 : 256;
  launch.run({static_cast<size_t>(groups * local)}, {static_cast<size_t>(local)});
}

void require_device_number(const char* name, const Tensor& number, const Context& context) {
  if (!number.defined()) return;
  require_context(name, number, context);
  require_dtype(name, number, DType::f32);
  require(number.numel() == 1, name, "has ", number.numel(), " elements, must have one");
}

}  // namespace dlprim::detail
