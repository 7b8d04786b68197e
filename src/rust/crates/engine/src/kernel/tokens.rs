//! A lexer for CUDA C, used by `parse`.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    /// From 1.
    pub line: usize,
}

/// The words, numbers, strings and punctuation of a source, without comments and preprocessor directives.
pub fn tokens(source: &str) -> Vec<Token> {
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
            // up to the end of the line; a backslash at its end continues it
            while k < chars.len() && chars[k] != '\n' {
                if starts(k, "/*") {
                    break; // a comment may start in a directive and continue after it
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

/// The index of the token that closes the bracket at `open`.
pub fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let opener = tokens[open].text.as_str();
    let closer = match opener {
        "(" => ")",
        "[" => "]",
        "<" => ">",
        _ => "}",
    };
    let mut depth = 0;
    for (k, token) in tokens.iter().enumerate().skip(open) {
        if token.text == opener {
            depth += 1;
        } else if token.text == closer {
            depth -= 1;
            if depth == 0 {
                return Some(k);
            }
        }
    }
    None
}

/// Splits at commas outside brackets.
pub fn split(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut depth, mut from) = (0, 0);
    let mut pieces = Vec::new();
    for (k, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "(" | "[" | "<" | "{" => depth += 1,
            ")" | "]" | ">" | "}" => depth -= 1,
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
