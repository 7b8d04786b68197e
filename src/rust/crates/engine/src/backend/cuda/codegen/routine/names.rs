//! Counts reads and writes of a routine's registers, and derives from these their names in C and where they are
//! declared.

use std::collections::HashSet;

use verdigris_compile::{Block, Operand, Register, Routine, Statement};

/// How a register is used, counted before any code is written.
#[derive(Clone, Debug, Default)]
pub struct Use {
    pub name: String,
    /// Whether the register has a name in R.
    pub named: bool,
    pub writes: u32,
    pub reads: u32,
    /// Whether it can be declared at its only assignment, because all reads follow in the same braces.
    pub local: bool,
    /// The number of the block that writes it first.
    block: usize,
}

/// The uses of all registers, by register.
pub fn uses(routine: &Routine) -> Vec<Use> {
    let mut uses = vec![Use { local: true, ..Use::default() }; routine.registers.len()];
    for p in &routine.parameters {
        uses[p.register as usize].writes += 1;
    }
    let mut walk = Walk { uses, parents: vec![0], results: routine.results.iter().map(|(r, _)| *r).collect() };
    let mut next = 1;
    walk.writes(&routine.body, 0, &mut next);
    next = 1;
    walk.reads(&routine.body, 0, &mut next);
    if !leaves(&routine.body) {
        walk.results(0);
    }
    let mut uses = walk.uses;
    let mut taken = HashSet::new();
    // if several registers have the same name in R, the one that is used most gets it without a suffix
    let mut order: Vec<usize> = (0..uses.len()).collect();
    order.sort_by_key(|&r| std::cmp::Reverse(uses[r].reads + uses[r].writes));
    let count = uses.len();
    for r in order {
        let used = &mut uses[r];
        let plain = c_identifier(routine.names.get(r).map_or("", String::as_str));
        used.local &= used.writes == 1;
        used.named = !plain.is_empty();
        used.name = if used.named { format!("{plain}_") } else { format!("t{r}") };
        let mut suffix = r;
        // R's own names may end in numbers: `x_3` is another variable than the third register's `x`
        while !taken.insert(used.name.clone()) {
            used.name = format!("{plain}_{suffix}_");
            suffix += count;
        }
    }
    uses
}

/// An R name turned into a C identifier, or "". The caller appends an underscore, so that it cannot clash with C's own
/// names.
pub fn c_identifier(name: &str) -> String {
    let text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    match text.trim_matches('_') {
        "" => String::new(),
        text if text.starts_with(|c: char| c.is_ascii_digit()) => format!("x{text}"),
        text => text.into(),
    }
}

/// Whether control never reaches the end of a block.
pub fn leaves(block: &Block) -> bool {
    match block.last() {
        Some(Statement::Break | Statement::Next | Statement::Return | Statement::Fail(_)) => true,
        Some(Statement::If { then, otherwise, .. }) => leaves(then) && leaves(otherwise),
        Some(Statement::Loop { body }) => !breaks(body),
        _ => false,
    }
}

/// Whether a loop's body contains a `break` of this loop.
pub fn breaks(body: &Block) -> bool {
    body.iter().any(|statement| match statement {
        Statement::Break => true,
        Statement::If { then, otherwise, .. } => breaks(then) || breaks(otherwise),
        _ => false,
    })
}

struct Walk {
    uses: Vec<Use>,
    /// The enclosing block of each block. Blocks are numbered in the order in which they are entered.
    parents: Vec<usize>,
    results: Vec<Register>,
}

impl Walk {
    fn write(&mut self, register: Register, block: usize) {
        let used = &mut self.uses[register as usize];
        if used.writes == 0 {
            used.block = block;
        }
        used.writes += 1;
    }

    fn writes(&mut self, statements: &Block, own: usize, next: &mut usize) {
        for statement in statements {
            if let Some(to) = statement.written() {
                self.write(to, own);
            }
            if let Statement::Draw { count, .. } = statement {
                self.write(*count, own);
            }
            self.inner(statement, own, next, &mut |walk, block, inner, next| {
                if let Statement::For { counter, .. } = statement {
                    walk.write(*counter, inner);
                }
                walk.writes(block, inner, next);
            });
        }
    }

    fn reads(&mut self, statements: &Block, own: usize, next: &mut usize) {
        for statement in statements {
            let read: Vec<Register> = statement.operands().into_iter().filter_map(Operand::register).collect();
            read.into_iter().for_each(|r| self.read(r, own));
            if let Statement::Return = statement {
                self.results(own);
            }
            self.inner(statement, own, next, &mut |walk, block, inner, next| walk.reads(block, inner, next));
        }
    }

    /// Calls `visit` for each block of a statement, with its number.
    fn inner(
        &mut self,
        statement: &Statement,
        own: usize,
        next: &mut usize,
        visit: &mut dyn FnMut(&mut Walk, &Block, usize, &mut usize),
    ) {
        let blocks: [Option<&Block>; 2] = match statement {
            Statement::If { then, otherwise, .. } => [Some(then), Some(otherwise)],
            Statement::For { body, .. } | Statement::Loop { body } => [Some(body), None],
            _ => [None, None],
        };
        for block in blocks.into_iter().flatten() {
            let inner = *next;
            *next += 1;
            if self.parents.len() <= inner {
                self.parents.push(own);
            }
            visit(self, block, inner, next);
        }
    }

    /// Counts a return statement's reads of the results.
    fn results(&mut self, own: usize) {
        for k in 0..self.results.len() {
            self.read(self.results[k], own);
        }
    }

    fn read(&mut self, register: Register, mut block: usize) {
        let used = &mut self.uses[register as usize];
        used.reads += 1;
        while block > used.block {
            block = self.parents[block];
        }
        // an enclosing block has a smaller number, so the loop ends at the defining block if that encloses the read
        used.local &= used.writes == 1 && block == used.block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_c_identifiers() {
        let names = ["zr", "my.var", ".x", "2", "caf\u{e9}", "_"].map(c_identifier);
        assert_eq!(names, ["zr", "my_var", "x", "x2", "caf", ""]);
    }
}
