// Random numbers' state on a device: a seed and a place in the sequence of Philox that dlprim/random.hpp
// tells of.
#pragma once

#include <memory>

#include <ATen/core/Generator.h>
#include <dlprim/random.hpp>

#include "device.hpp"

namespace ocl {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);

  static c10::DeviceType device_type() { return kOcl; }
  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  /// Takes the place of another generator: what one draws, the other does not draw again.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  /// A generator that shares this one's place until either is given another.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

  /// The place of so many numbers, which no later call gets. Takes the generator's lock.
  dlprim::RandomState take(int64_t numbers);

 private:
  Generator* clone_impl() const override;
  std::shared_ptr<dlprim::RandomState> state_ = std::make_shared<dlprim::RandomState>();
};

/// The generator that operators use if they are given none; -1: of the current device.
const at::Generator& default_generator(c10::DeviceIndex index);

}  // namespace ocl
