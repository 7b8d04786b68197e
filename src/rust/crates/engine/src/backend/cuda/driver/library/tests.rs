//! Tests with shared libraries compiled for the purpose: absent, garbage, truncated, lacking functions, or returning
//! unexpected values.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("verdigris-library-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// Compiles a shared library from C.
    fn library(&self, name: &str, code: &str) -> PathBuf {
        let out = self.0.join(name);
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        let source = self.0.join("source.c");
        fs::write(&source, code).unwrap();
        let done = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&out).arg(&source).status().unwrap();
        assert!(done.success());
        out
    }

    fn list(&self) -> SearchList {
        let mut list = SearchList::default();
        list.add(Origin::Option, &self.0);
        list
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn driver_code(init: u32, version: i32, count_status: u32, count: i32) -> String {
    format!(
        "unsigned cuInit(unsigned f) {{ return {init}u; }}\n\
         unsigned cuDriverGetVersion(int* v) {{ *v = {version}; return 0; }}\n\
         unsigned cuDeviceGetCount(int* n) {{ *n = {count}; return {count_status}u; }}\n"
    )
}

fn failure(path: &Path) -> Error {
    driver::probe(&[path.to_path_buf()]).err().expect("the probe must fail")
}

#[test]
fn an_absent_driver_is_an_error_that_says_what_to_install() {
    let error = failure(Path::new("/nowhere/libcuda.so.1"));
    assert_eq!(error.kind, Kind::Library);
    assert!(error.advice[0].contains("nstall"), "{error}");
    assert!(error.detail.unwrap().contains("/nowhere/libcuda.so.1"));
    assert!(failure(Path::new("libverdigris-has-no-such.so.1")).message.contains("cannot load"));
}

#[test]
fn garbage_and_truncated_files_are_errors() {
    let folder = Folder::new("garbage");
    let garbage = folder.0.join("libcuda.so.1");
    for content in [&b""[..], b"hello", &[0u8; 4096], b"\x7fELF\x02\x01\x01"] {
        fs::write(&garbage, content).unwrap();
        assert_eq!(failure(&garbage).kind, Kind::Library);
    }
    // prefixes of many lengths, as an interrupted download leaves them
    let whole = fs::read(folder.library("whole.so", &driver_code(0, 13000, 0, 1))).unwrap();
    for length in (0..whole.len() - 1).step_by(61) {
        let cut = folder.0.join(format!("cut{length}.so"));
        fs::write(&cut, &whole[..length]).unwrap();
        // a file cut behind its loaded segments may still work as a driver; only a crash would be a failure
        let _ = driver::probe(&[cut]);
    }
    let mut alien = whole.clone();
    alien[18] = 3; // a 32-bit Intel processor
    fs::write(&garbage, alien).unwrap();
    assert!(failure(&garbage).detail.unwrap().contains("another kind of machine"));
}

#[test]
fn a_library_without_the_functions_is_an_error() {
    let folder = Folder::new("empty");
    let error = failure(&folder.library("libcuda.so.1", "int nothing;"));
    assert_eq!(error.kind, Kind::Library);
    assert!(error.message.contains("cuInit"), "{error}");
    // a function that is not defined anywhere must fail at loading, not end the process at the call
    let unbound = "unsigned cuSomethingElse(void); unsigned cuInit(unsigned f) { return cuSomethingElse(); }";
    let error = failure(&folder.library("unbound.so", unbound));
    assert!(error.detail.unwrap().contains("cuSomethingElse"));
}

#[test]
fn codes_of_the_driver_are_numbers() {
    let folder = Folder::new("codes");
    let of = |name: &str, init, status, count| failure(&folder.library(name, &driver_code(init, 13000, status, count)));
    let unknown = of("unknown.so", 7777, 0, 1);
    assert_eq!(unknown.kind, Kind::Device);
    assert!(unknown.message.contains("7777"), "{unknown}");
    let none = of("none.so", 100, 0, 1);
    assert_eq!(none.kind, Kind::Device);
    assert!(none.message.contains("no device"), "{none}");
    assert_eq!(of("zero.so", 0, 0, 0).kind, Kind::Device);
    assert_eq!(of("negative.so", 0, 0, -1).kind, Kind::Device);
    assert_eq!(of("count.so", 0, 4_000_000_000, 1).kind, Kind::Device);
    assert_eq!(of("fork.so", 3, 0, 1).kind, Kind::Fork);
    assert_eq!(of("stub.so", 34, 0, 1).kind, Kind::Library);
    assert_eq!(of("mismatch.so", 803, 0, 1).kind, Kind::Library);
    for error in [unknown, none] {
        assert!(!error.advice.is_empty());
    }
}

#[test]
fn an_old_driver_is_told_to_update() {
    let folder = Folder::new("old");
    let error = failure(&folder.library("old.so", &driver_code(0, 11040, 0, 1)));
    assert_eq!(error.kind, Kind::Library);
    assert!(error.message.contains("11.4") && error.advice[0].contains("Update"), "{error}");
}

#[test]
fn a_driver_that_works_describes_its_devices() {
    let folder = Folder::new("works");
    let code = driver_code(0, 13020, 0, 2)
        + "#include <string.h>\n#include <stddef.h>\n\
           unsigned cuDeviceGet(int* d, int k) { *d = k; return 0; }\n\
           unsigned cuDeviceGetName(char* s, int n, int d) { strncpy(s, \"A Card\", n); return 0; }\n\
           unsigned cuDeviceTotalMem_v2(size_t* n, int d) { *n = 1ull << 36; return 0; }\n\
           unsigned cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? 9 : a == 76 ? 0 : 132; return 0; }\n\
           unsigned cuGetErrorName(unsigned c, const char** s) { *s = \"CUDA_ERROR_ODD\"; return 0; }\n";
    let path = folder.library("libcuda.so.1", &code);
    let driver = driver::probe(&[folder.0.join("absent.so"), path.clone()]).unwrap();
    assert_eq!((driver.version, driver.devices), ((13, 2), 2));
    assert_eq!(driver.path, path);
    let info = driver.device(1).unwrap();
    assert_eq!((info.name.as_str(), info.memory, info.capability), ("A Card", 1 << 36, (9, 0)));
    assert_eq!(info.multiprocessors, 132);
    let error = driver.device(2).err().unwrap();
    assert!(error.kind == Kind::Device && error.message.contains("cuda:2"), "{error}");
    assert_eq!(driver.explain(9999), "CUDA_ERROR_ODD (9999)");
    // SAFETY: the type is right; the function is not there.
    let absent = unsafe { driver.symbol::<unsafe extern "C" fn() -> u32>("cuNothing") };
    assert_eq!(absent.err().unwrap().kind, Kind::Library);
}

const NVRTC: &str = "unsigned nvrtcCompileProgram(void* p, int n, void* o) { return 0; }\n";

#[test]
fn a_library_tells_its_version() {
    let folder = Folder::new("version");
    folder.library(
        "lib/libnvrtc.so.13",
        &format!("{NVRTC} unsigned nvrtcVersion(int* a, int* b) {{ *a = 13; *b = 5; return 0; }}"),
    );
    folder.library(
        "lib/libcublas.so.13",
        "unsigned cublasCreate_v2(void** h) { return 0; }\n\
         unsigned cublasGetProperty(int k, int* v) { int t[3] = {13, 3, 7}; *v = t[k]; return 0; }",
    );
    folder.library("lib/libnccl.so.2", "unsigned ncclCommInitAll(void* c, int n, void* d) { return 0; } unsigned ncclGetVersion(int* v) { *v = 22807; return 0; }");
    let version = |library| open(library, &folder.list(), Some(13)).unwrap().version_text();
    assert_eq!(version(Library::Nvrtc), "13.5");
    assert_eq!(version(Library::Cublas), "13.3.7");
    assert_eq!(version(Library::Nccl), "2.28.7");
    let error = open(Library::Cufft, &folder.list(), Some(13)).err().unwrap();
    assert!(error.kind == Kind::Library && error.advice[0].contains("install.packages"), "{error}");
}

#[test]
fn a_broken_library_gives_way_to_the_next() {
    let folder = Folder::new("next");
    fs::write(folder.0.join("libnvrtc.so.13"), "garbage").unwrap();
    folder.library("lib64/libnvrtc.so.13", "int not_nvrtc;");
    // the file's name gives the version if the version function fails or is missing
    let refuses = format!("{NVRTC} unsigned nvrtcVersion(int* a, int* b) {{ return 31337; }}");
    let good = folder.library("lib/libnvrtc.so.12", &refuses);
    let loaded = open(Library::Nvrtc, &folder.list(), Some(13)).unwrap();
    assert_eq!((loaded.path, loaded.version), (good.clone(), vec![12]));
    fs::remove_file(&good).unwrap();
    let error = open(Library::Nvrtc, &folder.list(), Some(13)).err().unwrap();
    let detail = error.detail.unwrap();
    assert!(detail.contains("not a shared library") && detail.contains("nvrtcCompileProgram"), "{detail}");
}

#[test]
fn what_a_library_is_linked_against_is_found_in_the_other_places() {
    let folder = Folder::new("needs");
    folder.library("nvidia/nvjitlink/lib/libnvJitLink.so.12", "int jit_link(void) { return 1; }");
    let jit = folder.0.join("nvidia/nvjitlink/lib/libnvJitLink.so.12");
    // linked by soname, with no path to it
    let source = folder.0.join("source.c");
    fs::write(&source, "int jit_link(void); unsigned cusparseCreate(void** h) { return jit_link(); }").unwrap();
    let soname = folder.0.join("soname.c");
    fs::write(&soname, "int jit_link(void) { return 1; }").unwrap();
    let run = |command: &mut Command| assert!(command.status().unwrap().success());
    run(Command::new("cc").args(["-shared", "-fPIC", "-Wl,-soname,libnvJitLink.so.12", "-o"]).arg(&jit).arg(&soname));
    let out = folder.0.join("nvidia/cusparse/lib");
    fs::create_dir_all(&out).unwrap();
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(out.join("libcusparse.so.12")).arg(&source).arg(&jit));
    let loaded = open(Library::Cusparse, &folder.list(), Some(12)).unwrap();
    // SAFETY: the test's own function.
    let create = unsafe { loaded.symbol::<unsafe extern "C" fn(*mut *mut u8) -> u32>("cusparseCreate") }.unwrap();
    // SAFETY: the function ignores its argument.
    assert_eq!(unsafe { create(std::ptr::null_mut()) }, 1);
}

#[test]
fn reporting_never_fails() {
    let (driver, findings) = report();
    assert_eq!(findings.len(), Library::ALL.len() - 1);
    for finding in findings {
        match finding.outcome {
            Ok(loaded) => assert!(!loaded.path.as_os_str().is_empty()),
            Err(error) => {
                assert!(error.kind == Kind::Library && !error.advice.is_empty() && !finding.remedy.is_empty())
            }
        }
    }
    if let Err(error) = driver {
        assert!(!error.advice.is_empty(), "{error}");
    }
}

#[test]
fn a_bare_name_is_checked_before_the_loader_opens_it() {
    let (broken, good) = (Folder::new("bare-broken"), Folder::new("bare-good"));
    let name = "libverdigris-bare.so.1";
    let whole = fs::read(good.library(name, "int verdigris_bare(void) { return 7; }")).unwrap();
    let path = broken.0.join(name);
    let open = |folders: &[&Folder]| {
        let folders: Vec<&Path> = folders.iter().map(|f| f.0.as_path()).collect();
        Handle::open_by(Path::new(name), &loader::Loader::of(&folders))
    };
    let refused = |folders: &[&Folder], reason: &str| {
        let failure = open(folders).err().unwrap();
        assert!(!failure.absent && failure.reason.contains(reason), "{failure:?}");
        assert!(failure.reason.contains(path.to_str().unwrap()), "{failure:?}");
    };
    for length in [0, 10, 64, 200, whole.len() / 2] {
        fs::write(&path, &whole[..length]).unwrap();
        refused(&[&broken], if length < 64 { "not a shared library" } else { "truncated" });
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(&[&broken], "a folder");
    fs::remove_dir(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    refused(&[&broken], "a FIFO");
    fs::remove_file(&path).unwrap();
    let mut alien = whole.clone();
    alien[18] = 3;
    fs::write(&path, alien).unwrap();
    refused(&[&broken], "another kind of machine");
    std::os::unix::fs::symlink("/nowhere", broken.0.join("dangling")).unwrap();
    assert!(open(&[]).err().unwrap().absent);
    // a later folder has an intact file
    assert_eq!(open(&[&broken, &good]).unwrap().path("verdigris_bare").unwrap(), good.0.join(name));
}

#[test]
fn what_a_library_needs_is_checked_too() {
    let folder = Folder::new("needed");
    let needed = folder.library("libverdigris-needed.so", "int verdigris_needed(void) { return 1; }");
    let source = folder.0.join("user.c");
    fs::write(&source, "int verdigris_needed(void); int verdigris_user(void) { return verdigris_needed(); }").unwrap();
    let user = folder.0.join("libverdigris-user.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-o"])
        .args([&user, &source, &needed])
        .status()
        .unwrap();
    assert!(built.success());
    let whole = fs::read(&needed).unwrap();
    // a dependency recorded as a path, as linked here, and one recorded as a bare name, below
    fs::write(&needed, &whole[..whole.len() / 2]).unwrap();
    let by_path = Handle::open(&user).err();
    let linked = folder.library("libverdigris-needed.so", "int verdigris_needed(void) { return 1; }");
    let named = folder.0.join("libverdigris-named.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN", "-lverdigris-needed", "-o"])
        .arg(&named)
        .arg(&source)
        .arg(format!("-L{}", folder.0.display()))
        .arg("-lverdigris-needed")
        .status()
        .unwrap();
    assert!(built.success());
    fs::write(&linked, &whole[..whole.len() / 2]).unwrap();
    let failure = Handle::open(&named).err().unwrap();
    assert!(failure.reason.contains("needs") && failure.reason.contains("truncated"), "{failure:?}");
    assert!(by_path.is_some_and(|failure| failure.reason.contains("truncated")));
    fs::write(&linked, &whole).unwrap();
    assert!(Handle::open(&named).is_ok());
}
