// Direct convolution: one work-item computes one element of the output, by the definition. It serves every
// valid problem and is the form to compare others with. It is slow.

#include "gemm/gemm_types.cl"

// What counts elements: long, or int where that is enough.
#ifndef INDEX
#define INDEX long
#endif
// 1: sums of parts of the batch go to `partial`, one result after the other, instead of dw.
#ifndef PARTS
#define PARTS 0
#endif

// Sizes, window, and the strides of x [N, C, D, H, W], w [K, C/groups, T, R, S] and y [N, K, O, P, Q]. CG, KG: channels
// and filters of one group.
#define STRIDES(x, n, c, d, h, w) INDEX x##_##n, INDEX x##_##c, INDEX x##_##d, INDEX x##_##h, INDEX x##_##w
#define GEOMETRY                                                                                               \
  int N, int CG, int KG, int groups, int D, int H, int W, int T, int R, int S, int O, int P, int Q, int stride_d,  \
      int stride_h, int stride_w, int pad_d, int pad_h, int pad_w, int dilation_d, int dilation_h,             \
      int dilation_w, STRIDES(x, n, c, d, h, w), STRIDES(w, k, c, t, r, s), STRIDES(y, n, k, o, p, q)

__kernel void conv_forward(__global const AB_STORAGE* x, long x_offset, __global const AB_STORAGE* w,
                           long w_offset, __global C_STORAGE* y, long y_offset, GEOMETRY, EPILOGUE_PARAMETERS) {
  const INDEX item = (INDEX)get_global_id(0);
  const int K = KG * groups;
  if (item >= (INDEX)N * K * O * P * Q) return;
  INDEX rest = item;
  const int q = (int)(rest % Q);
  rest /= Q;
  const int p = (int)(rest % P);
  rest /= P;
  const int o = (int)(rest % O);
  rest /= O;
  const int k = (int)(rest % K), n = (int)(rest / K);
  const INDEX d0 = (INDEX)o * stride_d - pad_d, h0 = (INDEX)p * stride_h - pad_h, w0 = (INDEX)q * stride_w - pad_w;
  x += x_offset + n * x_n + (k / KG) * (INDEX)CG * x_c;
  w += w_offset + k * w_k;
  REAL sum = 0;
  for (int c = 0; c < CG; c++)
    for (int t = 0; t < T; t++) {
      const INDEX d = d0 + (INDEX)t * dilation_d;
      if (d < 0 || d >= D) continue;
      for (int r = 0; r < R; r++) {
        const INDEX h = h0 + (INDEX)r * dilation_h;
        if (h < 0 || h >= H) continue;
        for (int s = 0; s < S; s++) {
          const INDEX v = w0 + (INDEX)s * dilation_w;
          if (v < 0 || v >= W) continue;
          const INDEX x_at = c * x_c + d * x_d + h * x_h + v * x_w, w_at = c * w_c + t * w_t + r * w_r + s * w_s;
          sum = MULTIPLY_ADD((REAL)LOAD_AB(x, x_at), (REAL)LOAD_AB(w, w_at), sum);
        }
      }
    }
  const long at = (long)(n * y_n + k * y_k + o * y_o + p * y_p + q * y_q);
  STORE_C(y + y_offset, at, FINISH(SCALED(sum, k, n), k, n, at));
}

// Sets `output` to the position along an axis of y whose window has tap `tap` at x's `input`; continues if there is none.
#define MEET(output, input, tap, stride, pad, dilation, size)                \
  const INDEX output##_times = (INDEX)(input) + pad - (INDEX)(tap)*dilation; \
  const INDEX output = output##_times / stride;                              \
  if (output##_times < 0 || output >= size || output * stride != output##_times) continue;

__kernel void conv_backward_data(__global const AB_STORAGE* y, long y_offset, __global const AB_STORAGE* w,
                                 long w_offset, __global C_STORAGE* x, long x_offset, GEOMETRY, EPILOGUE_PARAMETERS) {
  const INDEX item = (INDEX)get_global_id(0);
  const int C = CG * groups;
  if (item >= (INDEX)N * C * D * H * W) return;
  INDEX rest = item;
  const int v = (int)(rest % W);
  rest /= W;
  const int h = (int)(rest % H);
  rest /= H;
  const int d = (int)(rest % D);
  rest /= D;
  const int c = (int)(rest % C), n = (int)(rest / C), group = c / CG;
  y += y_offset + n * y_n + group * (INDEX)KG * y_k;
  w += w_offset + group * (INDEX)KG * w_k + c % CG * w_c;
  REAL sum = 0;
  for (int k = 0; k < KG; k++)
    for (int t = 0; t < T; t++) {
      MEET(o, d, t, stride_d, pad_d, dilation_d, O)
      for (int r = 0; r < R; r++) {
        MEET(p, h, r, stride_h, pad_h, dilation_h, P)
        for (int s = 0; s < S; s++) {
          MEET(q, v, s, stride_w, pad_w, dilation_w, Q)
          const INDEX y_at = k * y_k + o * y_o + p * y_p + q * y_q;
          const INDEX w_at = k * w_k + t * w_t + r * w_r + s * w_s;
          sum = MULTIPLY_ADD((REAL)LOAD_AB(y, y_at), (REAL)LOAD_AB(w, w_at), sum);
        }
      }
    }
  const long at = (long)(n * x_n + c * x_c + d * x_d + h * x_h + v * x_w);
  STORE_C(x + x_offset, at, FINISH(SCALED(sum, c, n), c, n, at));
}

// get_global_id(1) sums over `images` of the batch.
__kernel void conv_backward_filter(__global const AB_STORAGE* x, long x_offset, __global const AB_STORAGE* y,
                                   long y_offset, __global C_STORAGE* w, long w_offset, __global REAL* partial,
                                   long partial_offset, int images, GEOMETRY) {
  const INDEX item = (INDEX)get_global_id(0), items = (INDEX)KG * groups * CG * T * R * S;
  const int part = (int)get_global_id(1), begin = part * images;
  const int end = images < N - begin ? begin + images : N;
  if (item >= items) return;
  INDEX rest = item;
  const int s = (int)(rest % S);
  rest /= S;
  const int r = (int)(rest % R);
  rest /= R;
  const int t = (int)(rest % T);
  rest /= T;
  const int c = (int)(rest % CG), k = (int)(rest / CG);
  x += x_offset + ((k / KG) * (INDEX)CG + c) * x_c;
  y += y_offset + k * y_k;
  REAL total = 0;
  for (int n = begin; n < end; n++)
    for (int o = 0; o < O; o++) {
      const INDEX d = (INDEX)o * stride_d - pad_d + (INDEX)t * dilation_d;
      if (d < 0 || d >= D) continue;
      for (int p = 0; p < P; p++) {
        const INDEX h = (INDEX)p * stride_h - pad_h + (INDEX)r * dilation_h;
        if (h < 0 || h >= H) continue;
        // A chain per row, and one of rows: the error grows with their lengths' sum, not product.
        REAL sum = 0;
        for (int q = 0; q < Q; q++) {
          const INDEX v = (INDEX)q * stride_w - pad_w + (INDEX)s * dilation_w;
          if (v < 0 || v >= W) continue;
          const INDEX x_at = n * x_n + d * x_d + h * x_h + v * x_w, y_at = n * y_n + o * y_o + p * y_p + q * y_q;
          sum = MULTIPLY_ADD((REAL)LOAD_AB(x, x_at), (REAL)LOAD_AB(y, y_at), sum);
        }
        total += sum;
      }
    }
#if PARTS
  partial[partial_offset + (long)part * items + item] = total;
#else
  STORE_C(w + w_offset, k * w_k + c * w_c + t * w_t + r * w_r + s * w_s, total);
#endif
}
