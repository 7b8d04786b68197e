//! Interned routines: each distinct routine is stored once for the life of the process, since kernels and prepared
//! programs are keyed by its address.

use std::collections::hash_map::DefaultHasher;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Mutex;

use super::Routine;

/// The interned routine that is equal to this one.
pub fn intern(routine: Routine) -> &'static Routine {
    static KNOWN: Mutex<Option<HashMap<u64, Vec<&'static Routine>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let alike = known.get_or_insert_with(HashMap::new).entry(fingerprint(&routine)).or_default();
    if let Some(found) = alike.iter().find(|found| ***found == routine) {
        return found;
    }
    let routine: &'static Routine = Box::leak(Box::new(routine));
    alike.push(routine);
    routine
}

/// A hash of the whole routine.
pub fn fingerprint(routine: &Routine) -> u64 {
    let mut hasher = DefaultHasher::new();
    routine.hash(&mut hasher);
    hasher.finish()
}

/// An interned routine. Equality is pointer equality.
#[derive(Clone, Copy, Debug)]
pub struct Interned(pub &'static Routine);

impl Deref for Interned {
    type Target = Routine;

    fn deref(&self) -> &Routine {
        self.0
    }
}

impl PartialEq for Interned {
    fn eq(&self, other: &Interned) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Interned {}

impl Hash for Interned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 as *const Routine as usize).hash(state);
    }
}

impl Interned {
    /// The number of statements.
    pub fn size(&self) -> u32 {
        let mut count = 0;
        self.walk(&mut |_| count += 1);
        count
    }
}
