// What ATen asks of the device beside tensors: whether it is there, whose a pointer is, random numbers'
// state.
#include "hooks.hpp"

#include <array>
#include <cstring>

#include <ATen/Functions.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "host_memory.hpp"
#include "memory.hpp"

namespace ocl {

Generator::Generator(c10::DeviceIndex index)
    : GeneratorImpl(c10::Device(kOcl, index), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {
  state_->seed = c10::default_rng_seed_val;
}

void Generator::set_current_seed(uint64_t seed) {
  *state_ = {seed, 0};
}
void Generator::set_offset(uint64_t offset) {
  state_->offset = offset;
}
uint64_t Generator::get_offset() const {
  return state_->offset;
}
uint64_t Generator::current_seed() const {
  return state_->seed;
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_->seed;
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const at::Tensor state = at::empty({16}, at::TensorOptions(at::kByte).device(at::kCPU));
  std::memcpy(state.mutable_data_ptr(), &state_->seed, 8);
  std::memcpy(static_cast<char*>(state.mutable_data_ptr()) + 8, &state_->offset, 8);
  return state.getIntrusivePtr();
}

void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(
      state.device().is_cpu() && state.dtype() == at::kByte && state.is_contiguous() && state.numel() == 16,
      "the state of a generator on ocl is 16 bytes on the CPU: seed and offset");
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&state_->seed, bytes, 8);
  std::memcpy(&state_->offset, bytes + 8, 8);
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  *copy->state_ = *state_;
  return copy;
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  const c10::intrusive_ptr<Generator> other = c10::dynamic_intrusive_pointer_cast<Generator>(state);
  TORCH_CHECK(other, "graphsafe_set_state takes the state of a generator on ocl");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  auto shared = c10::make_intrusive<Generator>(device().index());
  shared->state_ = state_;
  return shared;
}

dlprim::RandomState Generator::take(int64_t numbers) {
  const std::lock_guard lock(mutex_);
  return state_->take(numbers);
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* const all = new std::array<at::Generator, kMaxDevices>;
  static std::mutex mutex;
  if (index < 0) index = current_device();
  TORCH_CHECK(index < device_count(), "there is no device ocl:", int{index});
  const std::lock_guard lock(mutex);
  at::Generator& generator = (*all)[static_cast<size_t>(index)];
  if (!generator.defined()) generator = at::make_generator<Generator>(index);
  return generator;
}

namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  void init() const override { device(-1); }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return is_made(index); }

  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(device_count()); }
  void setCurrentDevice(c10::DeviceIndex index) const override { exchange_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override { return exchange_device(index); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return exchange_device(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<Generator>(index < 0 ? current_device() : index);
  }

  at::Device getDeviceFromPtr(void* data) const override {
    const Device* found = device_of_address(data);
    TORCH_CHECK(found, "this address is of no OpenCL device's memory");
    return {kOcl, found->index};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

}  // namespace ocl
