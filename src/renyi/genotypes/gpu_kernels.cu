// Products of packed genotypes with vectors, by the integer matrix units of a GPU.
//
// A genotype is two bits, b0 and b1. With the three features b0, b1 and b0 & b1 every
// function of the four codes is linear, so both products are sums of features times
// numbers. The numbers are whole: v = scale * V with |V| < 2^30, and V in four digits of
// base 256, each in [-128, 127]. A matrix instruction adds 16 x 8 x 32 products of bytes
// exactly; its eight columns are the four digits of two vectors. Sums of digits fit in
// 32 bits, those of V in 64, so the results are exact for the rounded v, whatever the
// order in which blocks of threads come to add.
//
// The instruction wants bytes of one row behind each other. Masks alone make them: of
// four bytes, `x & 0x10101010` holds the bit b0 of every third genotype, times 16. The
// factor 4^k belongs to the place k within a byte and is divided out at the end.
//
// Lanes: g = lane / 4 is a row of A (and g + 8) and a column of B, q = lane % 4 a group
// of four bytes, and of the next sixteen.

typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define WARPS 8
#define ONES 0x01010101u

__device__ __forceinline__ void mma(int *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                                    u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, "
      "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// The value of four digits, of which this lane and its neighbour have two each.
__device__ __forceinline__ i64 joined(int low, int high, int q) {
  i64 v = (i64)low + 256 * (i64)high;
  if (q & 1) v *= 65536;
  return v + __shfl_xor_sync(0xffffffffu, v, 1);
}

// Digit n of a whole number: balanced, so that each is in [-128, 127].
__device__ __forceinline__ u32 digit(int V, int n) {
  for (int k = 0; k < n; k++) V = (V + 128) >> 8;
  return (u32)V & 0xffu;
}

__device__ __forceinline__ int whole(double v, double scale) {
  return __double2int_rn(v * scale);
}

extern "C" {

// ---- operands

// Digits of n samples' values, two vectors, in the order in which `sums` reads them:
// [block of 256 samples][step 2][half 2][lane 32][4 words].
__global__ void sample_digits(const double *v, i64 columns, i64 n, const double *scale,
                              u32 *out, i64 blocks) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= blocks * 512) return;
  int word = i & 3, lane = (i >> 2) & 31, half = (i >> 7) & 1, step = (i >> 8) & 1;
  int g = lane >> 2, q = lane & 3, k = 2 * half + (word >> 1);
  int vector = g >> 2;
  u32 packed = 0;
  for (int byte = 0; byte < 4; byte++) {
    int s = (i >> 9) * 256 + (4 * q + 2 * step + (word & 1)) * 16 + 4 * byte + k;
    if (s < n && vector < columns)
      packed |= digit(whole(v[(i64)vector * n + s], scale[vector]), g & 3) << 8 * byte;
  }
  out[i] = packed;
}

// Digits of the variants' features, in the order in which `scores` reads them:
// [block of 32 variants][feature 3][lane 32][2 words].
__global__ void variant_digits(const double *w, i64 columns, i64 d, const double *scale,
                               u32 *out, i64 blocks) {
  i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= blocks * 192) return;
  int at = (int)(i % 192), word = at & 1, lane = (at >> 1) & 31, feature = at >> 6;
  int g = lane >> 2, q = lane & 3, vector = g >> 2;
  u32 packed = 0;
  for (int byte = 0; byte < 4; byte++) {
    i64 j = (i / 192) * 32 + 16 * word + 4 * q + byte;
    if (j < d && vector < columns) {
      double value = w[((i64)vector * d + j) * 3 + feature];
      packed |= digit(whole(value, scale[vector]), g & 3) << 8 * byte;
    }
  }
  out[i] = packed;
}

// ---- W^T v: rows of A are variants, and the sum is over samples

// out[vector][variant][feature] += sum over samples of feature * V. A block of threads
// has 16 variants a warp, and the digits of `span` blocks of 256 samples at a time.
__global__ void __launch_bounds__(32 * WARPS, 2)
    sums(const uint4 *__restrict__ G, i64 pitch, i64 d, const uint4 *__restrict__ B,
         i64 blocks, i64 span, i64 columns, i64 *out) {
  extern __shared__ uint4 digits[];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, q = lane & 3;
  int first = blockIdx.y * span, last = min(first + span, blocks);
  for (int i = threadIdx.x; i < (last - first) * 128; i += blockDim.x)
    digits[i] = B[(i64)first * 128 + i];
  __syncthreads();
  const uint4 none = make_uint4(0, 0, 0, 0);
  for (i64 tile = (i64)blockIdx.x * WARPS + warp; tile * 16 < d;
       tile += (i64)gridDim.x * WARPS) {
    i64 row = tile * 16 + g;
    bool top = row < d, low = row + 8 < d;
    const uint4 *x = G + row * pitch + first * 4 + q, *y = x + 8 * pitch;
    // The last block of samples may reach beyond the row.
    i64 room = pitch - first * 4 - q;
    int c[3][4][4] = {};
    uint4 xs[2], ys[2];
#pragma unroll
    for (int t = 0; t < 2; t++) {
      bool in = first + t < last && t * 4 < room;
      xs[t] = in && top ? __ldcs(x + t * 4) : none;
      ys[t] = in && low ? __ldcs(y + t * 4) : none;
    }
    for (int t = 0; t < last - first; t += 2) {
#pragma unroll
      for (int u = 0; u < 2; u++) {
        uint4 xx = xs[u], yy = ys[u];
        bool in = first + t + u + 2 < last && (t + u + 2) * 4 < room;
        xs[u] = in && top ? __ldcs(x + (t + u + 2) * 4) : none;
        ys[u] = in && low ? __ldcs(y + (t + u + 2) * 4) : none;
        if (t + u < last - first) {
#pragma unroll
          for (int step = 0; step < 2; step++) {
            u32 x0 = step ? xx.z : xx.x, x1 = step ? xx.w : xx.y;
            u32 y0 = step ? yy.z : yy.x, y1 = step ? yy.w : yy.y;
            u32 p0 = x0 >> 1, p1 = x1 >> 1, r0 = y0 >> 1, r1 = y1 >> 1;
            u32 s0 = x0 & p0, s1 = x1 & p1, t0 = y0 & r0, t1 = y1 & r1;
#pragma unroll
            for (int half = 0; half < 2; half++) {
              uint4 b = digits[(((t + u) * 2 + step) * 2 + half) * 32 + lane];
#pragma unroll
              for (int odd = 0; odd < 2; odd++) {
                int k = 2 * half + odd;
                u32 m = ONES << (2 * k), b0 = odd ? b.z : b.x, b1 = odd ? b.w : b.y;
                mma(c[0][k], x0 & m, y0 & m, x1 & m, y1 & m, b0, b1);
                mma(c[1][k], p0 & m, r0 & m, p1 & m, r1 & m, b0, b1);
                mma(c[2][k], s0 & m, t0 & m, s1 & m, t1 & m, b0, b1);
              }
            }
          }
        }
      }
    }
#pragma unroll
    for (int f = 0; f < 3; f++) {
      i64 up = 0, down = 0;
#pragma unroll
      for (int k = 0; k < 4; k++) {
        up += joined(c[f][k][0], c[f][k][1], q) >> 2 * k;
        down += joined(c[f][k][2], c[f][k][3], q) >> 2 * k;
      }
      int vector = q >> 1;
      if (!(q & 1) && vector < columns) {
        u64 *target = (u64 *)out + ((i64)vector * d + row) * 3 + f;
        if (top) atomicAdd(target, (u64)up);
        if (low) atomicAdd(target + 24, (u64)down);
      }
    }
  }
}

// ---- W z: rows of A are samples, and the sum is over variants and features

// out[vector][sample] += sum over variants of features * V. A warp has 256 samples, a
// block of threads 2,048, and `chunk` variants, a multiple of 32.
__global__ void __launch_bounds__(32 * WARPS, 2)
    scores(const uint2 *__restrict__ G, i64 pitch, i64 d, i64 n,
           const u32 *__restrict__ B, i64 chunk, i64 columns, i64 *out) {
  __shared__ u32 digits[2][192];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, q = lane & 3;
  int length = chunk;  // as a long number it takes a register too many
  i64 first = (i64)blockIdx.y * length, last = min(first + length, d);
  i64 place = ((i64)blockIdx.x * WARPS + warp) * 8 + g;  // of two words
  bool in = place < pitch;
  const uint2 *x = G + place;
  int c[2][8][4] = {};
  uint2 next[2][4];
  const uint2 none = make_uint2(0, 0);
#pragma unroll
  for (int a = 0; a < 2; a++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      i64 row = first + 16 * a + 4 * q + j;
      next[a][j] = in && row < last ? __ldcs(x + row * pitch) : none;
    }
  if (threadIdx.x < 192) digits[0][threadIdx.x] = B[first / 32 * 192 + threadIdx.x];
  for (i64 at = first; at < last; at += 32) {
    int now = (int)((at - first) >> 5) & 1;
    __syncthreads();
    if (threadIdx.x < 192 && at + 32 < last)
      digits[now ^ 1][threadIdx.x] = B[(at / 32 + 1) * 192 + threadIdx.x];
    uint2 b[3];
#pragma unroll
    for (int f = 0; f < 3; f++)
      b[f] = ((const uint2 *)digits[now])[f * 32 + lane];
    uint2 held[2][4];
#pragma unroll
    for (int a = 0; a < 2; a++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        held[a][j] = next[a][j];
        i64 row = at + 32 + 16 * a + 4 * q + j;
        next[a][j] = in && row < last ? __ldcs(x + row * pitch) : none;
      }
#pragma unroll
    for (int word = 0; word < 2; word++) {
      u32 T[2][4];  // bytes of four variants, by place in the word
#pragma unroll
      for (int a = 0; a < 2; a++) {
        u32 w0 = word ? held[a][0].y : held[a][0].x;
        u32 w1 = word ? held[a][1].y : held[a][1].x;
        u32 w2 = word ? held[a][2].y : held[a][2].x;
        u32 w3 = word ? held[a][3].y : held[a][3].x;
        u32 l01 = __byte_perm(w0, w1, 0x5140), h01 = __byte_perm(w0, w1, 0x7362);
        u32 l23 = __byte_perm(w2, w3, 0x5140), h23 = __byte_perm(w2, w3, 0x7362);
        T[a][0] = __byte_perm(l01, l23, 0x5410);
        T[a][1] = __byte_perm(l01, l23, 0x7632);
        T[a][2] = __byte_perm(h01, h23, 0x5410);
        T[a][3] = __byte_perm(h01, h23, 0x7632);
      }
#pragma unroll
      for (int byte = 0; byte < 4; byte++) {
        u32 x0 = T[0][byte], x1 = T[1][byte], p0 = x0 >> 1, p1 = x1 >> 1;
        u32 s0 = x0 & p0, s1 = x1 & p1;
#pragma unroll
        for (int half = 0; half < 2; half++) {
          int *sum = c[word][2 * byte + half];
          u32 m = ONES << (4 * half), o = ONES << (4 * half + 2);
          mma(sum, x0 & m, x0 & o, x1 & m, x1 & o, b[0].x, b[0].y);
          mma(sum, p0 & m, p0 & o, p1 & m, p1 & o, b[1].x, b[1].y);
          mma(sum, s0 & m, s0 & o, s1 & m, s1 & o, b[2].x, b[2].y);
        }
      }
    }
  }
#pragma unroll
  for (int word = 0; word < 2; word++)
#pragma unroll
    for (int tile = 0; tile < 8; tile++) {
      int *sum = c[word][tile], shift = 4 * (tile & 1), vector = q >> 1;
      i64 even = joined(sum[0], sum[1], q) >> shift;
      i64 odd = joined(sum[2], sum[3], q) >> (shift + 2);
      i64 s = (place * 2 + word) * 16 + 2 * tile;
      if (!(q & 1) && vector < columns) {
        u64 *target = (u64 *)out + (i64)vector * n + s;
        if (s < n) atomicAdd(target, (u64)even);
        if (s + 1 < n) atomicAdd(target + 1, (u64)odd);
      }
    }
}

// ---- a choice of samples

// Genotypes of the samples `chosen`, 16 to a word of `target`.
__global__ void gather(const unsigned char *source, i64 width, i64 rows,
                       const i64 *chosen, i64 n, u32 *target, i64 words) {
  i64 word = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (word >= words) return;
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    u32 packed = 0;
    for (int k = 0; k < 16 && 16 * word + k < n; k++) {
      i64 s = chosen[16 * word + k];
      packed |= (u32)(source[row * width + s / 4] >> (2 * (s & 3)) & 3) << (2 * k);
    }
    target[row * words + word] = packed;
  }
}

// ---- agreement

// Bytes +1 and -1 of the three characters (b0, b1, b0 ^ b1) of some variants, for a
// product of whole numbers: out[sample][3 * variants], samples of `width` bytes.
__global__ void characters(const u32 *G, i64 pitch, i64 first, i64 count, i64 n,
                           signed char *out, i64 width) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, word = blockIdx.y;
  if (j >= count) return;
  u32 x = G[(first + j) * pitch + word];
  for (int k = 0; k < 16 && 16 * word + k < n; k++, x >>= 2) {
    signed char *target = out + (i64)(16 * word + k) * width + j;
    int u = 1 - 2 * (int)(x & 1), v = 1 - (int)(x & 2);
    target[0] = u;
    target[count] = v;
    target[2 * count] = u * v;
  }
}
}
