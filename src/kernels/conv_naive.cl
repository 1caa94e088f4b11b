// Direct convolution: one work-item computes one element of the output, by the definition and in 64-bit indices.
// It serves every valid problem and is the form to compare others with; it is not fast.

#include "activation.cl"

#ifndef HAS_BIAS
#define HAS_BIAS 1
#endif

// Sizes, window, and the strides of the x side [N, C, H, W] and the y side [N, K, P, Q]. CG, KG: channels and
// filters of one group.
#define GEOMETRY                                                                                              \
  int N, int C, int H, int W, int K, int R, int S, int P, int Q, int CG, int KG, int stride_h, int stride_w,  \
      int pad_h, int pad_w, int dilation_h, int dilation_w, long x_n, long x_c, long x_h, long x_w, long y_n, \
      long y_k, long y_p, long y_q

__kernel void conv_forward(__global const float* x, long x_offset, __global const float* w, long w_offset,
                           __global const float* bias, long bias_offset, __global float* y, long y_offset,
                           GEOMETRY) {
  const long at = (long)get_global_id(0);
  if (at >= (long)N * K * P * Q) return;
  const int q = (int)(at % Q), p = (int)(at / Q % P), k = (int)(at / Q / P % K), n = (int)(at / Q / P / K);
  const long h0 = (long)p * stride_h - pad_h, w0 = (long)q * stride_w - pad_w;
  x += x_offset + n * x_n + (k / KG) * (long)CG * x_c;
  w += w_offset + (long)k * CG * R * S;
  float sum = 0;
  for (int c = 0; c < CG; c++)
    for (int r = 0; r < R; r++) {
      const long h = h0 + (long)r * dilation_h;
      if (h < 0 || h >= H) continue;
      for (int s = 0; s < S; s++) {
        const long v = w0 + (long)s * dilation_w;
        if (v >= 0 && v < W) sum = fma(x[c * x_c + h * x_h + v * x_w], w[((long)c * R + r) * S + s], sum);
      }
    }
#if HAS_BIAS
  sum += bias[bias_offset + k];
#endif
  y[y_offset + n * y_n + k * y_k + p * y_p + q * y_q] = ACTIVATE(sum);
}

__kernel void conv_backward_data(__global const float* dy, long dy_offset, __global const float* w, long w_offset,
                                 __global float* dx, long dx_offset, GEOMETRY) {
  const long at = (long)get_global_id(0);
  if (at >= (long)N * C * H * W) return;
  const int v = (int)(at % W), h = (int)(at / W % H), c = (int)(at / W / H % C), n = (int)(at / W / H / C);
  const int group = c / CG;
  dy += dy_offset + n * y_n + group * (long)KG * y_k;
  w += w_offset + ((long)group * KG * CG + c % CG) * R * S;
  float sum = 0;
  for (int k = 0; k < KG; k++)
    for (int r = 0; r < R; r++) {
      // x's row h meets tap r in the output row p with p * stride = h + pad - r * dilation.
      const long ph = (long)h + pad_h - (long)r * dilation_h, p = ph / stride_h;
      if (ph < 0 || p >= P || p * stride_h != ph) continue;
      for (int s = 0; s < S; s++) {
        const long qw = (long)v + pad_w - (long)s * dilation_w, q = qw / stride_w;
        if (qw >= 0 && q < Q && q * stride_w == qw)
          sum = fma(dy[k * y_k + p * y_p + q * y_q], w[(long)k * CG * R * S + r * S + s], sum);
      }
    }
  dx[dx_offset + n * x_n + c * x_c + h * x_h + v * x_w] = sum;
}

__kernel void conv_backward_filter(__global const float* x, long x_offset, __global const float* dy, long dy_offset,
                                   __global float* dw, long dw_offset, GEOMETRY) {
  const long at = (long)get_global_id(0);
  if (at >= (long)K * CG * R * S) return;
  const int s = (int)(at % S), r = (int)(at / S % R), c = (int)(at / S / R % CG), k = (int)(at / S / R / CG);
  x += x_offset + ((k / KG) * (long)CG + c) * x_c;
  dy += dy_offset + k * y_k;
  float sum = 0;
  for (int n = 0; n < N; n++)
    for (int p = 0; p < P; p++) {
      const long h = (long)p * stride_h - pad_h + (long)r * dilation_h;
      if (h < 0 || h >= H) continue;
      float row = 0;  // a chain per row, and one of rows: the error grows with their lengths' sum, not product
      for (int q = 0; q < Q; q++) {
        const long v = (long)q * stride_w - pad_w + (long)s * dilation_w;
        if (v >= 0 && v < W) row = fma(x[n * x_n + h * x_h + v * x_w], dy[n * y_n + p * y_p + q * y_q], row);
      }
      sum += row;
    }
  dw[dw_offset + at] = sum;
}
