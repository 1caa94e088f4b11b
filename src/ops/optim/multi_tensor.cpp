// The text of multi_tensor.cl's kernels, and their launches.
#include "ops/optim/multi_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/slots.hpp"
#include "core/kernel_source.hpp"
#include "core/observer.hpp"

namespace dlprim::detail {
namespace {

constexpr int kGpuChunk = 1 << 12, kCpuChunk = 1 << 15;  // what is left of one fits in 16 bits
constexpr int kCpuSumChunk = 1 << 11;  // of sums, so that a lane adds up no more than 128 elements in a row

/// A launch's arguments may have CL_DEVICE_MAX_PARAMETER_SIZE bytes; kOthers are for those that are neither
/// buffers nor in the table. Where there is room, resnet50's parameters with one state are one launch.
TableSize table_size(const Context& context, size_t lists) {
  constexpr size_t kOthers = 176;
  size_t most = 1024;
  cl_check(
      clGetDeviceInfo(context.device().cl()(), CL_DEVICE_MAX_PARAMETER_SIZE, sizeof most, &most, nullptr),
      "clGetDeviceInfo");
  TableSize size{lists, 0, most >= 2048 ? size_t{48} : size_t{16}};
  const size_t buffers = size.buffers * sizeof(cl_mem);
  const size_t room = std::clamp<size_t>(most, 1024, 4352) - kOthers - buffers;
  while (TableSize{lists, size.places + 1, size.buffers}.bytes() <= room) size.places++;
  return size;
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
  std::string values, load, body, store;
  explicit VectorTexts(const MultiTensorForm& form) {
    std::string results;
    for (size_t k = 0; k < form.lists.size(); k++) {
      const TensorList& list = form.lists[k];
      const char* type = name_of(list.dtype);
      values += cat("real X", k, "[ROUNDS][V];\n");
      if (list.read) load += cat("VLOAD_", type, "(x", k, "_p, at, X", k, "[r]);\n");
      body += list.read ? cat("real x", k, " = X", k, "[r][e];\n") : cat("real x", k, ";\n");
      if (!list.written) continue;
      results += cat('X', k, "[r][e] = x", k, ";\n");
      store += cat("VSTORE_", type, "(x", k, "_p, at, X", k, "[r]);\n");
    }
    body += cat(form.body, '\n', results);
  }
};

/// The buffers' parameters, and how a group finds the elements of its place.
struct PlaceTexts {
  std::string parameters, choose;
  PlaceTexts(const MultiTensorForm& form, size_t buffers) {
    for (size_t b = 0; b < buffers; b++) parameters += cat("__global char* buffer_", b, ",\n");
    for (int s = 0; s < form.scalars; s++) parameters += cat("real s", s, ",\n");
    std::string aligned = "const int aligned = 1";
    for (size_t k = 0; k < form.lists.size(); k++) {
      const char* type = storage_type(form.lists[k].dtype);
      choose += cat("__global char* start_", k, " = buffer_0;\nswitch (table.buffer[", k, "][place]) {\n");
      for (size_t b = 1; b < buffers; b++)
        choose += cat("case ", b, ": start_", k, " = buffer_", b, "; break;\n");
      choose += cat("}\n__global ", type, "* x", k, "_p = TENSOR(", k, ", ", type, ", start_", k, ");\n");
      aligned += cat(" && IS_ALIGNED(", k, ", ", type, ')');
    }
    choose += aligned + ";\n";
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

std::string source_of(const MultiTensorForm& form, DType real, const TableSize& table, bool cpu) {
  const VectorTexts vector(form);
  const PlaceTexts place(form, table.buffers);
  const std::string head =
      cat("#define REAL ", real == DType::f64 ? "double" : "float", "\n#define V 4\n#define LOCAL ",
          cpu ? 1 : 256, "\n#define ROUNDS ", form.lists.size() <= 2 ? 4 : 2, "\n#define LISTS ", table.lists,
          "\n#define PLACES ", table.places, "\n#define BUFFERS ", table.buffers, '\n');
  return fill_slots(kernel_source("multi_tensor"), {{"HEAD", head},
                                                    {"PARAMETERS", place.parameters},
                                                    {"CHOOSE", place.choose},
                                                    {"CPU", cpu_loop(form)},
                                                    {"VALUES", vector.values},
                                                    {"LOAD", vector.load},
                                                    {"BODY", vector.body},
                                                    {"STORE", vector.store},
                                                    {"REST", element_text(form, "i")},
                                                    {"FINISH", form.finish + "\n"}});
}

/// The elements lie side by side, in whatever order: some dimension steps by one, another by as many as the
/// first has, and so on.
bool has_no_gaps(const Tensor& x) {
  if (x.is_contiguous()) return true;
  int64_t together = 1;
  for (int i = 0; i < x.rank(); i++)
    for (int j = 0; j < x.rank(); j++)
      if (x.shape()[j] > 1 && x.strides()[j] == together) {
        together *= x.shape()[j];
        break;
      }
  return together == x.numel();
}

/// A tensor's bytes in its buffer.
struct Bytes {
  cl_mem buffer;
  int64_t begin, end;
  ArgName name;
  bool written;
};

void add_bytes(std::vector<Bytes>& all, const ArgName& name, const Tensor& x, bool written) {
  if (x.numel() == 0) return;
  const int64_t begin = x.offset() * static_cast<int64_t>(size_of(x.dtype()));
  all.push_back({x.buffer()(), begin, begin + static_cast<int64_t>(x.bytes()), name, written});
}

/// What is written is nowhere read or written a second time. Thousands of tensors are sorted, not compared
/// with each other; they have no gaps, so none lies between another's elements.
void require_written_apart(std::vector<Bytes>& all) {
  std::sort(all.begin(), all.end(), [](const Bytes& a, const Bytes& b) {
    return a.buffer != b.buffer ? std::less<>()(a.buffer, b.buffer) : a.begin < b.begin;
  });
  const Bytes *longest = nullptr, *written = nullptr;  // of those in front, which reach furthest
  for (const Bytes& x : all) {
    if (longest && longest->buffer != x.buffer) longest = written = nullptr;
    const Bytes* before = x.written ? longest : written;
    if (before && before->end > x.begin) {
      const Bytes &y = x.written ? x : *before, &other = x.written ? *before : x;
      require(false, y.name, "shares memory with ", other.name);
    }
    if (!longest || x.end > longest->end) longest = &x;
    if (x.written && (!written || x.end > written->end)) written = &x;
  }
}

void bind(Launch& launch, const Tensor& number) {
  launch.arg(number).arg(static_cast<int>(number.defined()));
}

/// The argument by value, as multi_tensor.cl lays it out, and the buffers that it names.
class Table {
 public:
  Table(const TableSize& size, int chunk) : size_(size), chunk_(chunk), bytes_(size.bytes()) {}

  /// False if there is no room for the place.
  bool add(const TensorLists& lists, const TensorPlace& place) {
    if (places_ == size_.places) return false;
    const size_t buffers_before = buffers_.size();
    for (size_t k = 0; k < lists.size(); k++) {
      const Tensor& x = (*lists[k])[place.index];
      const uint64_t at = static_cast<uint64_t>(x.offset()) * size_of(x.dtype());
      const std::pair<cl_mem, uint32_t> wanted(x.storage()->buffer(), static_cast<uint32_t>(at >> 32));
      const auto found = std::find(buffers_.begin(), buffers_.end(), wanted);
      const auto b = static_cast<size_t>(found - buffers_.begin());
      if (b == size_.buffers) {
        buffers_.resize(buffers_before);
        return false;
      }
      if (found == buffers_.end()) buffers_.push_back(wanted);
      put(size_.low() + 4 * (k * size_.places + places_), static_cast<uint32_t>(at));
      put(size_.buffer() + k * size_.places + places_, static_cast<uint8_t>(b));
    }
    const int64_t groups = ceil_div(place.count, chunk_);
    put(size_.rest() + 2 * places_, static_cast<uint16_t>(place.count - (groups - 1) * chunk_));
    groups_ += groups;
    places_++;
    put(4 * places_, to_int("groups", groups_));
    return true;
  }
  void bind(Launch& launch) {
    for (size_t b = 0; b < size_.buffers; b++) {
      const cl_mem buffer = b < buffers_.size() ? buffers_[b].first : nullptr;
      if (b < buffers_.size()) put(size_.high() + 4 * b, buffers_[b].second);
      launch.bind(&buffer, sizeof buffer);
    }
  }
  const std::vector<char>& bytes() const { return bytes_; }
  size_t places() const { return places_; }
  int64_t groups() const { return groups_; }

 private:
  template <class T>
  void put(size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }

  TableSize size_;
  int chunk_;
  std::vector<char> bytes_;
  std::vector<std::pair<cl_mem, uint32_t>> buffers_;  ///< and the upper half of what their offsets begin with
  size_t places_ = 0;
  int64_t groups_ = 0;
};

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
  chunk_ = !cpu_ ? kGpuChunk : form.sums ? kCpuSumChunk : kCpuChunk;
  table_ = table_size(context, lists_.size());
  kernel_ = context.state().programs.generated("multi_tensor", source_of(form, real_, table_, cpu_),
                                               "multi_tensor");
}

void MultiTensor::check_one(const Context& context, const ArgName& name, DType dtype, const Tensor& x,
                            const Tensor& first) const {
  // What passes here passes below, which takes longer.
  if (x.defined() && x.dtype() == dtype && x.context() == context && x.shape() == first.shape() &&
      x.strides() == first.strides() && (&x != &first || has_no_gaps(x)))
    return;
  require_context(name, x, context);
  require_dtype(name, x, dtype);
  require_shape(name, x, first.shape());
  require(has_no_gaps(x), name, "strides ", x.strides(), " leave gaps");
  require_tensor(name, x, context, TensorDesc(first.shape(), first.strides(), dtype, TensorDesc(x).aligned));
}

TensorPlaces MultiTensor::check(const Stream& stream, const TensorLists& lists, const DeviceNumbers& numbers,
                                std::initializer_list<Named> results) const {
  const Context& context = stream.context();
  std::vector<Bytes> bytes;
  bytes.reserve(lists.size() * lists[0]->size() + 8);
  for (size_t k = 0; k < lists.size(); k++)
    require(lists[k]->size() == lists[0]->size(), lists_[k].name, lists[k]->size(), " tensors, of ",
            lists_[0].name, " there are ", lists[0]->size());
  for (size_t i = 0; i < lists[0]->size(); i++)
    for (size_t k = 0; k < lists.size(); k++) {
      const Tensor& x = (*lists[k])[i];
      const ArgName name(lists_[k].name, i);
      check_one(context, name, lists_[k].dtype, x, (*lists[0])[i]);
      add_bytes(bytes, name, x, lists_[k].written);
    }
  require_device_number("factor", numbers.factor, context);
  require_device_number("scale", numbers.scale, context);
  require_device_number("found_inf", numbers.flag, context);
  add_bytes(bytes, "factor", numbers.factor, false);
  add_bytes(bytes, "scale", numbers.scale, false);
  add_bytes(bytes, "found_inf", numbers.flag, !numbers.skips);
  for (const Named& y : results) add_bytes(bytes, y.name, y.tensor, true);
  require_written_apart(bytes);
  return places(lists);
}

TensorPlaces MultiTensor::places(const TensorLists& lists) const {
  TensorPlaces result;
  result.all.reserve(lists[0]->size());
  const auto follows = [&](size_t i, const TensorPlace& place) {
    return std::all_of(lists.begin(), lists.end(), [&](const std::vector<Tensor>* list) {
      const Tensor &x = (*list)[i], &first = (*list)[place.index];
      return x.offset() == first.offset() + place.count && x.storage() == first.storage();
    });
  };
  for (size_t i = 0; i < lists[0]->size(); i++) {
    const int64_t count = (*lists[0])[i].numel();
    if (count == 0) continue;
    if (!result.all.empty() && follows(i, result.all.back()))
      result.all.back().count += count;
    else
      result.all.push_back({i, count});
  }
  for (const TensorPlace& place : result.all) result.groups += ceil_div(place.count, chunk_);
  return result;
}

void MultiTensor::run(const Stream& stream, const TensorLists& lists, const TensorPlaces& places,
                      const std::vector<double>& scalars, const DeviceNumbers& numbers) const {
  for (const std::vector<Tensor>* list : lists)
    for (const TensorPlace& place : places.all) touch(stream.state(), (*list)[place.index]);
  int64_t before = 0;
  for (size_t i = 0; i < places.all.size();) {
    Table table(table_, chunk_);
    while (i < places.all.size() && table.add(lists, places.all[i])) i++;
    Launch launch(stream, kernel_);
    table.bind(launch);
    for (double s : scalars) launch.real(real_, s);
    launch.bind(table.bytes().data(), table.bytes().size());
    launch.arg(static_cast<int>(table.places())).arg(chunk_);
    bind(launch, numbers.factor);
    bind(launch, numbers.scale);
    launch.arg(numbers.flag).arg(static_cast<int>(numbers.flag.defined() && numbers.skips));
    launch.arg(numbers.parts.defined() ? numbers.parts.slice(0, before, numbers.parts.numel()) : Tensor());
    const int64_t local = cpu_ ? 1 : 256;
    launch.run({static_cast<size_t>(table.groups() * local)}, {static_cast<size_t>(local)});
    before += table.groups();
  }
}

void require_device_number(const char* name, const Tensor& number, const Context& context) {
  if (!number.defined()) return;
  require_context(name, number, context);
  require_dtype(name, number, DType::f32);
  require(number.numel() == 1, name, "has ", number.numel(), " elements, must have one");
}

}  // namespace dlprim::detail
