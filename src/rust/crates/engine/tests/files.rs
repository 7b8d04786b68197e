//! Arrays in files: a written file reads back, in the order that Python sees; a broken one is refused.

use verdigris_engine::array::transfer::Host;
use verdigris_engine::array::{host_bytes, Array};
use verdigris_engine::interop::files::{open, save, Item};
use verdigris_engine::memory::buffer::Device;
use verdigris_ops::dtype::DType;
use verdigris_ops::error::Kind;

fn array(values: &[f64], dtype: DType) -> Array {
    Array::upload(Host::Double(values), Some(dtype), Device::Cpu, None).unwrap()
}

fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("verdigris-files-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_matrix_is_row_major_in_the_file() {
    let folder = folder("matrix");
    let path = folder.join("m.safetensors");
    let items = [
        Item { name: "flags".into(), array: array(&[1.0, 0.0, 1.0], DType::Bool8), dim: vec![3] },
        Item { name: "m".into(), array: array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], DType::Float32), dim: vec![2, 3] },
    ];
    save(&path, &items, &[("format".into(), "test".into())]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let data: Vec<f32> =
        bytes[bytes.len() - 27..].chunks_exact(4).take(6).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(data, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    let source = open(&path).unwrap();
    assert_eq!(source.header.metadata, [("format".to_string(), "test".to_string())]);
    let names: Vec<&str> = source.header.entries.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["flags", "m"]);
    let (m, dim) = source.load(&source.header.entries[1], false, Device::Cpu).unwrap();
    assert_eq!(dim, [2, 3]);
    assert_eq!(
        host_bytes(&m.contiguous().unwrap()).unwrap(),
        host_bytes(&items[1].array.contiguous().unwrap()).unwrap()
    );
    // Windows removes no file that is open
    drop(source);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_file_that_is_cut_off_is_refused() {
    let folder = folder("cut");
    let path = folder.join("x");
    save(&path, &[Item { name: "x".into(), array: array(&[1.0, 2.0], DType::Float64), dim: vec![2] }], &[]).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for n in 0..whole.len() {
        std::fs::write(&path, &whole[..n]).unwrap();
        assert_eq!(open(&path).err().unwrap().kind, Kind::File);
    }
    std::fs::write(&path, [&whole[..], b"!"].concat()).unwrap();
    assert_eq!(open(&path).err().unwrap().kind, Kind::File);
    // and a changed byte gives a tensor or an error, nothing else
    for at in 0..whole.len() {
        for flip in [1u8, 32, 128] {
            let mut other = whole.clone();
            other[at] ^= flip;
            std::fs::write(&path, other).unwrap();
            if let Ok(source) = open(&path) {
                for entry in &source.header.entries {
                    let _ = source.load(entry, false, Device::Cpu);
                }
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_changes_nothing() {
    let folder = folder("nowhere");
    let item = || [Item { name: "x".into(), array: array(&[1.0], DType::Float64), dim: vec![1] }];
    assert_eq!(save(&folder.join("no/x"), &item(), &[]).unwrap_err().kind, Kind::File);
    assert_eq!(save(&folder, &item(), &[]).unwrap_err().kind, Kind::File);
    let [x] = item();
    let [y] = item();
    assert_eq!(save(&folder.join("x"), &[x, y], &[]).unwrap_err().kind, Kind::Argument);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}
