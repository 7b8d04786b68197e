//! Reads the signatures of kernels from CUDA C.
//!
//! No C++ parser: comments, strings, and preprocessor lines are blanked, and what stands between
//! `__global__` and the body's `{` is read token by token. The compiler has the last word.

use super::{Element, Parameter, Passing, Signature};
use crate::error::{Error, Kind, Result};

#[derive(Clone, Debug, PartialEq)]
struct Token {
    text: String,
    line: usize,
}

/// The kernels that a source defines.
///
/// # Errors
/// `Argument`, where there is none, or one that is not `extern "C"` or that cannot be understood.
pub fn parse(source: &str) -> Result<Vec<Signature>> {
    let tokens = tokens(source);
    let mut found: Vec<Signature> = Vec::new();
    // depths of braces at which an `extern "C" {` was opened
    let mut blocks: Vec<usize> = Vec::new();
    let mut depth = 0;
    // the tokens since the last `;`, `{` or `}`: where a declaration starts
    let mut start = 0;
    let mut k = 0;
    while k < tokens.len() {
        match tokens[k].text.as_str() {
            "{" => {
                if k >= 2 && is_extern_c(&tokens[k - 2..k]) {
                    blocks.push(depth);
                }
                depth += 1;
                start = k + 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                if blocks.last() == Some(&depth) {
                    blocks.pop();
                }
                start = k + 1;
            }
            ";" => start = k + 1,
            "__global__" => {
                let c_linkage =
                    !blocks.is_empty() || tokens[start..k].windows(2).any(is_extern_c) || after_extern_c(&tokens, k);
                let (signature, end, defined) = signature(&tokens, k)?;
                if !c_linkage {
                    return Err(Error::new(
                        Kind::Argument,
                        format!("kernel `{}` (line {}) is not `extern \"C\"`", signature.name, signature.line),
                    )
                    .advise(format!(
                        "Write `extern \"C\" __global__ void {}(...)`: C++ would change its name.",
                        signature.name
                    )));
                }
                if defined && !found.iter().any(|s| s.name == signature.name) {
                    found.push(signature);
                }
                k = end;
                start = end;
                continue;
            }
            _ => {}
        }
        k += 1;
    }
    if found.is_empty() {
        return Err(Error::new(Kind::Argument, "the source defines no kernel").advise(
            "A kernel looks like `extern \"C\" __global__ void name(const float* x, float* y, int n) { ... }`.",
        ));
    }
    Ok(found)
}

fn is_extern_c(pair: &[Token]) -> bool {
    pair[0].text == "extern" && pair[1].text == "\"C\""
}

/// `__global__ extern "C" void f()` is allowed too.
fn after_extern_c(tokens: &[Token], k: usize) -> bool {
    tokens.get(k + 1..k + 3).is_some_and(is_extern_c)
}

/// Words, numbers, strings and signs, with their lines.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = Vec::new();
    let (mut k, mut line, mut fresh) = (0, 1, true);
    let starts = |k: usize, text: &str| text.chars().enumerate().all(|(i, c)| chars.get(k + i) == Some(&c));
    while k < chars.len() {
        let c = chars[k];
        if c == '\n' {
            line += 1;
            fresh = true;
            k += 1;
        } else if c.is_whitespace() {
            k += 1;
        } else if starts(k, "//") || (c == '#' && fresh) {
            // to the end of the line; a backslash before it joins the next
            while k < chars.len() && chars[k] != '\n' {
                if starts(k, "/*") {
                    break; // a comment may begin in a directive and go on behind it
                }
                if chars[k] == '\\' && starts(k + 1, "\n") {
                    line += 1;
                    k += 1;
                }
                k += 1;
            }
        } else if starts(k, "/*") {
            k += 2;
            while k < chars.len() && !starts(k, "*/") {
                line += usize::from(chars[k] == '\n');
                k += 1;
            }
            k = (k + 2).min(chars.len());
        } else if c == '"' || c == '\'' {
            let from = k;
            k += 1;
            while k < chars.len() && chars[k] != c && chars[k] != '\n' {
                k += if chars[k] == '\\' { 2 } else { 1 };
            }
            k = (k + 1).min(chars.len());
            fresh = false;
            out.push(Token { text: chars[from..k].iter().collect(), line });
        } else if c.is_alphanumeric() || c == '_' {
            let from = k;
            // 1'000 is one number
            let number = c.is_ascii_digit();
            while k < chars.len() && (chars[k].is_alphanumeric() || chars[k] == '_' || (number && chars[k] == '\'')) {
                k += 1;
            }
            fresh = false;
            out.push(Token { text: chars[from..k].iter().collect(), line });
        } else {
            let n = if starts(k, "::") { 2 } else { 1 };
            fresh = false;
            out.push(Token { text: chars[k..k + n].iter().collect(), line });
            k += n;
        }
    }
    out
}

/// From `__global__` on: the signature, the place behind it, and whether a body follows.
fn signature(tokens: &[Token], at: usize) -> Result<(Signature, usize, bool)> {
    let line = tokens[at].line;
    let broken = |what: &str| {
        Error::new(Kind::Argument, format!("the signature of the kernel in line {line} cannot be read: {what}"))
    };
    let text = |k: usize| tokens.get(k).map_or("", |t| t.text.as_str());
    let mut k = at + 1;
    let mut name = None;
    loop {
        match text(k) {
            "" | ";" | "{" => return Err(broken("no parameters follow `__global__`")),
            "(" => break,
            // __launch_bounds__(256, 2), __attribute__((...)), alignas(16)
            word if text(k + 1) == "(" && (word.starts_with("__") || word == "alignas") => {
                k = closing(tokens, k + 1).ok_or_else(|| broken("a parenthesis is not closed"))?;
            }
            word => name = Some((word.to_string(), tokens[k].line)),
        }
        k += 1;
    }
    let end = closing(tokens, k).ok_or_else(|| broken("a parenthesis is not closed"))?;
    let (name, line) = name.ok_or_else(|| broken("it has no name"))?;
    let mut parameters = Vec::new();
    let inner = &tokens[k + 1..end];
    if !(inner.is_empty() || (inner.len() == 1 && inner[0].text == "void")) {
        for (i, piece) in split(inner).into_iter().enumerate() {
            let parameter = parameter(piece).map_err(|what| broken(&format!("parameter {} {what}", i + 1)))?;
            parameters.push(parameter);
        }
    }
    Ok((Signature { name, parameters, line }, end + 1, text(end + 1) == "{"))
}

fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (k, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => {
                depth -= 1;
                if depth == 0 {
                    return Some(k);
                }
            }
            _ => {}
        }
    }
    None
}

/// At commas outside brackets.
fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut depth, mut from) = (0, 0);
    let mut pieces = Vec::new();
    for (k, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "<" => depth += 1,
            ")" | "]" | ">" => depth -= 1,
            "," if depth == 0 => {
                pieces.push(&tokens[from..k]);
                from = k + 1;
            }
            _ => {}
        }
    }
    pieces.push(&tokens[from..]);
    pieces
}

fn parameter(tokens: &[Token]) -> std::result::Result<Parameter, &'static str> {
    let mut words: Vec<&str> = Vec::new();
    let (mut stars, mut constant, mut named) = (0, false, None);
    let mut template = 0;
    for (k, token) in tokens.iter().enumerate() {
        let word = token.text.as_str();
        match word {
            _ if template > 0 || word == "<" => {
                template += i32::from(word == "<") - i32::from(word == ">");
                words.push(word);
            }
            "const" if stars == 0 => constant = true,
            "const" | "volatile" | "__restrict__" | "__restrict" | "restrict" | "__grid_constant__" | "struct" => {}
            "*" => stars += 1,
            "&" => return Err("is a reference; a kernel takes numbers and pointers"),
            "=" => return Err("has a default value; a kernel has none"),
            "(" => return Err("is a function; a kernel takes numbers and pointers"),
            "[" => {
                // float x[] is float* x
                stars += 1;
                if tokens[k..].iter().filter(|t| t.text == "[").count() > 1 {
                    return Err("is an array of arrays; a kernel takes numbers and pointers");
                }
                break;
            }
            _ if stars > 0 => named = Some(word),
            _ => words.push(word),
        }
    }
    if stars > 1 {
        return Err("is a pointer to a pointer; a kernel takes numbers and pointers to numbers");
    }
    // types of several words are made of a few known ones: another word at the end is the name
    if let (None, [.., before, last]) = (named, words.as_slice()) {
        if *before != "::" && *last != ">" && !is_part(last) {
            named = words.pop();
        }
    }
    if words.is_empty() {
        return Err("has no type");
    }
    let element = element(&words).unwrap_or_else(|| Element::Other(words.concat()));
    let passing = match (stars, constant) {
        (0, _) => Passing::Value,
        (_, true) => Passing::Read,
        _ => Passing::Write,
    };
    if passing == Passing::Value && element == Element::Void {
        return Err("is void");
    }
    Ok(Parameter { name: named.unwrap_or("").into(), element, passing })
}

/// Words that types of several words are made of: they are never names.
fn is_part(word: &str) -> bool {
    matches!(word, "unsigned" | "signed" | "char" | "short" | "int" | "long" | "float" | "double" | "bool")
}

fn element(words: &[&str]) -> Option<Element> {
    let words = match words {
        ["std" | "thrust", "::", rest @ ..] | ["cuda", "::", "std", "::", rest @ ..] | ["::", rest @ ..] => rest,
        other => other,
    };
    if let [word] = words {
        return Some(match *word {
            "void" => Element::Void,
            "bool" => Element::Bool,
            "float" | "f32" => Element::Float,
            "double" | "f64" => Element::Double,
            "half" | "__half" => Element::Half,
            "__nv_bfloat16" | "nv_bfloat16" => Element::BFloat16,
            "float2" | "cuFloatComplex" | "cuComplex" | "c64" => Element::FloatComplex,
            "double2" | "cuDoubleComplex" | "c128" => Element::DoubleComplex,
            "int8_t" | "i8" => Element::Integer(1, true),
            "uint8_t" | "u8" | "uchar" => Element::Integer(1, false),
            "int16_t" | "i16" => Element::Integer(2, true),
            "uint16_t" | "u16" | "ushort" => Element::Integer(2, false),
            "int32_t" | "i32" => Element::Integer(4, true),
            "uint32_t" | "u32" | "uint" => Element::Integer(4, false),
            "int64_t" | "i64" | "ptrdiff_t" | "intptr_t" => Element::Integer(8, true),
            "uint64_t" | "u64" | "size_t" | "uintptr_t" => Element::Integer(8, false),
            other => return integer(&[other]),
        });
    }
    match words {
        ["complex", "<", "float", ">"] => Some(Element::FloatComplex),
        ["complex", "<", "double", ">"] => Some(Element::DoubleComplex),
        _ => integer(words),
    }
}

/// `unsigned long long int`, in any order.
fn integer(words: &[&str]) -> Option<Element> {
    let (mut signed, mut longs, mut base) = (None, 0, None);
    for &word in words {
        match word {
            "signed" => signed = Some(true),
            "unsigned" => signed = Some(false),
            "long" => longs += 1,
            "char" | "short" => base = Some(word),
            "int" => base = base.or(Some("int")),
            _ => return None,
        }
    }
    if words.is_empty() {
        return None;
    }
    // `long` has 4 bytes on Windows
    let long = if cfg!(windows) { 4 } else { 8 };
    let bytes = match (base, longs) {
        (Some("char"), 0) => 1,
        (Some("short"), 0) => 2,
        (Some("char" | "short"), _) => return None,
        (_, 0) => 4,
        (_, 1) => long,
        _ => 8,
    };
    Some(Element::Integer(bytes, signed.unwrap_or(true)))
}
