// Cross products of columns at separate addresses, and sums of further columns, in one pass over the rows. The number of
// warps depends on the number of rows alone, and sums are added in a fixed order. So bits do not depend on the run, nor
// on whether the factors of the rows, the right sides and the summed values are stored or computed by a plan.
//
// A warp multiplies blocks of eight columns, four rows at a time, on the double-precision tensor cores. mma.m8n8k4 (PTX
// ISA) has the same register layout for left and right factors, so each element is loaded only once.
//
// Where there is enough shared memory, a warp copies its rows there first (TILED): rows of a column are consecutive, so
// copies are whole sectors, and need no registers. One tile for each warp is best: a second one, copied meanwhile, costs
// other warps their place. Without shared memory, lanes load their elements directly.
#pragma once
#include "block.cuh"
#include "launch.cuh"

// The including source defines THREADS; EIGHTS, the number of blocks of eight columns; SUMS, the number of columns that
// are only added up; and TILED, 0 or 1.
#define EIGHT 8
#define SQUARE (EIGHT * EIGHT)
#define PAIRS (EIGHTS * (EIGHTS + 1) / 2)
// A warp takes 32 rows at a time, four in a step. Without a tile it loads this many steps together.
#define STEPS (TILED ? 1 : EIGHTS <= 2 ? 8 : EIGHTS <= 4 ? 4 : 2)
// Doubles that a thread block writes: its products, then its sums
#define PARTIAL (PAIRS * SQUARE + SUMS)

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

// ---- tiles -----------------------------------------------------------------------------------------------------

// Doubles of a tile, 32 rows of the columns
#define TILE (EIGHTS * EIGHT * WARP)

// The place of an element in a tile. The rows of a column are permuted, so that four rows of eight columns lie in
// different banks.
VG_FN u32 place(u32 column, u32 row) { return column * WARP + (row ^ column % EIGHT * 4); }

// Copies from global to shared memory, which are done once the thread has waited for its copies.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
VG_FN void copy_async(f64* to, const f64* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "l"(__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
VG_FN void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#else
VG_FN void copy_async(f64* to, const f64* from) { *to = *from; }
VG_FN void wait_for_copies() {}
#endif

// What the rows are multiplied by and what is added up, in memory. `scale` may be nullptr.
struct Stored {
  const f64* scale;
  const f64* summed[SUMS > 0 ? SUMS : 1];
  static constexpr int RIGHTS = 0;
  // What is loaded of a row while its columns are copied
  struct Row { f64 scale, summed[SUMS > 0 ? SUMS : 1]; };
};

VG_FN void load_row(const Stored& stored, i64 i, Stored::Row& row) {
  row.scale = stored.scale ? stored.scale[i] : 1;
#pragma unroll
  for (int k = 0; k < SUMS; k++) row.summed[k] = stored.summed[k][i];
}

// The factor of row i, its right sides, and its values to add up. `tile` has the row's columns as those of this lane.
VG_FN void row_of(const Stored&, const Stored::Row& row, const f64*, i64, bool, f64 (&v)[1 + SUMS]) {
  v[0] = row.scale;
#pragma unroll
  for (int k = 0; k < SUMS; k++) v[1 + k] = row.summed[k];
}

// Copies row i of the columns that have memory, as that of this lane.
VG_FN void copy_tile(const Columns& columns, u32 stored, i64 i, f64* tile) {
#pragma unroll
  for (u32 c = 0; c < EIGHTS * EIGHT; c++)
    if (c < stored && columns.at[c]) copy_async(tile + place(c, lane_id()), columns.at[c] + i);
}

// Writes to `partial`, for each thread block, the products of each block of eight columns with itself and with those
// before it, and the sums. The rows of the first `scaled` columns are multiplied. The last Values::RIGHTS of the `m`
// columns have no memory: row_of() computes them. `tiles` is the block's dynamic shared memory.
template <class Values> VG_FN void gram_sums(const Columns& columns, Values& values, u32 m, u32 scaled, i64 n,
    f64* tiles, f64* __restrict__ partial) {
  constexpr int RIGHTS = Values::RIGHTS, WARPS = THREADS / WARP;
  // a turn's factors and right sides; its rows beyond the end have zeros
  __shared__ f64 turn[WARPS][1 + RIGHTS][WARP];
  __shared__ f64 sums[WARPS][SQUARE];
  const u32 warp = threadIdx.x / WARP, lane = lane_id(), column = lane / 4, row = lane % 4, stored = m - RIGHTS;
  const i64 begin = ((i64)blockIdx.x * WARPS + warp) * WARP, step = (i64)gridDim.x * WARPS * WARP;
#if TILED
  f64* tile = tiles + warp * TILE;
  // columns without memory are 1; those beyond the last column, and the right sides' places, are 0
  for (u32 c = 0; c < EIGHTS * EIGHT; c++)
    if (c >= stored || !columns.at[c]) tile[place(c, lane)] = c < stored ? 1 : 0;
#else
  // The value of a lane's columns that have no memory: 1, or 0 beyond the last column
  const f64* own[EIGHTS];
  f64 constant[EIGHTS];
#pragma unroll
  for (int e = 0; e < EIGHTS; e++) {
    const u32 c = e * EIGHT + column;
    own[e] = c < stored ? columns.at[c] : nullptr;
    constant[e] = c < stored ? 1 : 0;
  }
  const f64* tile = nullptr;
#endif
  f64 sum[PAIRS][2], total[SUMS > 0 ? SUMS : 1] = {};
#pragma unroll
  for (int p = 0; p < PAIRS; p++) sum[p][0] = sum[p][1] = 0;
  for (i64 from = begin; from < n; from += step) {
    {
      const bool inside = from + lane < n;
      const i64 i = inside ? from + lane : n - 1;
      typename Values::Row loaded;
#if TILED
      copy_tile(columns, stored, i, tile);
      load_row(values, i, loaded);
      wait_for_copies();
      __syncwarp();
#else
      load_row(values, i, loaded);
#endif
      f64 v[1 + RIGHTS + SUMS];
      row_of(values, loaded, tile, i, inside, v);
#pragma unroll
      for (int k = 0; k <= RIGHTS; k++) turn[warp][k][lane] = inside ? v[k] : 0;
#pragma unroll
      for (int k = 0; k < SUMS; k++) total[k] += inside ? v[1 + RIGHTS + k] : 0;
      __syncwarp();
    }
#pragma unroll
    for (int first = 0; first < WARP / 4; first += STEPS) {
      f64 x[STEPS][EIGHTS];
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
        const int at = (first + k) * 4 + row;
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
          const u32 c = e * EIGHT + column;
#if TILED
          x[k][e] = tile[place(c, at)];
#else
          // rows beyond the end load the last row, multiplied by 0
          const i64 i = from + at < n ? from + at : n - 1;
          x[k][e] = own[e] ? own[e][i] : constant[e];
#endif
          // right sides are at most as many as a block has columns
          if (RIGHTS > 0 && e >= EIGHTS - 2 && c >= stored && c < m) x[k][e] = turn[warp][1 + c - stored][at];
        }
      }
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
        const int at = (first + k) * 4 + row;
        const f64 inside = from + at < n ? 1 : 0, s = turn[warp][0][at];
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) x[k][e] *= e * EIGHT + column < scaled ? s : inside;
#pragma unroll
        for (int a = 0, p = 0; a < EIGHTS; a++)
#pragma unroll
          for (int b = 0; b <= a; b++, p++) multiply_add(sum[p], x[k][a], x[k][b]);
      }
    }
    __syncwarp();
  }
  f64* out = partial + (i64)blockIdx.x * PARTIAL;
#pragma unroll
  for (int p = 0; p < PAIRS; p++) {
    __syncthreads();
    sums[warp][2 * lane] = sum[p][0];
    sums[warp][2 * lane + 1] = sum[p][1];
    __syncthreads();
    for (u32 k = threadIdx.x; k < SQUARE; k += THREADS) {
      f64 all = 0;
#pragma unroll 1
      for (u32 w = 0; w < WARPS; w++) all += sums[w][k];
      out[p * SQUARE + k] = all;
    }
  }
#pragma unroll
  for (int k = 0; k < SUMS; k++) {
    for (u32 apart = WARP / 2; apart > 0; apart /= 2) total[k] += __shfl_xor_sync(ALL_LANES, total[k], apart);
    __syncthreads();
    if (lane == 0) sums[warp][0] = total[k];
    __syncthreads();
    if (threadIdx.x > 0) continue;
    f64 all = 0;
    for (u32 w = 0; w < WARPS; w++) all += sums[w][0];
    out[PAIRS * SQUARE + k] = all;
  }
}

// Entries of a pair's products that a thread block adds up
#define PART 8

// Adds up the partial sums of `blocks` blocks. A thread block takes a part of a pair of column blocks, and writes the
// result and its mirror image. One more block adds up the sums, which follow the m x m products.
VG_FN void gram_finish(const f64* __restrict__ partial, u32 blocks, u32 m, f64* __restrict__ out) {
  constexpr u32 SLICES = THREADS / PART;
  __shared__ f64 sums[THREADS];
  const u32 pair = blockIdx.x / (SQUARE / PART), k = blockIdx.x % (SQUARE / PART) * PART + threadIdx.x % PART;
  const bool adds = pair == PAIRS;
  f64 sum = 0;
  if (!adds || k < SUMS) {
#pragma unroll 4
    for (u32 s = threadIdx.x / PART; s < blocks; s += SLICES) sum += partial[(i64)s * PARTIAL + pair * SQUARE + k];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= PART) return;
  f64 all = 0;
  for (u32 s = 0; s < SLICES; s++) all += sums[s * PART + threadIdx.x];
  if (adds) {
    if (k < SUMS) out[m * m + k] = all;
    return;
  }
  u32 a = 0;
  while ((a + 1) * (a + 2) / 2 <= pair) a++;
  const u32 b = pair - a * (a + 1) / 2, i = a * EIGHT + k / EIGHT, j = b * EIGHT + k % EIGHT;
  if (i >= m || j >= m || j > i) return;
  out[i + j * m] = all;
  out[j + i * m] = all;
}

// ---- by a plan -------------------------------------------------------------------------------------------------

// The arguments of a kernel whose plan computes the factors, right sides and summed values. One of the plan's inputs,
// the predictor, is computed too: `before` (unless nullptr) plus the first `terms` columns times the numbers `by`, added
// from first to last.
struct GramJob {
  i64 n;
  f64* partial;
  f64* out;
  const f64* before;
  // where the predictor and the factors are stored
  f64* predictor;
  f64* scale;
  u32 m, scaled, terms, blocks;
  Columns columns;
  f64 by[EIGHTS * EIGHT];
};

VG_FN f64 predicted(const GramJob& job, const f64* tile, i64 i) {
  // -0 + x is x, whatever x
  f64 sum = job.before ? job.before[i] : -0.0;
#pragma unroll
  for (int e = 0; e < EIGHTS; e++) {
    f64 x[EIGHT];
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
      const u32 c = e * EIGHT + k;
#if TILED
      x[k] = tile[place(c, lane_id())];
#else
      const f64* at = job.columns.at[c];
      x[k] = c < job.terms && at ? at[i] : 1;
#endif
    }
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
      const u32 c = e * EIGHT + k;
      if (c < job.terms) sum += x[k] * job.by[c];
    }
  }
  return sum;
}
