//! A strict JSON reader and writer (RFC 8259), as far as file headers need it.
//!
//! Files may come from untrusted sources. Reading is bounded by the text's length and a nesting depth. A duplicate name
//! in an object is an error, since readers differ in which value they use.

use std::fmt::Write;

/// The greatest nesting depth of objects and arrays.
const DEEPEST: usize = 32;
/// The error if memory does not suffice for the values.
pub const NO_MEMORY: &str = "there is no memory for its values";

#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    /// A number written with digits only, and below 2^64.
    Integer(u64),
    Number(f64),
    String(String),
    Array(Vec<Json>),
    /// Members in the order of the text.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses a text that holds one value, and white space around it. An error says what is wrong, and at which byte.
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.wrong("expected the end"));
        }
        Ok(value)
    }

    /// The member of this name; None if there is none or the value is not an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.object()?.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    pub fn object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    pub fn array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(elements) => Some(elements),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn integer(&self) -> Option<u64> {
        match self {
            Json::Integer(n) => Some(*n),
            _ => None,
        }
    }

    /// Appends the value's text. A number that is not finite, which JSON cannot represent, becomes null.
    pub fn write(&self, out: &mut String) {
        let mut list = |open: char, close: char, n: usize, each: &mut dyn FnMut(&mut String, usize)| {
            out.push(open);
            for k in 0..n {
                if k > 0 {
                    out.push(',');
                }
                each(out, k);
            }
            out.push(close);
        };
        match self {
            Json::Array(elements) => list('[', ']', elements.len(), &mut |out, k| elements[k].write(out)),
            Json::Object(members) => list('{', '}', members.len(), &mut |out, k| {
                quote(&members[k].0, out);
                out.push(':');
                members[k].1.write(out);
            }),
            Json::String(text) => quote(text, out),
            Json::Integer(n) => write!(out, "{n}").expect("a string takes it"),
            // Rust prints the fewest digits that are read as the same number.
            Json::Number(x) if x.is_finite() => write!(out, "{x:?}").expect("a string takes it"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Null | Json::Number(_) => out.push_str("null"),
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).expect("a string takes it"),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Reserves space for one more element.
fn grow<T>(list: &mut Vec<T>) -> Result<(), String> {
    list.try_reserve(1).map_err(|_| NO_MEMORY.into())
}

fn copied(text: &str) -> Result<String, String> {
    let mut out = String::new();
    out.try_reserve_exact(text.len()).map_err(|_| NO_MEMORY)?;
    out.push_str(text);
    Ok(out)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips white space and then the character `c`, if it is next; returns whether it was.
    fn next_is(&mut self, c: u8) -> bool {
        self.space();
        let found = self.peek() == Some(c);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: u8) -> Result<(), String> {
        if self.next_is(c) {
            return Ok(());
        }
        Err(self.wrong(&format!("expected '{}'", c as char)))
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEEPEST {
            return Err(self.wrong("objects and arrays are nested too deeply"));
        }
        self.space();
        let rest = &self.text[self.at..];
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        match self.peek() {
            Some(b'{') => self.members(depth),
            Some(b'[') => {
                self.at += 1;
                let mut elements = Vec::new();
                if self.next_is(b']') {
                    return Ok(Json::Array(elements));
                }
                loop {
                    grow(&mut elements)?;
                    elements.push(self.value(depth + 1)?);
                    if self.next_is(b']') {
                        return Ok(Json::Array(elements));
                    }
                    self.expect(b',')?;
                }
            }
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.wrong("expected a value")),
        }
    }

    fn members(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = Vec::new();
        let mut names = std::collections::HashSet::new();
        if self.next_is(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let name = self.string()?;
            names.try_reserve(1).map_err(|_| NO_MEMORY)?;
            grow(&mut members)?;
            if !names.insert(copied(&name)?) {
                return Err(self.wrong(&format!("the name \"{name}\" stands twice")));
            }
            self.expect(b':')?;
            members.push((name, self.value(depth + 1)?));
            if self.next_is(b'}') {
                return Ok(Json::Object(members));
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("expected a string"));
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            // Up to 4 more bytes for an escaped character.
            out.try_reserve(plain + 4).map_err(|_| NO_MEMORY)?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escaped()?),
                _ => return Err(self.wrong("a string does not end")),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let letter = self.text.as_bytes().get(self.at + 1).copied();
        self.at += 2;
        Ok(match letter {
            Some(c @ (b'"' | b'\\' | b'/')) => c as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut code = self.hex()?;
                if (0xD800..0xDC00).contains(&code) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    if (0xDC00..0xE000).contains(&low) {
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    }
                }
                // R's strings cannot hold NUL
                char::from_u32(code).filter(|&c| c != '\0').ok_or_else(|| self.wrong("no character"))?
            }
            _ => {
                self.at = self.at.min(self.text.len());
                return Err(self.wrong("an unknown escape"));
            }
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        let code = code.ok_or_else(|| self.wrong("expected four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while matches!(reader.peek(), Some(b'0'..=b'9')) {
                reader.at += 1;
            }
            reader.at - from
        };
        let sign = self.peek() == Some(b'-');
        self.at += usize::from(sign);
        let zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || zero && whole > 1 {
            return Err(self.wrong("expected a number"));
        }
        let mut plain = !sign;
        if self.peek() == Some(b'.') {
            plain = false;
            self.at += 1;
            if digits(self) == 0 {
                return Err(self.wrong("expected digits"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            plain = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if digits(self) == 0 {
                return Err(self.wrong("expected digits"));
            }
        }
        let text = &self.text[start..self.at];
        match text.parse::<u64>() {
            Ok(n) if plain => Ok(Json::Integer(n)),
            _ => text.parse().map(Json::Number).map_err(|_| self.wrong("expected a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &Json) -> String {
        let mut out = String::new();
        value.write(&mut out);
        out
    }

    #[test]
    fn what_is_read_is_written_again() {
        for text in [
            r#"{"a":[1,2.5,-3.0,1e300,18446744073709551615],"b":{"":null,"c":[true,false,[]]},"d":{}}"#,
            r#"["\"\\\u0001","é😀"]"#,
        ] {
            assert_eq!(written(&Json::parse(text).unwrap()), text);
        }
        let escapes = Json::parse(r#" [ "\u0041\ud83d\ude00\/\b\f\n\r\t" , -0 , 1E+2 ] "#).unwrap();
        assert_eq!(
            escapes,
            Json::Array(vec![Json::String("A😀/\u{8}\u{c}\n\r\t".into()), Json::Number(-0.0), Json::Number(100.0)])
        );
        assert_eq!(written(&Json::Number(f64::NAN)), "null");
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1,\"a\":2}",
            "01",
            "-",
            "1.",
            "1e",
            ".5",
            "+1",
            "\"",
            "\"\\",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\u0000\"",
            "\"\\x\"",
            "\"\n\"",
            "nul",
            "truee",
            "[1] 2",
            "'a'",
            "\"\\u+123\"",
        ] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
        assert!(Json::parse(&"[".repeat(100_000)).is_err());
    }
}
