// Every function that R calls with .Call(C_<name>, ...): ENTRY(name, number of arguments).
// entrypoint.c makes a C function, its registration and its prototype of each; the body is
// entry! { fn name(...) } in rust/src. No include guard: this file is read several times.

// entries.rs: arrays in and out
ENTRY(attach, 2)
ENTRY(upload, 4)
ENTRY(cast, 3)
ENTRY(to_device, 2)
ENTRY(collect, 1)
ENTRY(collect_integer64, 1)
ENTRY(collect_as, 3)
ENTRY(fetch, 3)
ENTRY(digits, 3)
ENTRY(bare, 1)
ENTRY(classed, 1)
ENTRY(is_array, 1)
ENTRY(info, 1)
ENTRY(dtype, 1)
ENTRY(device, 1)
ENTRY(full, 4)
ENTRY(sequence, 5)
ENTRY(empty, 4)
ENTRY(live, 0)
ENTRY(test_condition, 2)

// compute.rs, operators.rs, reductions.rs, scans.rs
ENTRY(compute, 1)
ENTRY(compute_one, 1)
ENTRY(compute_into, 3)
ENTRY(explain, 1)
ENTRY(operation_table, 0)
ENTRY(reduce, 3)
ENTRY(defer, 1)
ENTRY(defer_sqrt, 1)
ENTRY(reduce_groups, 4)
ENTRY(scan, 2)

// index.rs, join.rs, linear.rs, random.rs
ENTRY(permute, 3)
ENTRY(which, 1)
ENTRY(sort, 3)
ENTRY(join, 3)
ENTRY(strided, 6)
ENTRY(multiply, 3)
ENTRY(random, 7)

// dlpack.rs, kernel.rs
ENTRY(dlpack_export, 3)
ENTRY(dlpack_import, 2)
ENTRY(dlpack_describe, 1)
ENTRY(dlpack_capsule, 2)
ENTRY(dlpack_take, 1)
ENTRY(kernel_parse, 2)
ENTRY(kernel_check, 1)
ENTRY(kernel_call, 7)

// devices.rs
ENTRY(search_paths, 2)
ENTRY(cache_dir, 2)
ENTRY(tier, 1)
ENTRY(tier_counts, 2)
ENTRY(end, 0)
ENTRY(device_use, 1)
ENTRY(device_current, 0)
ENTRY(device_name, 1)
ENTRY(device_list, 0)
ENTRY(device_works, 1)
ENTRY(device_sync, 1)
ENTRY(device_memory, 1)
ENTRY(device_trim, 1)
ENTRY(device_hint, 0)
ENTRY(counters, 0)
ENTRY(library_report, 0)
ENTRY(free, 1)

// chunked.rs
ENTRY(upload_ahead, 6)
ENTRY(upload_take, 1)
