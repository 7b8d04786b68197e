//! Writes what `ptx/` holds, the prebuilt kernels, before it is compressed: `tools/gpu/ptx.sh` runs this with
//! the NVRTCs to use. Each run writes packs and appends their lines to `index.txt`.
//!
//! usage: VERDIGRIS_CUDA_PATH=<folder of libnvrtc> cargo run --release -p verdigris-engine --example ptx -- FOLDER ptx|75|80|...

#[cfg(target_os = "macos")]
fn main() {
    panic!("there is no NVRTC on macOS");
}

#[cfg(not(target_os = "macos"))]
fn main() {
    use std::fmt::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Mutex;
    use verdigris_engine::backend::cuda::compile::prebuilt::{fingerprint, ARCH};
    use verdigris_engine::backend::cuda::compile::{compile, nvrtc::Target};
    use verdigris_engine::backend::cuda::prebuilt_list::{is_compiled, sources, Prebuilt};

    let mut arguments = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().expect("the folder to write to"));
    let mut jobs: Vec<(Target, Prebuilt)> = Vec::new();
    for what in arguments {
        if what == "ptx" {
            jobs.extend(sources().into_iter().map(|job| (Target::Ptx(ARCH), job)));
            continue;
        }
        let arch = what.parse().expect("`ptx` or an architecture's number");
        let pack: &'static str = format!("sm_{arch}").leak();
        let compiled = sources().into_iter().filter(|job| is_compiled(&job.name));
        jobs.extend(compiled.map(|job| (Target::Cubin(arch), Prebuilt { pack, ..job })));
    }
    let next = AtomicUsize::new(0);
    let images = Mutex::new(vec![Vec::new(); jobs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let k = next.fetch_add(1, Ordering::Relaxed);
                let Some((target, job)) = jobs.get(k) else { break };
                let image = compile(&job.source, *target)
                    .unwrap_or_else(|e| panic!("{}: {e}\n{}", job.name, e.detail.as_deref().unwrap_or("")));
                images.lock().unwrap()[k] = match target {
                    Target::Ptx(_) => plain(&image.bytes),
                    Target::Cubin(_) => image.bytes,
                };
            });
        }
    });
    let images = images.into_inner().unwrap();
    let mut index = std::fs::read_to_string(folder.join("index.txt"))
        .unwrap_or_else(|_| "# made by tools/gpu/ptx.sh: fingerprint of the source, pack, from, to, name\n".into());
    let mut packs: Vec<(&str, Vec<u8>)> = Vec::new();
    for ((_, job), image) in jobs.iter().zip(images) {
        let known = packs.iter().position(|(pack, _)| *pack == job.pack);
        let at = known.unwrap_or_else(|| {
            packs.push((job.pack, Vec::new()));
            packs.len() - 1
        });
        let (pack, all) = &mut packs[at];
        let from = all.len();
        all.extend_from_slice(&image);
        let _ = writeln!(index, "{:032x} {pack} {from} {} {}", fingerprint(&job.source), all.len(), job.name);
    }
    for (pack, all) in packs {
        println!("{pack}: {} KB", all.len() / 1000);
        std::fs::write(folder.join(pack), all).expect("the folder can be written");
    }
    std::fs::write(folder.join("index.txt"), index).expect("the folder can be written");
}

/// PTX without comments and blank lines, and without spaces that mean nothing; it ends in zero.
#[cfg(not(target_os = "macos"))]
fn plain(ptx: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(ptx).expect("PTX is text").trim_end_matches('\0');
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with(".address_size") && line != ".address_size 64" {
            continue;
        }
        for (k, word) in line.split_whitespace().enumerate() {
            // a comma parts operands without a space
            if k > 0 && !out.ends_with(',') {
                out.push(' ');
            }
            out.push_str(word);
        }
        out.push('\n');
    }
    out.push('\0');
    out.into_bytes()
}
