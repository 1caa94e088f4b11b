// Direct convolution: one work-item computes one element of the output, by the definition. It serves every
// valid problem and is the form to compare others with. It is slow, but for one channel a group, where a
// product of matrices would be mostly padding.

#include "activation.cl"

#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif

// What counts elements: long, or int where that is enough.
#ifndef INDEX
#define INDEX long
#endif

// Sizes, window, and the strides of the x side [N, C, H, W] and the y side [N, K, P, Q]. CG, KG: channels and
// filters of one group.
#define GEOMETRY                                                                                             \
  int N, int C, int H, int W, int K, int R, int S, int P, int Q, int CG, int KG, int stride_h, int stride_w, \
      int pad_h, int pad_w, int dilation_h, int dilation_w, INDEX x_n, INDEX x_c, INDEX x_h, INDEX x_w,      \
      INDEX y_n, INDEX y_k, INDEX y_p, INDEX y_q

__kernel void conv_forward(__global const float* x, long x_offset, __global const float* w, long w_offset,
                           __global const float* bias, long bias_offset, __global float* y, long y_offset,
                           GEOMETRY) {
  const INDEX at = (INDEX)get_global_id(0);
  if (at >= (INDEX)N * K * P * Q) return;
  const int q = (int)(at % Q), p = (int)(at / Q % P), k = (int)(at / Q / P % K), n = (int)(at / Q / P / K);
  const INDEX h0 = (INDEX)p * stride_h - pad_h, w0 = (INDEX)q * stride_w - pad_w;
  x += x_offset + n * x_n + (k / KG) * (INDEX)CG * x_c;
  w += w_offset + (INDEX)k * CG * R * S;
  float sum = 0;
  for (int c = 0; c < CG; c++)
    for (int r = 0; r < R; r++) {
      const INDEX h = h0 + (INDEX)r * dilation_h;
      if (h < 0 || h >= H) continue;
      for (int s = 0; s < S; s++) {
        const INDEX v = w0 + (INDEX)s * dilation_w;
        if (v >= 0 && v < W) sum = fma(x[c * x_c + h * x_h + v * x_w], w[((INDEX)c * R + r) * S + s], sum);
      }
    }
#if HAS_BIAS
  sum += bias[bias_offset + k];
#endif
  y[y_offset + n * y_n + k * y_k + p * y_p + q * y_q] = ACTIVATE(sum);
}

__kernel void conv_backward_data(__global const float* dy, long dy_offset, __global const float* w,
                                 long w_offset, __global float* dx, long dx_offset, GEOMETRY) {
  const INDEX at = (INDEX)get_global_id(0);
  if (at >= (INDEX)N * C * H * W) return;
  const int v = (int)(at % W), h = (int)(at / W % H), c = (int)(at / W / H % C), n = (int)(at / W / H / C);
  const int group = c / CG;
  dy += dy_offset + n * y_n + group * (INDEX)KG * y_k;
  w += w_offset + ((INDEX)group * KG * CG + c % CG) * R * S;
  float sum = 0;
  for (int k = 0; k < KG; k++)
    for (int r = 0; r < R; r++) {
      // x's row h meets tap r in the output row p with p * stride = h + pad - r * dilation.
      const INDEX ph = (INDEX)h + pad_h - (INDEX)r * dilation_h, p = ph / stride_h;
      if (ph < 0 || p >= P || p * stride_h != ph) continue;
      for (int s = 0; s < S; s++) {
        const INDEX qw = (INDEX)v + pad_w - (INDEX)s * dilation_w, q = qw / stride_w;
        if (qw >= 0 && q < Q && q * stride_w == qw)
          sum = fma(dy[k * y_k + p * y_p + q * y_q], w[(INDEX)k * CG * R * S + r * S + s], sum);
      }
    }
  dx[dx_offset + n * x_n + c * x_c + h * x_h + v * x_w] = sum;
}

// get_global_id(1) sums over `images` of the batch and writes to a dw of its own, one after the other.
__kernel void conv_backward_filter(__global const float* x, long x_offset, __global const float* dy,
                                   long dy_offset, __global float* dw, long dw_offset, int images, GEOMETRY) {
  const INDEX at = (INDEX)get_global_id(0);
  const int part = (int)get_global_id(1), begin = part * images;
  const int end = images < N - begin ? begin + images : N;
  if (at >= (INDEX)K * CG * R * S) return;
  const int s = (int)(at % S), r = (int)(at / S % R), c = (int)(at / S / R % CG), k = (int)(at / S / R / CG);
  x += x_offset + ((k / KG) * (INDEX)CG + c) * x_c;
  dy += dy_offset + k * y_k;
  float sum = 0;
  for (int n = begin; n < end; n++)
    for (int p = 0; p < P; p++) {
      const INDEX h = (INDEX)p * stride_h - pad_h + (INDEX)r * dilation_h;
      if (h < 0 || h >= H) continue;
      // A chain per row, and one of rows: the error grows with their lengths' sum, not product.
      float row = 0;
      for (int q = 0; q < Q; q++) {
        const INDEX v = (INDEX)q * stride_w - pad_w + (INDEX)s * dilation_w;
        if (v >= 0 && v < W) row = fma(x[n * x_n + h * x_h + v * x_w], dy[n * y_n + p * y_p + q * y_q], row);
      }
      sum += row;
    }
  dw[dw_offset + (long)part * K * CG * R * S + at] = sum;
}
