//! Parses CUDA C source for kernels, their parameters, and device variables.
//!
//! This is no C++ parser. It reads the tokens between `__global__` and the body's `{`, and declarations at namespace
//! scope with `__device__` or `__constant__`. The compiler has the last word.

use super::signature::{Element, Parameter, Passing, Signature};
use super::tokens::{closing, split, tokens, Token};
use verdigris_ops::error::{Error, Kind, Result};

/// The declarations in a source.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    pub kernels: Vec<Definition>,
    pub globals: Vec<Global>,
}

/// The definition of a kernel. The parameters of a template are only known for an instance.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The qualified name: `a::scale`.
    pub name: String,
    /// Whether the name is not mangled.
    pub c_linkage: bool,
    /// The template parameters' names and defaults.
    pub template: Option<Vec<(String, Vec<Token>)>>,
    pub line: usize,
    parameters: Vec<Token>,
}

/// A device variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    pub name: String,
    pub element: Element,
    /// `__constant__`
    pub constant: bool,
}

enum Scope {
    ExternC,
    Namespace(String),
    Other,
}

/// The kernels and variables that a source defines.
///
/// # Errors
/// `Argument`, if a kernel's declaration cannot be parsed.
pub fn contents(source: &str) -> Result<Contents> {
    let tokens = tokens(source);
    let mut found = Contents::default();
    let mut scopes: Vec<Scope> = Vec::new();
    // The start of the current declaration: the token after the last `;`, `{` or `}`.
    let mut start = 0;
    let mut k = 0;
    while k < tokens.len() {
        match tokens[k].text.as_str() {
            "{" => {
                scopes.push(scope(&tokens[start..k]));
                start = k + 1;
            }
            "}" => {
                scopes.pop();
                start = k + 1;
            }
            ";" => start = k + 1,
            "__global__" => {
                let outer = scopes.iter().any(|s| matches!(s, Scope::ExternC));
                let c_linkage = outer || tokens[start..k].windows(2).any(is_extern_c) || after_extern_c(&tokens, k);
                let (mut kernel, end, defined) = definition(&tokens, k)?;
                kernel.c_linkage = c_linkage;
                kernel.template = template(&tokens[start..k]);
                if !c_linkage {
                    kernel.name = qualified(&scopes, &kernel.name);
                }
                if defined && !found.kernels.iter().any(|known| known.name == kernel.name) {
                    found.kernels.push(kernel);
                }
                k = end;
                start = end;
                continue;
            }
            "__device__" | "__constant__" | "__managed__" if scopes.iter().all(|s| !matches!(s, Scope::Other)) => {
                let end = tokens[k..].iter().position(|t| t.text == ";").map_or(tokens.len(), |n| k + n);
                if let Some(globals) = globals(&tokens[start..end], &scopes) {
                    found.globals.extend(globals);
                    k = end;
                    continue;
                }
            }
            _ => {}
        }
        k += 1;
    }
    Ok(found)
}

/// Parses a user's declaration of a binary's kernel or host function: `__global__ void f(float* x, int n)` or `int
/// g(float* x, cudaStream_t s)`. Also returns whether it is a kernel.
///
/// # Errors
/// `Argument`, if it cannot be parsed.
pub fn declared(text: &str) -> Result<(Signature, bool)> {
    let broken = |what: &str| {
        Error::new(Kind::Argument, format!("the signature `{}` cannot be read: {what}", text.trim()))
            .advise("It looks like `__global__ void name(const float* x, float* y, int n)`.")
    };
    let tokens: Vec<Token> =
        tokens(text).into_iter().filter(|t| !matches!(t.text.as_str(), ";" | "extern" | "\"C\"")).collect();
    let kernel = tokens.iter().any(|t| t.text == "__global__");
    let open = tokens.iter().position(|t| t.text == "(").ok_or_else(|| broken("it has no parameters"))?;
    let end = closing(&tokens, open).ok_or_else(|| broken("a parenthesis is not closed"))?;
    if end + 1 != tokens.len() {
        return Err(broken("something follows the parameters"));
    }
    let words: Vec<&str> =
        tokens[..open].iter().map(|t| t.text.as_str()).filter(|&w| w != "__global__" && w != "static").collect();
    let Some((&name, returned)) = words.split_last().filter(|(&name, _)| name != "void") else {
        return Err(broken("it has no name"));
    };
    let status = match returned {
        [] | ["void"] => false,
        ["int" | "unsigned" | "cudaError_t" | "CUresult" | "cudaError" | "int32_t"] => true,
        _ => return Err(broken("it must return void, int or cudaError_t")),
    };
    if kernel && status {
        return Err(broken("a kernel returns void"));
    }
    let parameters = parameters(&tokens[open + 1..end], &broken)?;
    if kernel && parameters.iter().any(|p| p.element == Element::Stream) {
        return Err(broken("a kernel takes no stream"));
    }
    Ok((Signature { name: name.into(), parameters, status }, kernel))
}

impl Definition {
    /// The signature, with a template's arguments, taken from `name`, substituted.
    ///
    /// # Errors
    /// `Argument`, if the parameters cannot be parsed.
    pub fn signature(&self, name: &str) -> Result<Signature> {
        let line = self.line;
        let broken = |what: &str| {
            Error::new(Kind::Argument, format!("the signature of the kernel in line {line} cannot be read: {what}"))
        };
        let mut body = self.parameters.clone();
        if let Some(formal) = &self.template {
            let given = tokens(name);
            let open = given.iter().position(|t| t.text == "<").ok_or_else(|| {
                let some: Vec<&str> = formal.iter().map(|_| "float").collect();
                Error::new(Kind::Argument, format!("kernel `{name}` is a template")).advise(format!(
                    "Name an instance, such as `{}<{}>`.",
                    self.name,
                    some.join(", ")
                ))
            })?;
            let close = closing(&given, open).ok_or_else(|| broken("a `<` is not closed"))?;
            let actual = split(&given[open + 1..close]);
            if actual.len() > formal.len() {
                return Err(broken(&format!("it has {} template parameters, not {}", formal.len(), actual.len())));
            }
            let mut values: Vec<(&str, Vec<Token>)> = Vec::new();
            for (k, (parameter, default)) in formal.iter().enumerate() {
                let value = actual.get(k).map_or(default.clone(), |piece| piece.to_vec());
                values.push((parameter, substituted(&value, &values)));
            }
            body = substituted(&body, &values);
        }
        Ok(Signature { name: name.into(), parameters: parameters(&body, &broken)?, status: false })
    }
}

fn substituted(text: &[Token], values: &[(&str, Vec<Token>)]) -> Vec<Token> {
    text.iter()
        .flat_map(|token| match values.iter().find(|(name, value)| *name == token.text && !value.is_empty()) {
            Some((_, value)) => value.clone(),
            None => vec![token.clone()],
        })
        .collect()
}

/// The kind of scope that the brace after these tokens opens.
fn scope(before: &[Token]) -> Scope {
    let words: Vec<&str> = before.iter().map(|t| t.text.as_str()).collect();
    match words.as_slice() {
        [.., "extern", "\"C\""] => Scope::ExternC,
        [.., "namespace"] => Scope::Namespace(String::new()),
        _ => match words.iter().rposition(|&w| w == "namespace") {
            Some(at) if words[at + 1..].iter().all(|w| *w == "::" || is_word(w)) => {
                Scope::Namespace(words[at + 1..].concat())
            }
            _ => Scope::Other,
        },
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn qualified(scopes: &[Scope], name: &str) -> String {
    let mut out = String::new();
    for scope in scopes {
        if let Scope::Namespace(space) = scope {
            if !space.is_empty() {
                out.push_str(space);
                out.push_str("::");
            }
        }
    }
    out + name
}

fn is_extern_c(pair: &[Token]) -> bool {
    pair[0].text == "extern" && pair[1].text == "\"C\""
}

/// `__global__ extern "C" void f()` is also valid.
fn after_extern_c(tokens: &[Token], k: usize) -> bool {
    tokens.get(k + 1..k + 3).is_some_and(is_extern_c)
}

/// The parameters of `template <class T, int N = 4>`; None if the declaration does not start with that.
fn template(before: &[Token]) -> Option<Vec<(String, Vec<Token>)>> {
    if before.first()?.text != "template" || before.get(1)?.text != "<" {
        return None;
    }
    let close = closing(before, 1)?;
    let inner = &before[2..close];
    if inner.is_empty() {
        return None; // a specialisation
    }
    Some(
        split(inner)
            .into_iter()
            .map(|piece| {
                let at = piece.iter().position(|t| t.text == "=").unwrap_or(piece.len());
                let name = piece[..at].last().map_or(String::new(), |t| t.text.clone());
                (name, piece.get(at + 1..).unwrap_or_default().to_vec())
            })
            .collect(),
    )
}

/// Parses a kernel from `__global__` on. Also returns the index after its parameters, and whether it is a definition
/// that is not a template specialisation.
fn definition(tokens: &[Token], at: usize) -> Result<(Definition, usize, bool)> {
    let line = tokens[at].line;
    let broken = |what: &str| {
        Error::new(Kind::Argument, format!("the signature of the kernel in line {line} cannot be read: {what}"))
    };
    let text = |k: usize| tokens.get(k).map_or("", |t| t.text.as_str());
    let mut k = at + 1;
    let (mut name, mut special) = (None, false);
    loop {
        match text(k) {
            // a template specialisation
            "<" => {
                k = closing(tokens, k).ok_or_else(|| broken("a `<` is not closed"))?;
                special = true;
            }
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
    let (name, line) = name.filter(|(n, _)| n != "void").ok_or_else(|| broken("it has no name"))?;
    let parameters = tokens[k + 1..end].to_vec();
    let kernel = Definition { name, c_linkage: false, template: None, line, parameters };
    Ok((kernel, end + 1, text(end + 1) == "{" && !special))
}

fn parameters(inner: &[Token], broken: &dyn Fn(&str) -> Error) -> Result<Vec<Parameter>> {
    if inner.is_empty() || (inner.len() == 1 && inner[0].text == "void") {
        return Ok(Vec::new());
    }
    split(inner)
        .into_iter()
        .enumerate()
        .map(|(i, piece)| parameter(piece).map_err(|what| broken(&format!("parameter {} {what}", i + 1))))
        .collect()
}

/// The variables that a declaration such as `__constant__ float a[16], b` declares; None if it is no variable
/// declaration.
fn globals(tokens: &[Token], scopes: &[Scope]) -> Option<Vec<Global>> {
    let mut constant = false;
    let mut kept: Vec<Token> = Vec::new();
    let mut k = 0;
    while k < tokens.len() {
        match tokens[k].text.as_str() {
            "__constant__" => constant = true,
            "__device__" | "__managed__" | "static" | "extern" | "\"C\"" | "const" | "volatile" | "constexpr"
            | "inline" => {}
            // alignas(16), __align__(16), __attribute__((...))
            "alignas" | "__align__" | "__attribute__" => k = closing(tokens, k + 1)?,
            "=" => break,
            "(" | "{" | "template" | "__shared__" | "using" | "typedef" => return None,
            _ => kept.push(tokens[k].clone()),
        }
        k += 1;
    }
    let pieces = split(&kept);
    let name_of = |piece: &[Token]| {
        let at = piece.iter().position(|t| t.text == "[").unwrap_or(piece.len());
        at.checked_sub(1).map(|at| (at, piece[at].text.clone())).filter(|(_, name)| is_word(name))
    };
    let (at, _) = name_of(pieces[0])?;
    let words: Vec<&str> = pieces[0][..at].iter().map(|t| t.text.as_str()).collect();
    if words.is_empty() {
        return None;
    }
    let element = element(&words).unwrap_or_else(|| Element::Other(words.concat()));
    pieces
        .into_iter()
        .map(|piece| {
            let (_, name) = name_of(piece)?;
            Some(Global { name: qualified(scopes, &name), element: element.clone(), constant })
        })
        .collect()
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
    // Fundamental types of several words consist of a few known words: any other last word is the parameter's name.
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

/// Whether a word may be part of a fundamental type of several words; such words are never names.
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
            "cudaStream_t" | "CUstream" => Element::Stream,
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

/// A fundamental integer type such as `unsigned long long int`, whose words may be in any order.
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
