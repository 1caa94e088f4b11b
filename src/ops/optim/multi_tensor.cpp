// Where tensors lie, for multi_tensor.cl's kernels, and their launches.
#include "ops/optim/multi_tensor.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "core/composed.hpp"
#include "core/gen/arguments.hpp"
#include "core/gen/expression_check.hpp"
#include "core/observer.hpp"

namespace dlprim::detail {
namespace {

constexpr int kGpuChunk = 1 << 12, kCpuChunk = 1 << 15;  // what is left of one fits in 16 bits
constexpr int kCpuSumChunk = 1 << 11;  // of sums, so that a lane adds up no more than 128 elements in a row

/// A launch's arguments may have CL_DEVICE_MAX_PARAMETER_SIZE bytes. Where there is room, resnet50's
/// parameters with one state are one launch.
TableSize table_size(const Context& context, const MultiTensorForm& form, DType real) {
  constexpr size_t kOthers = 120;  // bytes of those that every kernel has
  size_t most = 1024;
  cl_check(
      clGetDeviceInfo(context.device().cl()(), CL_DEVICE_MAX_PARAMETER_SIZE, sizeof most, &most, nullptr),
      "clGetDeviceInfo");
  TableSize size{form.lists.size(), static_cast<size_t>(form.place_scalars), size_of(real),
                 most >= 2048 ? size_t{48} : size_t{16}};
  const size_t others = kOthers + size.buffers * sizeof(cl_mem) + 16 * form.numbers.size() +
                        sizeof(double) * static_cast<size_t>(form.scalars);
  const size_t room = std::clamp<size_t>(most, 1024, 4352) - others;
  const auto fits = [&](size_t places) {
    TableSize larger = size;
    larger.places = places;
    return larger.bytes() <= room;
  };
  while (fits(size.places + 1)) size.places++;
  return size;
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
  int64_t place = -1;  ///< of a list whose elements may be another's
  DType dtype = DType::f32;
};

void add_bytes(std::vector<Bytes>& all, const ArgName& name, const Tensor& x, bool written,
               int64_t place = -1) {
  if (x.numel() == 0) return;
  const int64_t begin = x.offset() * static_cast<int64_t>(size_of(x.dtype()));
  all.push_back(
      {x.buffer()(), begin, begin + static_cast<int64_t>(x.bytes()), name, written, place, x.dtype()});
}

/// One that is read and one that is written, which begin at one byte, are the same elements.
bool are_same(const Bytes& x, const Bytes& y) {
  return x.written != y.written && x.place >= 0 && x.place == y.place && x.dtype == y.dtype;
}

/// What is written is nowhere read or written a second time. Thousands of tensors are sorted, not compared
/// with each other; they have no gaps, so none lies between another's elements.
void require_written_apart(std::vector<Bytes>& all) {
  const auto less = [](const Bytes& a, const Bytes& b) {
    return a.buffer != b.buffer ? std::less<>()(a.buffer, b.buffer) : a.begin < b.begin;
  };
  const auto refuse = [](const Bytes& x, const Bytes& y) {
    require(false, (x.written ? x : y).name, "shares memory with ", (x.written ? y : x).name);
  };
  std::sort(all.begin(), all.end(), less);
  const Bytes *longest = nullptr, *written = nullptr;  // of those in front, which reach furthest
  for (auto next = all.begin(); next != all.end();) {
    const auto begin = next;  // of those that begin where this one does
    while (next != all.end() && !less(*begin, *next)) next++;
    if (longest && longest->buffer != begin->buffer) longest = written = nullptr;
    const auto changed = std::find_if(begin, next, [](const Bytes& x) { return x.written; });
    for (auto x = begin; x != next; x++) {
      const Bytes* before = x->written ? longest : written;
      if (before && before->end > x->begin) refuse(*x, *before);
      if (changed != next && x != changed && !are_same(*x, *changed)) refuse(*changed, *x);
    }
    for (auto x = begin; x != next; x++) {
      if (!longest || x->end > longest->end) longest = &*x;
      if (x->written && (!written || x->end > written->end)) written = &*x;
    }
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
  bool add(const TensorLists& lists, const TensorPlace& place, DType real,
           const std::vector<std::vector<double>>& scalars) {
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
    for (size_t s = 0; s < size_.scalars; s++) {
      const size_t at = (s * size_.places + places_) * size_.scalar_bytes;
      const double value = scalars[s][place.index];
      if (real == DType::f64)
        put(at, value);
      else
        put(at, static_cast<float>(value));
    }
    const int64_t groups = ceil_div(place.count, chunk_);
    put(size_.rest() + 2 * places_, static_cast<uint16_t>(place.count - (groups - 1) * chunk_));
    groups_ += groups;
    places_++;
    put(size_.first() + 4 * places_, to_int("groups", groups_));
    return true;
  }
  void bind(Launch& launch) {
    for (size_t b = 0; b < size_.buffers; b++) {
      const cl_mem buffer = b < buffers_.size() ? buffers_[b].first : nullptr;
      if (b < buffers_.size()) put(size_.high() + 4 * b, buffers_[b].second);
      launch.buffer(buffer);
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
    : form_(form), cpu_(context.device().kind() == DeviceKind::cpu) {
  const auto at_most = [](const char* what, size_t count, size_t most) {
    require(count <= most, what, count, " are more than ", most);
  };
  at_most("lists", form.lists.size(), kMostLists);
  at_most("numbers", form.numbers.size(), kMostNumbers);
  at_most("scalars", static_cast<size_t>(form.scalars), kMostScalars);
  at_most("place_scalars", static_cast<size_t>(form.place_scalars), kMostPlaceScalars);
  const auto each = [&](const auto& f) {
    for (const TensorList& list : form.lists) f(list.name.c_str(), list.dtype);
    for (const TensorNumber& number : form.numbers) f(number.name.c_str(), number.dtype);
  };
  each([&](const char* name, DType dtype) {
    require(is_floating(dtype), name, "dtype ", name_of(dtype), " is not floating");
    if (dtype == DType::f64) real_ = DType::f64;
  });
  if (!form.any_mix)
    each([&](const char* name, DType dtype) {
      require((dtype == DType::f64) == (real_ == DType::f64), name, "dtype ", name_of(dtype),
              " stands beside f64");
    });
  require_real(context, real_);
  chunk_ = !cpu_ ? kGpuChunk : form.sums ? kCpuSumChunk : kCpuChunk;
  table_ = table_size(context, form, real_);
  const std::string source = multi_tensor_source(form, real_, table_, cpu_);
  try {
    kernel_ = context.state().programs.generated("multi_tensor", source, "multi_tensor");
  } catch (const BuildError& error) {
    if (!form.expression.empty()) throw_expression_error(error.log(), source, {{"body", form.expression}});
    throw;
  }
}

void MultiTensor::check_one(const Context& context, const ArgName& name, const TensorList& list,
                            const Tensor& x, const Tensor& first) const {
  if (list.single) return require_number(name, x, context, list.dtype);
  // What passes here passes below, which takes longer.
  if (x.defined() && x.dtype() == list.dtype && x.context() == context && x.shape() == first.shape() &&
      x.strides() == first.strides() && (&x != &first || has_no_gaps(x)))
    return;
  require_context(name, x, context);
  require_dtype(name, x, list.dtype);
  require_shape(name, x, first.shape());
  require(has_no_gaps(x), name, "strides ", x.strides(), " leave gaps");
  require_tensor(name, x, context,
                 TensorDesc(first.shape(), first.strides(), list.dtype, TensorDesc(x).aligned));
}

TensorPlaces MultiTensor::check(const Stream& stream, const TensorLists& lists, const DeviceNumbers& numbers,
                                std::initializer_list<Named> results) const {
  const Context& context = stream.context();
  std::vector<Bytes> bytes;
  bytes.reserve(lists.size() * lists[0]->size() + 8);
  for (size_t k = 0; k < lists.size(); k++)
    require(lists[k]->size() == lists[0]->size(), form_.lists[k].name.c_str(), lists[k]->size(),
            " tensors, of ", form_.lists[0].name, " there are ", lists[0]->size());
  for (size_t i = 0; i < lists[0]->size(); i++)
    for (size_t k = 0; k < lists.size(); k++) {
      const Tensor& x = (*lists[k])[i];
      const TensorList& list = form_.lists[k];
      const ArgName name(list.name.c_str(), i);
      check_one(context, name, list, x, (*lists[0])[i]);
      add_bytes(bytes, name, x, !list.store.empty(),
                form_.same_elements && !list.single ? static_cast<int64_t>(i) : -1);
    }
  for (size_t n = 0; n < form_.numbers.size(); n++) {
    const ArgName name(form_.numbers[n].name.c_str());
    require_number(name, numbers.others[n], context, form_.numbers[n].dtype);
    add_bytes(bytes, name, numbers.others[n], false);
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
  const auto is_single = [](const TensorList& list) { return list.single; };
  const bool apart = form_.apart || form_.place_scalars > 0 ||
                     std::any_of(form_.lists.begin(), form_.lists.end(), is_single);
  const auto follows = [&](size_t i, const TensorPlace& place) {
    return std::all_of(lists.begin(), lists.end(), [&](const std::vector<Tensor>* list) {
      const Tensor &x = (*list)[i], &first = (*list)[place.index];
      return x.offset() == first.offset() + place.count && x.storage() == first.storage();
    });
  };
  for (size_t i = 0; i < lists[0]->size(); i++) {
    const int64_t count = (*lists[0])[i].numel();
    if (count == 0) continue;
    if (!apart && !result.all.empty() && follows(i, result.all.back()))
      result.all.back().count += count;
    else
      result.all.push_back({i, count});
  }
  for (const TensorPlace& place : result.all) result.groups += groups_of(place);
  return result;
}

int64_t MultiTensor::groups_of(const TensorPlace& place) const {
  return ceil_div(place.count, chunk_);
}

void MultiTensor::run(const Stream& stream, const TensorLists& lists, const TensorPlaces& places,
                      const HostNumbers& scalars, const DeviceNumbers& numbers) const {
  for (const std::vector<Tensor>* list : lists)
    for (const TensorPlace& place : places.all) touch(stream.state(), (*list)[place.index]);
  int64_t before = 0;
  for (size_t i = 0; i < places.all.size();) {
    Table table(table_, chunk_);
    while (i < places.all.size() && table.add(lists, places.all[i], real_, scalars.place_scalars)) i++;
    Launch launch(stream, kernel_);
    table.bind(launch);
    for (const Tensor& number : numbers.others) launch.arg(number);
    for (double s : scalars.scalars) launch.real(real_, s);
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

void require_number(const ArgName& name, const Tensor& number, const Context& context, DType dtype) {
  require_context(name, number, context);
  require_dtype(name, number, dtype);
  require(number.numel() == 1, name, "has ", number.numel(), " elements, must have one");
}

void require_device_number(const char* name, const Tensor& number, const Context& context) {
  if (number.defined()) require_number(name, number, context, DType::f32);
}

}  // namespace dlprim::detail
