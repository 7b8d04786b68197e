//! The engine's errors: a kind, which becomes an R condition class, a message, and advice.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Device,
    Library,
    Compile,
    Launch,
    Memory,
    DType,
    Shape,
    Fork,
    Consumed,
    Argument,
    /// An operation that a CUDA graph under recording cannot contain, or a wrong use of graphs.
    Capture,
    /// A user-written function met a value with which it cannot go on.
    Value,
    /// A file that cannot be written, or whose contents are not as expected.
    File,
    /// A member of a team is gone, failed, or makes another call, so a collective cannot complete.
    Member,
    /// The user interrupted a wait.
    Interrupt,
    Panic,
}

impl Kind {
    /// The suffix of the R condition class `verdigris_error_<kind>`.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Library => "library",
            Kind::Compile => "compile",
            Kind::Launch => "launch",
            Kind::Memory => "memory",
            Kind::DType => "dtype",
            Kind::Shape => "shape",
            Kind::Fork => "fork",
            Kind::Consumed => "consumed",
            Kind::Argument => "argument",
            Kind::Capture => "capture",
            Kind::Value => "value",
            Kind::File => "file",
            Kind::Member => "member",
            Kind::Interrupt => "interrupt",
            Kind::Panic => "panic",
        }
    }
}

/// What went wrong and what to do about it.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: Kind,
    /// One sentence: what was expected, what came.
    pub message: String,
    /// What to do, a sentence each; R shows them as bullets.
    pub advice: Vec<String>,
    /// Longer text that belongs to the condition, such as a compiler's log.
    pub detail: Option<String>,
    /// The source that a compiler refused.
    pub source: Option<String>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into(), advice: Vec::new(), detail: None, source: None }
    }

    pub fn advise(mut self, advice: impl Into<String>) -> Error {
        self.advice.push(advice.into());
        self
    }

    pub fn source(mut self, text: impl Into<String>) -> Error {
        self.source = Some(text.into());
        self
    }

    pub fn detail(mut self, text: impl Into<String>) -> Error {
        self.detail = Some(text.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for advice in &self.advice {
            write!(f, "\n{advice}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
