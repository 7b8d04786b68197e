//! A row of the operation table, referred to by its number.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::dtype::Class;
use crate::table::{self, Flag, Op, Subject};

/// The index of a row in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpId(pub u16);

/// A constant for every row: `id::ADD`.
pub mod id {
    use super::OpId;
    include!(concat!(env!("OUT_DIR"), "/id.rs"));
}

fn rows() -> &'static [&'static Op] {
    static ROWS: OnceLock<Vec<&'static Op>> = OnceLock::new();
    ROWS.get_or_init(|| table::TABLES.iter().flat_map(|(_, rows)| rows.iter()).collect())
}

impl OpId {
    #[inline]
    pub fn row(self) -> &'static Op {
        rows()[self.0 as usize]
    }

    /// Whether computing the row in a class may warn: whether its expression uses the flag word.
    #[inline]
    pub fn may_warn(self, class: Class) -> bool {
        static MAY_WARN: OnceLock<Vec<u8>> = OnceLock::new();
        let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let notes = |text: &str| text.split(|c| !word(c)).any(|name| name == "w");
        let classes = |row: &&Op| {
            let noting = Class::ALL.iter().filter(|c| row.expression(**c).is_some_and(notes));
            if row.flag == Flag::None {
                0
            } else {
                noting.fold(0, |bits, c| bits | c.bit())
            }
        };
        MAY_WARN.get_or_init(|| rows().iter().map(classes).collect())[self.0 as usize] & class.bit() != 0
    }

    /// The subject of the row's file.
    pub fn subject(self) -> Subject {
        static SUBJECTS: OnceLock<Vec<Subject>> = OnceLock::new();
        let each = |(subject, rows): &(Subject, &[Op])| std::iter::repeat_n(*subject, rows.len());
        SUBJECTS.get_or_init(|| table::TABLES.iter().flat_map(each).collect())[self.0 as usize]
    }

    pub fn all() -> impl Iterator<Item = OpId> {
        (0..rows().len() as u16).map(OpId)
    }

    pub fn find(name: &str) -> Option<OpId> {
        static NAMES: OnceLock<HashMap<&'static str, OpId>> = OnceLock::new();
        NAMES.get_or_init(|| OpId::all().map(|id| (id.row().name, id)).collect()).get(name).copied()
    }

    /// The row that casts to `dtype`.
    pub fn cast(dtype: crate::dtype::DType) -> OpId {
        static CASTS: OnceLock<Vec<OpId>> = OnceLock::new();
        CASTS.get_or_init(|| {
            crate::dtype::DType::ALL
                .iter()
                .map(|d| OpId::find(&format!("to_{d}")).expect("the table has a cast to every dtype"))
                .collect()
        })[dtype as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn names_are_unique_and_found() {
        for id in OpId::all() {
            assert_eq!(OpId::find(id.row().name), Some(id));
        }
    }

    #[test]
    fn every_cast_takes_every_class() {
        for dtype in DType::ALL {
            for class in Class::ALL {
                assert!(OpId::cast(dtype).row().expression(class).is_some(), "{dtype} from {class:?}");
            }
        }
    }
}
