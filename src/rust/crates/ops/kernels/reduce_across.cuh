// Reductions across memory on CUDA devices: the part of reduce.cuh, which includes this, for groups that lie abreast.
#pragma once

// Neighbours belong to different groups: a thread walks a lane of a tile for V of them. A block is `x` packs abreast,
// each shared by `y` threads, which have neighbouring lanes; `slices` blocks share the axis.
template <class A> VG_FN void reduce_lanes(const Params& p, const Job<A>& job, bool narm) {
  // whether there is room for a result of each lane, which is 48 KiB at most
  constexpr bool STAGED = sizeof(A) * V * THREADS <= 28672;
  constexpr u32 MOST_ABREAST = 32, ROUNDS = 8;  // of blocks that share the axis; bits of their rounds
  __shared__ A parts[THREADS * (STAGED ? V : 1)];
  __shared__ A levels[MOST_ABREAST * ROUNDS];
  u32 w[W] = {};
  const u32 column = blockIdx.x % job.across, rest = blockIdx.x / job.across;
  const u32 slice = rest % job.slices;
  const i64 outer = rest / job.slices;
  const u32 tx = threadIdx.x % job.x, ty = threadIdx.x / job.x;
  const i64 lane = ((i64)column * job.x + tx) * V;
  const bool real = ty < job.y && lane < job.inner;
  A a[V];
#pragma unroll
  for (int k = 0; k < V; k++) a[k] = A::start();
  if (real) {
    // all lanes of all tiles, in the order in which they are merged
    const u32 place = slice * job.y + ty, step = 1u << job.lane_bits;
    const i64 tile = (i64)job.rows << job.lane_bits, from = (place >> job.lane_bits) * tile;
    const i64 base = outer * job.length, end = from + tile < job.length ? from + tile : job.length;
    Quick<A> quick[V];
#pragma unroll
    for (int k = 0; k < V; k++) quick[k] = Quick<A>::start();
    const auto add = [&](const In& x, i64 l) {
#pragma unroll
      for (int k = 0; k < V; k++) {
        Out y;
        compute(p, x, k, (base + l) * job.inner + lane + k, w, y);
        Quick<A>::add(quick[k], y.y0, l, narm);
      }
    };
    i64 l = from + (place & (step - 1u));
#pragma unroll 1
    for (; U > 1 && l + (U - 1) * step < end; l += U * step) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++) fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], u * step * job.inner);
#pragma unroll
      for (int u = 0; u < U; u++) add(x[u], l + u * step);
    }
#pragma unroll 1
    for (; l < end; l += U * step) {
      In x[U];
#pragma unroll
      for (int u = 0; u < U; u++)
        fetch<true>(p, (idx)((base + l) * job.inner + lane), x[u], l + u * step < end ? u * step * job.inner : 0);
      loads_together();
#pragma unroll
      for (int u = 0; u < U; u++) if (l + u * step < end) add(x[u], l + u * step);
      if (U > 1) break;
    }
    bool is_usual = true;
#pragma unroll
    for (int k = 0; k < V; k++) {
      is_usual = is_usual && Quick<A>::is_usual(quick[k]);
      a[k] = Quick<A>::get(quick[k]);
    }
    if (QUICK<A> && !is_usual) {
      // again, one row after the other
#pragma unroll
      for (int k = 0; k < V; k++) a[k] = A::start();
#pragma unroll 1
      for (l = from + (place & (step - 1u)); l < end; l += step) {
        In x;
        fetch(p, (idx)((base + l) * job.inner + lane), x);
#pragma unroll
        for (int k = 0; k < V; k++) {
          Out y;
          compute(p, x, k, (base + l) * job.inner + lane + k, w, y);
          accumulate(a[k], y.y0, l, narm);
        }
      }
    }
  }
  // the threads that share a pack, into the first
  const auto merge_threads = [&](A own) {
    if (job.y == 1u) return own;
    parts[threadIdx.x] = own;
    __syncthreads();
    for (u32 by = 1; by < job.y; by *= 2) {
      if (ty % (2 * by) == 0u && ty + by < job.y) {
        A::merge(own, parts[threadIdx.x + by * job.x]);
        parts[threadIdx.x] = own;
      }
      __syncthreads();
    }
    return own;
  };
#pragma unroll
  for (int k = 0; k < V; k++) a[k] = merge_threads(a[k]);
  if (job.slices > 1u) {
    A* all = job.partial + outer * job.slices * job.inner + lane;
    if (real && ty == 0)
#pragma unroll
      for (int k = 0; k < V; k++) all[slice * job.inner + k] = a[k];
    if (!is_last(job.tickets + outer * job.across + column, job.slices)) {
      note_flags(w, p.flags, p.any);
      return;
    }
    const u32 each = job.slices > 2 * job.y ? 4 : job.slices > job.y ? 2 : 1;
    const u32 rounds = (job.slices + each * job.y - 1) / (each * job.y);
#pragma unroll
    for (int k = 0; k < V; k++) {
#pragma unroll 1
      for (u32 round = 0; round < rounds; round++) {
        const u32 from = (round * job.y + ty) * each;
        A part[AHEAD];
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++)
          part[u] = real && u < each && from + u < job.slices ? read_fresh(all + (from + u) * job.inner + k) : A::start();
        merge_all(part);
        a[k] = merge_threads(part[0]);
        if (rounds > 1 && ty == 0) push(levels + tx, round, MOST_ABREAST, a[k]);
      }
      if (rounds > 1 && ty == 0) a[k] = all_pushed(levels + tx, rounds, MOST_ABREAST);
    }
  }
  if (STAGED) {
    // neighbouring threads store neighbouring results
    __syncthreads();
    if (ty == 0)
#pragma unroll
      for (int k = 0; k < V; k++) parts[tx * V + k] = a[k];
    __syncthreads();
    const i64 from = (i64)column * job.x * V;
    for (u32 k = threadIdx.x; k < job.x * V && from + k < job.inner; k += THREADS)
      put(job, outer * job.inner + from + k, parts[k]);
  } else if (real && ty == 0) {
#pragma unroll
    for (int k = 0; k < V; k++) put(job, outer * job.inner + lane + k, a[k]);
  }
  note_flags(w, p.flags, p.any);
}
