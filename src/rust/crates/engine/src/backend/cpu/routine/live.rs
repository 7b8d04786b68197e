//! Liveness analysis: which registers are read later, on some path, before they are written.

use verdigris_compile::{Operand, Register, Routine, Statement};

/// A set of registers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Set(Vec<u64>);

impl Set {
    pub fn insert(&mut self, r: Register) {
        let word = r as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (r % 64);
    }

    pub fn remove(&mut self, r: Register) {
        if let Some(word) = self.0.get_mut(r as usize / 64) {
            *word &= !(1 << (r % 64));
        }
    }

    pub fn contains(&self, r: Register) -> bool {
        self.0.get(r as usize / 64).is_some_and(|word| word >> (r % 64) & 1 != 0)
    }

    pub fn add(&mut self, other: &Set) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    pub fn with(&self, other: &Set) -> Set {
        let mut both = self.clone();
        both.add(other);
        both
    }

    pub fn iter(&self) -> impl Iterator<Item = Register> + '_ {
        self.0.iter().enumerate().flat_map(|(k, word)| {
            (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| (k * 64 + bit) as Register)
        })
    }
}

impl FromIterator<Register> for Set {
    fn from_iter<I: IntoIterator<Item = Register>>(registers: I) -> Set {
        let mut set = Set::default();
        registers.into_iter().for_each(|r| set.insert(r));
        set
    }
}

/// The liveness around a loop's body: before its next iteration, and after the loop.
pub struct Around {
    pub head: Set,
    pub exit: Set,
}

/// Registers that are live where elements return results.
pub fn at_return(routine: &Routine) -> Set {
    routine.results.iter().map(|(r, _)| *r).collect()
}

/// Updates `live` from after to before a statement that has no blocks.
pub fn across(routine: &Routine, statement: &Statement, live: &mut Set, around: Option<&Around>) {
    let of_loop = || around.expect("a break and a next stand in a loop");
    match statement {
        Statement::Break => *live = of_loop().exit.clone(),
        Statement::Next => *live = of_loop().head.clone(),
        Statement::Return => *live = at_return(routine),
        Statement::Fail(_) => *live = Set::default(),
        _ => {
            if let Some(to) = statement.written() {
                live.remove(to);
            }
            statement.operands().into_iter().filter_map(Operand::register).for_each(|r| live.insert(r));
        }
    }
}

/// Registers that are live before a block. One pass over a loop's body suffices: what is live after an iteration only
/// passes through it, so a second pass would add nothing.
pub fn before(routine: &Routine, block: &[Statement], after: &Set, around: Option<&Around>) -> Set {
    let mut live = after.clone();
    for statement in block.iter().rev() {
        match statement {
            Statement::If { value, then, otherwise, .. } => {
                let other = before(routine, otherwise, &live, around);
                live = before(routine, then, &live, around);
                live.add(&other);
                value.register().into_iter().for_each(|r| live.insert(r));
            }
            Statement::For { counter, times, body } => {
                live = at_head(routine, Some(*counter), body, &live);
                times.register().into_iter().for_each(|r| live.insert(r));
            }
            Statement::Loop { body } => live = at_head(routine, None, body, &live),
            _ => across(routine, statement, &mut live, around),
        }
    }
    live
}

/// Registers that are live where an iteration begins. A counted loop may end there, so the registers that are live
/// after it are included.
pub fn at_head(routine: &Routine, counter: Option<Register>, body: &[Statement], exit: &Set) -> Set {
    let inside = Around { head: Set::default(), exit: exit.clone() };
    let mut live = before(routine, body, &Set::default(), Some(&inside));
    if let Some(counter) = counter {
        live.remove(counter);
        live.add(exit);
    }
    live
}
