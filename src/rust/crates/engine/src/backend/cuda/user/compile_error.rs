//! Turns logs of compilers and loaders into errors that a user can act on: the line, its text, a caret.

use crate::kernel::{Format, Module};
use verdigris_ops::error::{Error, Kind};

/// An error in NVRTC's log.
struct CompileError<'a> {
    file: &'a str,
    line: usize,
    what: &'a str,
    /// The source line and the caret, as the log has them.
    shown: Vec<&'a str>,
}

/// The first error of a log: `kernel.cu(3): error: identifier "z" is undefined`, followed by the line and a caret.
fn first(log: &str) -> Option<CompileError<'_>> {
    let lines: Vec<&str> = log.lines().collect();
    lines.iter().enumerate().find_map(|(k, text)| {
        let (location, what) = text.split_once("): ")?;
        let (file, line) = location.rsplit_once('(')?;
        let (_, what) = what.split_once("error: ").or_else(|| what.split_once("error:"))?;
        let shown = lines[k + 1..].iter().take(2).take_while(|l| !l.trim().is_empty()).copied().collect();
        Some(CompileError { file, line: line.parse().ok()?, what, shown })
    })
}

/// The source line, with its number in front and the caret below.
fn excerpt(source: &str, found: &CompileError<'_>) -> String {
    let Some(text) = found.line.checked_sub(1).and_then(|k| source.lines().nth(k)) else { return String::new() };
    let number = found.line.to_string();
    let mut out = format!("\n{number} | {}", text.trim_end());
    // NVRTC indents the line by two spaces
    let caret =
        found.shown.get(1).filter(|l| l.trim() == "^").and_then(|l| l.find('^')).and_then(|at| at.checked_sub(2));
    if let Some(at) = caret.filter(|&at| at <= text.len()) {
        // keep tabs, so that the caret lines up
        let before: String = text.chars().take(at).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        out += &format!("\n{} | {before}{}^", " ".repeat(number.len()), " ".repeat(at - before.chars().count()));
    }
    out
}

/// Puts the first error and its source line into the message.
pub fn located(error: Error, module: &Module) -> Error {
    let (Kind::Compile, Some(log)) = (error.kind, error.detail.clone()) else { return error };
    let source = module.source();
    let error = error.source(source);
    let Some(found) = first(&log) else { return error };
    let label = &module.spec.label;
    let message = if found.file == "__nv_name_map" {
        let named = found.shown.first().and_then(|l| l.split_once("nv_mangled_name ")).map_or("?", |(_, name)| name);
        format!("`{}` is not an instance of a kernel: {}", named.trim(), found.what)
    } else if found.file == label {
        format!("the kernel does not compile: line {}: {}{}", found.line, found.what, excerpt(source, &found))
    } else {
        let shown: String = found.shown.iter().map(|l| format!("\n{l}")).collect();
        format!("the kernel does not compile: {}, line {}: {}{shown}", found.file, found.line, found.what)
    };
    let count = log.lines().filter(|l| l.contains("error: ")).count();
    let unopened = found.what.starts_with("could not open source file");
    let mut located = Error::new(Kind::Compile, message).detail(log).source(source);
    if unopened {
        located = located.advise(
            "Name its folder in `include`; CUDA's own headers come by `pip install nvidia-cuda-runtime` or with the toolkit.",
        );
    }
    let more = if count > 1 { format!(", with {} more", count - 1) } else { String::new() };
    located.advise(format!("The condition's `log` has the complete output of the compiler{more}."))
}

/// Explains why the driver does not load compiled code; for PTX with the line that its log names.
pub fn unloadable(error: Error, module: &Module) -> Error {
    if !matches!(error.kind, Kind::Compile | Kind::Launch | Kind::Library) || module.format().is_none() {
        return error;
    }
    let Error { message, detail, .. } = error;
    let label = &module.spec.label;
    let mut out = Error::new(Kind::Compile, format!("the driver cannot load {label}: {message}"));
    if let (Some(Format::Ptx), Some(log)) = (module.format(), &detail) {
        // ptxas application ptx input, line 12; error   : Unknown symbol 'x'
        let text = module.images().first().map(|image| String::from_utf8_lossy(image).into_owned()).unwrap_or_default();
        let found = log.lines().find_map(|l| {
            let (_, rest) = l.split_once(", line ")?;
            let (line, what) = rest.split_once(';')?;
            Some((line.trim().parse::<usize>().ok()?, what.split_once(':').map_or(what, |(_, w)| w).trim()))
        });
        if let Some((line, what)) = found {
            let shown = text
                .lines()
                .nth(line.wrapping_sub(1))
                .map_or(String::new(), |l| format!("\n{line} | {}", l.trim_end()));
            out = Error::new(Kind::Compile, format!("the driver cannot load {label}: line {line}: {what}{shown}"));
        }
        out = out.source(text);
    }
    if message.contains("NO_BINARY_FOR_GPU") || message.contains("UNSUPPORTED") || message.contains("INVALID_IMAGE") {
        out = out.advise("Machine code runs only on the architecture that it was compiled for: add yours with `-gencode`, or include PTX.");
    }
    if let Some(detail) = detail {
        out = out.detail(detail);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Code, Spec};

    fn module(source: &str) -> Module {
        Module::new(Spec { code: Code::Source(source.into()), label: "kernel.cu".into(), ..Spec::default() }).unwrap()
    }

    #[test]
    fn an_error_names_the_line_and_points_at_it() {
        let log = "kernel.cu(2): warning #177-D: variable\n\nkernel.cu(3): error: identifier \"z\" is undefined\n    y = z;\n        ^\n\n";
        let error = located(Error::new(Kind::Compile, "x").detail(log), &module("a\nb\n  y = z;\n"));
        assert_eq!(
            error.message,
            "the kernel does not compile: line 3: identifier \"z\" is undefined\n3 |   y = z;\n  |       ^"
        );
        assert_eq!((error.detail.as_deref(), error.source.as_deref()), (Some(log), Some("a\nb\n  y = z;\n")));
        let log = "thing.h(7): error: what\n  text\n  ^\n";
        let error = located(Error::new(Kind::Compile, "x").detail(log), &module("a"));
        assert_eq!(error.message, "the kernel does not compile: thing.h, line 7: what\n  text\n  ^");
        let log = "__nv_name_map(2): error: identifier \"no\" is undefined\n  #pragma nv_mangled_name f<no>\n    ^\n";
        let error = located(Error::new(Kind::Compile, "x").detail(log), &module("a"));
        assert_eq!(error.message, "`f<no>` is not an instance of a kernel: identifier \"no\" is undefined");
    }
}
