//! Grids and blocks: defaults for what the caller leaves open, and checks against the limits of device and kernel.

use super::Ready;
use crate::backend::cuda::context::core::lock;
use crate::backend::cuda::context::device::Cuda;
use crate::backend::Launch;
use verdigris_ops::error::{Error, Kind, Result};

/// The same for every compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
const MOST_THREADS: u64 = 1024;
const MOST_BLOCK: [u32; 3] = [1024, 1024, 64];
const MOST_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];
/// The most blocks of a cluster that every device with clusters supports.
const MOST_CLUSTER: u32 = 8;
/// Blocks are not made smaller than this in order to occupy more multiprocessors.
const FEW_THREADS: u32 = 64;

pub fn shown(extents: [u32; 3]) -> String {
    format!("{} x {} x {}", extents[0], extents[1], extents[2])
}

fn refuse(launch: &Launch<'_>, asked: &str, most: &str) -> Error {
    Error::new(Kind::Launch, format!("kernel `{}` cannot have {asked}: at most {most}", launch.function.name))
        .advise(format!("The arguments were {}.", (launch.described)()))
}

/// The grid and the block of a launch.
///
/// # Errors
/// `Launch` beyond the limits; `Argument` where they cannot be chosen.
pub fn geometry(cuda: &Cuda, ready: &Ready, launch: &Launch<'_>) -> Result<([u32; 3], [u32; 3])> {
    let shared = launch.geometry.shared;
    let free = cuda.properties.shared.saturating_sub(ready.shared);
    if shared > free {
        let most = match ready.shared {
            0 => format!("{free}"),
            own => format!("{free} beside the {own} that its source declares"),
        };
        return Err(refuse(launch, &format!("{shared} bytes of shared memory"), &most));
    }
    let best = |shared| best_block(cuda, ready, shared);
    let resident = |threads| Ok(cuda.occupancy(&ready.kernel, threads, shared)? * cuda.properties.multiprocessors);
    choose(launch, ready.kernel.max_threads, cuda.properties.multiprocessors, &best, &resident)
}

/// The block size that gives the best occupancy, according to the driver; cached by size of shared memory.
fn best_block(cuda: &Cuda, ready: &Ready, shared: u32) -> Result<u32> {
    if let Some((_, block)) = lock(&ready.blocks).iter().find(|(of, _)| *of == shared) {
        return Ok(*block);
    }
    if shared + ready.shared > super::USUAL_SHARED {
        cuda.allow_shared(&ready.kernel, shared)?;
        ready.allowed.fetch_max(shared, super::Ordering::Relaxed);
    }
    let _entered = cuda.enter()?;
    let (mut grid, mut block) = (0, 0);
    // SAFETY: writes two numbers; the callback may be null, since shared memory does not depend on the block's size.
    let status = unsafe {
        let function = ready.kernel.function;
        (cuda.driver.best_block)(&mut grid, &mut block, function, std::ptr::null(), shared as usize, 0)
    };
    cuda.check(status, "cuOccupancyMaxPotentialBlockSize")?;
    let block = block.max(1) as u32;
    lock(&ready.blocks).push((shared, block));
    Ok(block)
}

/// As `geometry`, without a device. `best` maps shared memory to a block size, `resident` threads to the blocks that
/// run at once.
fn choose(
    launch: &Launch<'_>,
    max_threads: u32,
    multiprocessors: u32,
    best: &dyn Fn(u32) -> Result<u32>,
    resident: &dyn Fn(u32) -> Result<u32>,
) -> Result<([u32; 3], [u32; 3])> {
    let asked = launch.geometry;
    let n = launch.n as u64;
    let most = u64::from(max_threads).min(MOST_THREADS);
    let block = match asked.block {
        Some(block) => block,
        None => {
            let mut threads = best(asked.shared)?.clamp(1, most.max(1) as u32);
            // a short range: smaller blocks, so that all multiprocessors have one
            while asked.grid.is_none()
                && threads >= 2 * FEW_THREADS
                && n.div_ceil(u64::from(threads)) < u64::from(multiprocessors)
            {
                threads /= 2;
            }
            [threads, 1, 1]
        }
    };
    let threads: u64 = block.iter().map(|&b| u64::from(b)).product();
    if threads > most || threads == 0 {
        return Err(refuse(launch, &format!("{threads} threads in a block"), &format!("{most} (and at least 1)")));
    }
    let within = |what: &str, asked: [u32; 3], most: [u32; 3]| {
        if asked.iter().zip(&most).all(|(&a, &m)| 0 < a && a <= m) {
            return Ok(());
        }
        Err(refuse(launch, &format!("{what} {}", shown(asked)), &format!("{} (and at least 1)", shown(most))))
    };
    within("block", block, MOST_BLOCK)?;
    let together = if asked.cooperative { Some(resident(threads as u32)?) } else { None };
    let cluster = asked.cluster.unwrap_or([1; 3]);
    let grid = match asked.grid {
        Some(grid) => grid,
        None if block[1] > 1 || block[2] > 1 => {
            return Err(Error::new(
                Kind::Argument,
                format!("kernel `{}`: a block of more than one dimension needs `grid`", launch.function.name),
            ));
        }
        None => {
            let [across, beside @ ..] = cluster.map(|c| u64::from(c.max(1)));
            let mut blocks = n.div_ceil(threads).max(1).next_multiple_of(across);
            if let Some(most) = together {
                // whole clusters, all of which are resident at once
                let most = u64::from(most) / (beside[0] * beside[1]);
                blocks = blocks.min(most / across * across).max(across);
            }
            [u32::try_from(blocks).unwrap_or(u32::MAX), cluster[1].max(1), cluster[2].max(1)]
        }
    };
    within("grid", grid, MOST_GRID)?;
    if asked.cluster.is_some() {
        let blocks: u64 = cluster.iter().map(|&c| u64::from(c)).product();
        if blocks == 0 || blocks > u64::from(MOST_CLUSTER) {
            return Err(refuse(
                launch,
                &format!("{blocks} blocks in a cluster"),
                &format!("{MOST_CLUSTER} (and at least 1)"),
            ));
        }
        if grid.iter().zip(&cluster).any(|(&g, &c)| g % c != 0) {
            return Err(Error::new(
                Kind::Launch,
                format!(
                    "kernel `{}`: grid {} is not a multiple of cluster {}",
                    launch.function.name,
                    shown(grid),
                    shown(cluster)
                ),
            ));
        }
    }
    if let Some(together) = together {
        let blocks: u64 = grid.iter().map(|&g| u64::from(g)).product();
        if blocks > u64::from(together) {
            return Err(refuse(launch, &format!("{blocks} blocks at once (`cooperative`)"), &format!("{together}")));
        }
    }
    Ok((grid, block))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::{Arguments, Code, Geometry, Module, Spec};

    fn chosen(geometry: Geometry, n: usize, max_threads: u32) -> Result<([u32; 3], [u32; 3])> {
        let source = "extern \"C\" __global__ void k(int n) {}";
        let module = Arc::new(Module::new(Spec { code: Code::Source(source.into()), ..Spec::default() }).unwrap());
        let function = module.function(None).unwrap();
        let signature = function.known_signature().unwrap();
        let launch = Launch {
            function: &function,
            signature,
            geometry: &geometry,
            n,
            arguments: &Arguments::default(),
            described: &String::new,
        };
        choose(&launch, max_threads, 4, &|_| Ok(1024), &|threads| Ok(4 * 2048 / threads))
    }

    #[test]
    fn blocks_cover_n_and_limits_are_kept() {
        let open = Geometry::default();
        let block = |block| Geometry { block: Some(block), ..open };
        // of 4 multiprocessors each gets a block if there are at least 4 times 64 threads
        assert_eq!(chosen(open, 1_000_000, 1024).unwrap(), ([977, 1, 1], [1024, 1, 1]));
        assert_eq!(chosen(open, 1000, 1024).unwrap(), ([4, 1, 1], [256, 1, 1]));
        assert_eq!(chosen(open, 10, 1024).unwrap(), ([1, 1, 1], [64, 1, 1]));
        assert_eq!(chosen(open, 10_000, 128).unwrap(), ([79, 1, 1], [128, 1, 1]));
        assert_eq!(chosen(block([512, 1, 1]), 513, 1024).unwrap().0, [2, 1, 1]);
        assert!(chosen(Geometry { grid: Some([2, 3, 1]), ..block([8, 8, 2]) }, 0, 1024).is_ok());
        let grid = |grid| Geometry { grid: Some(grid), ..open };
        for (geometry, n) in [
            (block([2048, 1, 1]), 10),
            (block([0, 1, 1]), 10),
            (Geometry { grid: Some([1, 1, 1]), ..block([1, 1, 128]) }, 10),
            (grid([1, 70000, 1]), 10),
            (grid([0, 1, 1]), 10),
            (block([1, 1, 1]), 1 << 32),
            (Geometry { cluster: Some([3, 1, 1]), ..grid([4, 1, 1]) }, 10),
            (Geometry { cluster: Some([16, 1, 1]), ..grid([16, 1, 1]) }, 10),
            (Geometry { cooperative: true, ..grid([1000, 1, 1]) }, 10),
        ] {
            assert_eq!(chosen(geometry, n, 1024).unwrap_err().kind, Kind::Launch, "{geometry:?}");
        }
        assert_eq!(chosen(block([16, 16, 1]), 9, 1024).unwrap_err().kind, Kind::Argument);
        // cooperative launches have as many blocks as run at once; clusters are complete
        assert_eq!(chosen(Geometry { cooperative: true, ..block([256, 1, 1]) }, 1 << 20, 1024).unwrap().0, [32, 1, 1]);
        assert_eq!(
            chosen(Geometry { cluster: Some([4, 1, 1]), ..block([256, 1, 1]) }, 1000, 1024).unwrap().0,
            [4, 1, 1]
        );
        assert_eq!(
            chosen(Geometry { cluster: Some([4, 1, 1]), ..block([256, 1, 1]) }, 1030, 1024).unwrap().0,
            [8, 1, 1]
        );
    }
}
