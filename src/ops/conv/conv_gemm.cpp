// The gemm engine: a window of one tap, without stride and padding, is a matrix product of tensors as they
// lie; it goes to GEMM's own choice of engine, which may take a long sum in parts.
#include <dlprim/gemm.hpp>

#include "ops/conv/conv_problem.hpp"
#include "ops/gemm/gemm_impl.hpp"

namespace dlprim::detail {

extern const ConvEngine kConvGemm;

namespace {

/// x or y as matrices: an element for each channel and pixel.
struct Pixels {
  Pixels(int images, int channels, const ConvStrides& strides, const Spatial& space, bool aligned,
         DType dtype)
      : images(images),
        channels(channels),
        count(int64_t{space[0]} * space[1] * space[2]),
        image_stride(strides[0]),
        channel_stride(strides[1]),
        pixel_stride(even_stride(strides, space)),
        aligned(aligned),
        dtype(dtype) {}

  /// Pixels of all images, if they lie evenly, as if of one; nothing otherwise.
  std::optional<Pixels> merged() const {
    Pixels all = *this;
    all.count *= images;
    all.images = 1;
    if (count == 1) all.pixel_stride = image_stride;
    const bool even = images <= 1 || count == 1 || image_stride == count * pixel_stride.value_or(0);
    return even ? std::make_optional(all) : std::nullopt;
  }
  /// Whether they make an operand of GEMM: with neighbours along one side, if it has two.
  bool runs() const {
    return pixel_stride && (count <= 1 || channels <= 1 || channel_stride == 1 || *pixel_stride == 1);
  }
  /// [pixels, channels], or transposed; for each image, if there are several.
  TensorDesc matrix(bool transposed) const {
    TensorDesc result({count, channels}, dtype);
    result.strides = {*pixel_stride, channel_stride};
    result.aligned = aligned;
    return in_images(transposed ? transpose(result) : result, images, image_stride);
  }
  static TensorDesc transpose(TensorDesc x) {
    std::swap(x.shape[0], x.shape[1]);
    std::swap(x.strides[0], x.strides[1]);
    return x;
  }
  static TensorDesc in_images(const TensorDesc& x, int images, int64_t stride) {
    if (images == 1) return x;
    TensorDesc result = x;
    result.shape = {images, x.shape[0], x.shape[1]};
    result.strides = {stride, x.strides[0], x.strides[1]};
    return result;
  }

  int images, channels;
  int64_t count, image_stride, channel_stride;
  std::optional<int64_t> pixel_stride;  ///< nothing: they do not lie evenly
  bool aligned;
  DType dtype;
};

/// The product that a convolution is.
struct Product {
  enum class Operand : uint8_t { x, w, y };
  Operand a = Operand::w, b = Operand::x, c = Operand::y;
  bool rows = false;  ///< of the result: pixels
  GemmDesc desc;
};

TensorDesc weights(const ConvProblem& p, DType dtype, bool rows_of_c) {
  TensorDesc w({p.k, p.c}, dtype);
  w.strides = {p.w[0], p.w[1]};
  w.aligned = p.w_aligned;
  return rows_of_c ? Pixels::transpose(w) : w;
}

/// Why the problem is none; empty if it is.
std::string refuse_windows(const ConvProblem& p) {
  if (p.groups != 1) return cat("is for one group, there are ", p.groups);
  if (p.taps() != 1) return cat("is for windows of one tap, these have ", p.taps());
  for (size_t i = 0; i < 3; i++)
    if (p.stride[i] != 1 || p.pad[i] != 0 || p.x_space[i] != p.y_space[i])
      return cat("is for neither stride nor padding, these are ", p.stride[i], " and ", p.pad[i]);
  return {};
}

/// dw[k, c], a sum over pixels of all images.
std::string filter_product(const ConvProblem& p, const Pixels& x, const Pixels& y, Product& product) {
  const auto all_x = x.merged(), all_y = y.merged();
  if (!all_x || !all_y || !all_x->runs() || !all_y->runs())
    return "pixels or channels of all images do not lie in one run";
  if (p.c > 1 && p.w[1] != 1) return cat("w's channels are ", p.w[1], " elements apart");
  product = {Product::Operand::y, Product::Operand::x, Product::Operand::w, false, {}};
  product.desc.a = all_y->matrix(true);
  product.desc.b = all_x->matrix(false);
  product.desc.c = weights(p, p.result_dtype, false);
  return {};
}

/// Of forward and backward data: the target's channels side by side, a row for each pixel; or its pixels side
/// by side, a row for each channel.
std::string data_product(const ConvProblem& p, Pixels from, Pixels to, Product& product) {
  const auto all_from = from.merged(), all_to = to.merged();
  if (all_from && all_to) from = *all_from, to = *all_to;
  if (!from.runs() || !to.runs()) return "neither pixels nor channels lie side by side";
  if (p.c > 1 && p.k > 1 && p.w[0] != 1 && p.w[1] != 1)
    return "neither rows nor channels of w lie side by side";
  const bool backward = p.direction == ConvDirection::backward_data,
             rows = to.channels <= 1 || to.channel_stride == 1;
  const Product::Operand source = backward ? Product::Operand::y : Product::Operand::x,
                         target = backward ? Product::Operand::x : Product::Operand::y;
  product.c = target;
  product.rows = rows;
  product.a = rows ? source : Product::Operand::w;
  product.b = rows ? Product::Operand::w : source;
  GemmDesc& desc = product.desc;
  const TensorDesc w = Pixels::in_images(weights(p, p.dtype, rows != backward), from.images, 0);
  desc.a = rows ? from.matrix(false) : w;
  desc.b = rows ? w : from.matrix(true);
  desc.c = to.matrix(!rows);
  const GemmDesc::Vector of_channels = rows ? GemmDesc::Vector::row : GemmDesc::Vector::column;
  if (p.bias) desc.bias = of_channels;
  if (p.scale) desc.scale = of_channels;
  desc.activation = p.activation;
  desc.residual = p.residual;
  desc.preactivation = p.preactivation;
  (rows ? desc.constant_b : desc.constant_a) = p.constant_w;
  return {};
}

/// Why there is none; empty if `product` is the convolution's.
std::string product_of(const ConvProblem& p, Product& product) {
  std::string reason = refuse_large(p);
  if (reason.empty()) reason = refuse_windows(p);
  if (!reason.empty()) return reason;
  const bool backward = p.direction == ConvDirection::backward_data;
  const Pixels x(p.n, p.c, p.x, p.x_space, p.x_aligned, backward ? p.result_dtype : p.dtype),
      y(p.n, p.k, p.y, p.y_space, p.y_aligned,
        p.direction == ConvDirection::forward ? p.result_dtype : p.dtype);
  if (p.direction == ConvDirection::backward_filter) return filter_product(p, x, y, product);
  return backward ? data_product(p, y, x, product) : data_product(p, x, y, product);
}

Product product_of(const ConvProblem& p) {
  Product product;
  const std::string reason = product_of(p, product);
  require(reason.empty(), "engine", "gemm ", reason);
  return product;
}

class ConvAsGemm : public ConvImpl {
 public:
  ConvAsGemm(const Context& context, const ConvProblem& p, const Options& options)
      : product_(product_of(p)), gemm_(context, product_.desc, inner_gemm_options(options)) {}

  size_t workspace_size() const override { return gemm_.workspace_size(); }
  void forget_constants() const override { gemm_.forget_constants(); }

  void run(const Stream& stream, const ConvTensors& t, const Tensor& workspace) const override {
    const auto operand = [&](Product::Operand which, const TensorDesc& desc) {
      return viewed(which == Product::Operand::x ? t.x : which == Product::Operand::w ? t.w : t.y, desc);
    };
    const GemmDesc& desc = product_.desc;
    EpilogueTensors with = t.with;
    with.residual = viewed(with.residual, desc.c);
    with.preactivation = viewed(with.preactivation, desc.c);
    gemm_.run(stream, operand(product_.a, desc.a), operand(product_.b, desc.b), with,
              operand(product_.c, desc.c), workspace);
  }

 private:
  static Tensor viewed(const Tensor& x, const TensorDesc& desc) {
    return x.defined() ? x.as_strided(desc.shape, desc.strides) : x;
  }

  const Product product_;
  const Gemm gemm_;
};

/// Engines for CPUs compute such products, too. Measured with 2 cores and 16 floats a vector, batch 8, on
/// mobilenet_v2's layers: times of those over this engine's.
std::string slower_on_cpu(const ConvProblem& p, bool rows) {
  const int64_t pixels = p.n * p.y_pixels();
  switch (p.direction) {
    case ConvDirection::backward_data:
      return {};  // 1.13
    case ConvDirection::backward_filter: {
      constexpr int64_t kMost = 512;  // 1.34 with fewer, 0.73 with more
      if (pixels <= kMost) return {};
      return cat("is faster on CPUs up to ", kMost, " pixels, these are ", pixels);
    }
    case ConvDirection::forward:
      break;
  }
  if (!rows) {
    constexpr int64_t kLeast = 512;  // 1.30 with more (28x28 to 112x112), 0.98 with fewer
    if (p.y_pixels() >= kLeast) return {};
    return cat("is faster on CPUs from planes of ", kLeast, " pixels on, these have ", p.y_pixels());
  }
  constexpr int64_t kMost = 8192;  // 1.10 with fewer, 0.87 with more
  if (pixels <= kMost) return {};
  return cat("is faster on CPUs up to ", kMost, " pixels, these are ", pixels);
}

std::string refuse(const Context&, const ConvProblem& p, const EngineOptions&) {
  Product product;
  return product_of(p, product);
}

std::string avoid(const Context& context, const ConvProblem& p, const EngineOptions&) {
  return context.device().kind() == DeviceKind::cpu ? slower_on_cpu(p, product_of(p).rows) : std::string();
}

std::unique_ptr<const ConvImpl> make(const Context& context, const ConvProblem& p,
                                     const EngineOptions& options) {
  return std::make_unique<ConvAsGemm>(context, p, options);
}

/// Fitted to an H200: the 1x1 layers of ten networks in rows, with 1, 16 and 64 images, and mobilenet_v2's
/// and resnet50's with channels last and 64 (root mean square of the logarithm's error: 0.23 and 0.14).
double predict(const Context& context, const ConvProblem& p, const EngineOptions& options) {
  if (context.device().kind() == DeviceKind::cpu) return 0;
  const double product =
      predicted_gemm_time(context, gemm_problem(product_of(p).desc), inner_gemm_options(options));
  constexpr double kStart = 4.7;  // in the product's prediction, microseconds
  return product > 0 ? 6 + 1.15 * (product - kStart) + conv_pixel_bytes(p) / 5e6 : 0;
}

}  // namespace

const ConvEngine kConvGemm = {"gemm", refuse, make, avoid, predict, nullptr, true};

}  // namespace dlprim::detail
