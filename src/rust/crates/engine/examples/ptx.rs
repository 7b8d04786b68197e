//! Writes what `ptx/` holds, the kernels that are shipped, before it is compressed: `tools/ptx.sh` runs this with the
//! NVRTC to use.
//!
//! usage: VERDIGRIS_CUDA_PATH=<folder of libnvrtc> cargo run --release -p verdigris-engine --example ptx -- FOLDER

#[cfg(target_os = "macos")]
fn main() {
    panic!("there is no NVRTC on macOS");
}

#[cfg(not(target_os = "macos"))]
fn main() {
    use std::fmt::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;
    use verdigris_engine::backend::cuda::compile::{compile, Target};
    use verdigris_engine::backend::cuda::shipped::{fingerprint, sources, Pack, ARCH};

    let folder = std::path::PathBuf::from(std::env::args().nth(1).expect("the folder to write to"));
    let sources = sources();
    let only = std::env::var("VERDIGRIS_PTX_ONLY").ok(); // packs, to look at their text
    let next = AtomicUsize::new(0);
    let texts = Mutex::new(vec![String::new(); sources.len()]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let k = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = sources.get(k) else { break };
                if only.as_ref().is_some_and(|packs| !packs.split(',').any(|pack| pack == job.pack.name())) {
                    continue;
                }
                let image = compile(&job.source, Target::Ptx(ARCH))
                    .unwrap_or_else(|e| panic!("{}: {e}\n{}", job.name, e.detail.as_deref().unwrap_or("")));
                texts.lock().unwrap()[k] = plain(&image.bytes);
            });
        }
    });
    let texts = texts.into_inner().unwrap();
    let mut index = String::from("# made by tools/ptx.sh: fingerprint of the source, pack, from, to, name\n");
    for pack in Pack::ALL {
        let mut all = Vec::new();
        let mut count = 0;
        for (job, text) in sources.iter().zip(&texts).filter(|(job, _)| job.pack == pack) {
            let from = all.len();
            all.extend_from_slice(text.as_bytes());
            all.push(0);
            let _ =
                writeln!(index, "{:032x} {} {from} {} {}", fingerprint(&job.source), pack.name(), all.len(), job.name);
            count += 1;
        }
        println!("{}: {count} kernels, {} KB", pack.name(), all.len() / 1000);
        std::fs::write(folder.join(pack.name()), all).expect("the folder can be written");
    }
    std::fs::write(folder.join("index.txt"), index).expect("the folder can be written");
}

/// PTX without comments and blank lines, and without spaces that mean nothing.
#[cfg(not(target_os = "macos"))]
fn plain(ptx: &[u8]) -> String {
    let text = std::str::from_utf8(ptx).expect("PTX is text").trim_end_matches('\0');
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with(".address_size") && line != ".address_size 64" {
            continue;
        }
        out.push_str(&line.replace('\t', " ").replace(", ", ","));
        out.push('\n');
    }
    out
}
