// Cross products of columns at separate addresses, in one pass over the rows. The number of warps depends on the number
// of rows alone, and sums are added in a fixed order. So bits do not depend on the run.
//
// A warp multiplies blocks of eight columns, four rows at a time, on the double-precision tensor cores. mma.m8n8k4 (PTX
// ISA) has the same register layout for left and right factors, so each element is loaded only once, directly from its
// column.
#pragma once
#include "block.cuh"
#include "launch.cuh"

// The including source defines THREADS, and EIGHTS, the number of blocks of eight columns.
#define EIGHT 8
#define SQUARE (EIGHT * EIGHT)
#define PAIRS (EIGHTS * (EIGHTS + 1) / 2)
// Steps of four rows that are loaded together
#define STEPS (EIGHTS == 1 ? 16 : EIGHTS == 2 ? 8 : EIGHTS <= 4 ? 4 : 2)
#define ROWS (4 * STEPS)

// Column addresses; nullptr stands for a column of ones.
struct Columns { const f64* at[EIGHTS * EIGHT]; };

// c += a b for blocks of 8 x 4 and 4 x 8 elements: a lane has a[lane / 4][lane % 4], b[lane % 4][lane / 4], and two
// adjacent elements of c[lane / 4].
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
VG_FN void multiply_add(f64 (&c)[2], f64 a, f64 b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1]) : "d"(a), "d"(b));
}
#else
// Not inlined: that many copies would take the compiler a minute.
#ifdef __CUDACC__
__noinline__ __device__
#endif
static double2 multiplied(f64 a, f64 b) {
  const u32 row = lane_id() / 4, column = lane_id() % 4 * 2;
  double2 out = {0, 0};
  for (u32 k = 0; k < 4; k++) {
    const f64 left = __shfl_sync(ALL_LANES, a, row * 4 + k);
    out.x += left * __shfl_sync(ALL_LANES, b, column * 4 + k);
    out.y += left * __shfl_sync(ALL_LANES, b, (column + 1) * 4 + k);
  }
  return out;
}
VG_FN void multiply_add(f64 (&c)[2], f64 a, f64 b) {
  const double2 more = multiplied(a, b);
  c[0] += more.x;
  c[1] += more.y;
}
#endif

// Writes to `partial`, for each thread block, the products of each block of eight columns with itself and with those
// before it. If `scale` is not nullptr, it multiplies the rows of the first `scaled` columns.
VG_FN void gram_sums(const Columns& columns, const f64* __restrict__ scale, u32 m, u32 scaled, i64 n,
    f64* __restrict__ partial) {
  __shared__ f64 sums[THREADS / WARP][SQUARE];
  const u32 warp = threadIdx.x / WARP, warps = THREADS / WARP, column = lane_id() / 4, row = lane_id() % 4;
  // The value of a lane's columns that have no memory: 1, or 0 beyond the last column
  const f64* own[EIGHTS];
  f64 constant[EIGHTS];
#pragma unroll
  for (int e = 0; e < EIGHTS; e++) {
    const u32 c = e * EIGHT + column;
    own[e] = c < m ? columns.at[c] : nullptr;
    constant[e] = c < m ? 1 : 0;
  }
  f64 sum[PAIRS][2];
#pragma unroll
  for (int p = 0; p < PAIRS; p++) sum[p][0] = sum[p][1] = 0;
  const i64 step = (i64)gridDim.x * warps * ROWS;
  for (i64 from = ((i64)blockIdx.x * warps + warp) * ROWS; from < n; from += step) {
    f64 x[STEPS][EIGHTS], s[STEPS], inside[STEPS];
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
      // rows beyond the end load the last row, multiplied by 0
      const i64 row_of = from + k * 4 + row, i = row_of < n ? row_of : n - 1;
      inside[k] = row_of < n ? 1 : 0;
      s[k] = scale ? scale[i] * inside[k] : inside[k];
#pragma unroll
      for (int e = 0; e < EIGHTS; e++) x[k][e] = own[e] ? own[e][i] : constant[e];
    }
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
#pragma unroll
      for (int e = 0; e < EIGHTS; e++) x[k][e] *= e * EIGHT + column < scaled ? s[k] : inside[k];
#pragma unroll
      for (int a = 0, p = 0; a < EIGHTS; a++)
#pragma unroll
        for (int b = 0; b <= a; b++, p++) multiply_add(sum[p], x[k][a], x[k][b]);
    }
  }
#pragma unroll
  for (int p = 0; p < PAIRS; p++) {
    __syncthreads();
    sums[warp][2 * lane_id()] = sum[p][0];
    sums[warp][2 * lane_id() + 1] = sum[p][1];
    __syncthreads();
    for (u32 k = threadIdx.x; k < SQUARE; k += THREADS) {
      f64 all = 0;
#pragma unroll 1
      for (u32 w = 0; w < warps; w++) all += sums[w][k];
      partial[((i64)blockIdx.x * PAIRS + p) * SQUARE + k] = all;
    }
  }
}

// One thread block per pair of column blocks: adds up the partial sums of `blocks` blocks, and writes the result and
// its mirror image.
VG_FN void gram_finish(const f64* __restrict__ partial, u32 blocks, u32 m, f64* __restrict__ out) {
  __shared__ f64 sums[THREADS];
  const u32 k = threadIdx.x % SQUARE, pair = blockIdx.x;
  f64 sum = 0;
#pragma unroll 4
  for (u32 s = threadIdx.x / SQUARE; s < blocks; s += THREADS / SQUARE)
    sum += partial[((i64)s * PAIRS + pair) * SQUARE + k];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= SQUARE) return;
  f64 all = 0;
  for (u32 s = 0; s < THREADS / SQUARE; s++) all += sums[s * SQUARE + k];
  u32 a = 0;
  while ((a + 1) * (a + 2) / 2 <= pair) a++;
  const u32 b = pair - a * (a + 1) / 2, i = a * EIGHT + k / EIGHT, j = b * EIGHT + k % EIGHT;
  if (i >= m || j >= m || j > i) return;
  out[i + j * m] = all;
  out[j + i * m] = all;
}
