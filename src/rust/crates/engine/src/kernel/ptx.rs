//! Parses kernel declarations in PTX. See the PTX ISA, "Kernel Function Parameters".

use super::signature::{Element, Parameter, Passing};

/// The text without comments.
fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        out.push_str(&rest[..at]);
        let after = &rest[at..];
        rest = if after.starts_with("//") {
            &after[after.find('\n').unwrap_or(after.len())..]
        } else if let Some(inside) = after.strip_prefix("/*") {
            out.push(' ');
            inside.find("*/").map_or("", |end| &inside[end + 2..])
        } else {
            out.push('/');
            &after[1..]
        };
    }
    out.push_str(rest);
    out
}

/// Whether a text is PTX: it starts with the directive `.version`, after comments.
pub fn is_ptx(text: &str) -> bool {
    bare(text).trim_start().starts_with(".version")
}

/// The names of all kernels, and their parameters with types as far as PTX has them; None if they cannot be parsed.
pub fn entries(text: &str) -> Vec<(String, Option<Vec<Parameter>>)> {
    let text = bare(text);
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find(".entry") {
        rest = &rest[at + 6..];
        if !rest.starts_with(char::is_whitespace) {
            continue;
        }
        let body = rest.trim_start();
        let end = body.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '%'))).unwrap_or(body.len());
        let (name, after) = body.split_at(end);
        let parameters = match after.trim_start().strip_prefix('(') {
            None => Some(Vec::new()),
            Some(list) => list.split_once(')').and_then(|(inner, _)| {
                inner.split(',').filter(|p| !p.trim().is_empty()).map(parameter).collect::<Option<Vec<_>>>()
            }),
        };
        if !name.is_empty() {
            found.push((name.into(), parameters));
        }
    }
    found
}

/// `.param .u64 .ptr .global .align 4 name`, `.param .f32 name`, `.param .align 8 .b8 name[24]`
fn parameter(text: &str) -> Option<Parameter> {
    let mut words = text.split_whitespace();
    if words.next()? != ".param" {
        return None;
    }
    let (mut kind, mut pointer, mut count) = (None, false, None);
    while let Some(word) = words.next() {
        match word {
            ".align" => {
                words.next()?;
            }
            ".ptr" => pointer = true,
            ".global" | ".const" | ".shared" | ".local" | ".generic" => {}
            word if word.starts_with('.') => kind = Some(word),
            name => {
                if let Some((_, n)) = name.split_once('[') {
                    count = Some(n.trim_end_matches(']').parse::<usize>().ok()?);
                }
            }
        }
    }
    let kind = kind?;
    let bytes = kind.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().ok()? / 8;
    let (element, passing) = match (kind, count) {
        (_, Some(count)) => (Element::Bytes(bytes * count, false), Passing::Value),
        (".f32", _) => (Element::Float, Passing::Value),
        (".f64", _) => (Element::Double, Passing::Value),
        _ if pointer => (Element::Void, Passing::Write),
        _ if bytes == 8 => (Element::Bytes(8, false), Passing::Either),
        _ => (Element::Bytes(bytes, kind.starts_with(".u") || kind.starts_with(".s")), Passing::Value),
    };
    Some(Parameter { name: String::new(), element, passing })
}

#[cfg(test)]
mod tests {
    use super::super::signature::Signature;
    use super::*;

    #[test]
    fn kernels_and_their_parameters() {
        let text = "//\n// made by .entry f(\n.version 8.0\n.target sm_75\n.visible .entry axpy(\n\t.param .u64 axpy_param_0,\n\t\
                    .param .u64 .ptr .global .align 4 axpy_param_1,\n\t.param .f32 a,\n\t.param .u32 n\n)\n{ ret; }\n\
                    .weak .entry _Z1g1S(.param .align 4 .b8 s[24], .param .f64 d, .param .b32 u)\n\
                    .entry odd(.reg .u64 a)\n{ ret; }\n.entry none\n{ /* .entry x */ }";
        assert!(is_ptx(text) && !is_ptx("int x; // .version"));
        let found = entries(text);
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["axpy", "_Z1g1S", "odd", "none"]);
        let known = found.into_iter().filter_map(|(name, p)| Some(Signature { name, parameters: p?, status: false }));
        let shown: Vec<String> = known.map(|s| s.to_string()).collect();
        assert_eq!(
            shown,
            [
                "void axpy(address or 8 bytes, void*, float, 32-bit integer)",
                "void _Z1g1S(24 bytes, double, 4 bytes)",
                "void none()"
            ]
        );
    }
}
