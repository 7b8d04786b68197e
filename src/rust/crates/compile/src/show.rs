//! A routine as text, for tests and debugging.

use std::fmt;

use super::{Block, Operand, Routine, Statement};

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Register(r) => write!(f, "r{r}"),
            Operand::Constant(scalar) => write!(f, "{scalar}"),
        }
    }
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for p in &self.parameters {
            writeln!(f, "r{} = {:?} as {}", p.register, p.source, p.dtype)?;
        }
        for (k, table) in self.tables.iter().enumerate() {
            writeln!(f, "t{k} = {} as {}", table.name, table.dtype)?;
        }
        block(f, &self.body, 0)?;
        let results: Vec<String> = self.results.iter().map(|(r, dtype)| format!("r{r} as {dtype}")).collect();
        writeln!(f, "=> {}", results.join(", "))
    }
}

fn list(operands: &[Operand]) -> String {
    operands.iter().map(Operand::to_string).collect::<Vec<_>>().join(", ")
}

fn block(f: &mut fmt::Formatter<'_>, statements: &Block, depth: usize) -> fmt::Result {
    for statement in statements {
        write!(f, "{:1$}", "", 2 * depth)?;
        match statement {
            Statement::Apply { to, op, class, args } => {
                writeln!(f, "r{to} = {}.{}({})", op.row().name, class.c_type(), list(args))?;
            }
            Statement::Move { to, from } => writeln!(f, "r{to} = {from}")?,
            Statement::Step { to, from, counter, step } => writeln!(f, "r{to} = {from} + r{counter} * {step}")?,
            Statement::Position { to, from, extent, inside, .. } => {
                let inside = if *inside { ", inside" } else { "" };
                writeln!(f, "r{to} = position({from} of {extent}{inside})")?
            }
            Statement::Offset { to, at } => {
                let axes: Vec<String> = at.iter().map(|(p, s)| format!("{p} * {s}")).collect();
                writeln!(f, "r{to} = offset({})", axes.join(" + "))?;
            }
            Statement::Read { to, table, at } => writeln!(f, "r{to} = t{table}[{at}]")?,
            Statement::Get { to, array, at } => writeln!(f, "r{to} = a{array}[{at}]")?,
            Statement::Set { array, at, value } => writeln!(f, "a{array}[{at}] = {value}")?,
            Statement::Draw { to, draw, count, args } => writeln!(f, "r{to} = {draw:?}(#r{count}++, {})", list(args))?,
            Statement::If { value, then, otherwise, .. } => {
                writeln!(f, "if {value}")?;
                block(f, then, depth + 1)?;
                if !otherwise.is_empty() {
                    writeln!(f, "{:1$}else", "", 2 * depth)?;
                    block(f, otherwise, depth + 1)?;
                }
            }
            Statement::For { counter, times, body } => {
                writeln!(f, "for r{counter} below {times}")?;
                block(f, body, depth + 1)?;
            }
            Statement::Loop { body } => {
                writeln!(f, "loop")?;
                block(f, body, depth + 1)?;
            }
            Statement::Break => writeln!(f, "break")?,
            Statement::Next => writeln!(f, "next")?,
            Statement::Return => writeln!(f, "return")?,
            Statement::Fail(id) => writeln!(f, "fail {id}")?,
        }
    }
    Ok(())
}
