//! R's parse tree without R: the body of a function, the meaning of its names, and spans for error messages.

use std::rc::Rc;

use verdigris_ops::dtype::Kind;
use verdigris_ops::rule::Typed;

/// The number of an expression. The scope maps it to source: [`Scope::text`], [`Scope::line`].
pub type Span = u32;

#[derive(Clone, Debug)]
pub struct Expr {
    pub span: Span,
    pub form: Form,
}

#[derive(Clone, Debug)]
pub enum Form {
    Null,
    /// None is NA.
    Logical(Option<bool>),
    Integer(i32),
    Double(f64),
    Complex([f64; 2]),
    Text(String),
    /// A value of another kind; the text describes it.
    Other(String),
    Name(String),
    /// `function(x, y = 1) body`.
    Function(Rc<Lambda>),
    /// A call of a function by its name.
    Call(String, Vec<Argument>),
    /// A call of a computed function: `(function(x) x)(1)`.
    CallOf(Box<Expr>, Vec<Argument>),
}

#[derive(Clone, Debug)]
pub struct Argument {
    pub name: Option<String>,
    /// None for an empty argument: `m[i, ]`.
    pub value: Option<Expr>,
}

/// A function: its parameters with their defaults, and its body.
#[derive(Clone, Debug)]
pub struct Lambda {
    /// The scope's number for the environment of its free names. Functions nested in another's body share its scope.
    pub scope: u32,
    /// Unique for each function, to detect recursion.
    pub id: u32,
    pub name: String,
    pub parameters: Vec<(String, Option<Expr>)>,
    pub body: Expr,
}

/// The meaning of a name outside of the function.
#[derive(Clone, Debug)]
pub enum Meaning {
    /// One number of R: a parameter of the routine, whose value is looked up at each call.
    Number(Kind),
    /// A device array of one element, which keeps its dtype.
    Element(Typed),
    /// Elements that are read by subscripts.
    Table(TableType),
    /// A list, whose elements have meanings of their own.
    List,
    /// A function of base R or stats, by its name there.
    Builtin(String),
    Closure(Rc<Lambda>),
    /// Anything else; the text describes it.
    Other(String),
}

/// The type and the number of dimensions of a table, whose elements are read by subscripts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TableType {
    pub typed: Typed,
    /// The number of dimensions, 0 for a plain vector.
    pub axes: u8,
}

/// A path to a value outside of the function: a name, then the names of elements within lists.
pub type Path = Vec<String>;

/// The surroundings of the compiled functions: what their free names mean, and the source of spans.
pub trait Scope {
    /// The meaning of a path in a scope. If `function`, only functions are considered. None if there is no such object.
    fn meaning(&self, scope: u32, path: &[String], function: bool) -> Option<Meaning>;
    /// The R code of a span, on one line.
    fn text(&self, span: Span) -> String;
    fn line(&self, span: Span) -> Option<u32>;
}

/// Why a function cannot be compiled: the span, and what to write instead. Shown with R's source.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub message: String,
    pub span: Span,
    pub remedy: String,
    /// A second span to show, and its explanation.
    pub other: Option<(String, Span)>,
}

impl Refusal {
    pub fn new(span: Span, message: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal { message: message.into(), span, remedy: remedy.into(), other: None }
    }

    pub fn and(mut self, what: impl Into<String>, span: Span) -> Refusal {
        self.other = Some((what.into(), span));
        self
    }
}

pub type Compiled<T> = std::result::Result<T, Refusal>;

impl Expr {
    /// Whether the expression assigns a variable; nested functions are ignored.
    pub fn assigns(&self) -> bool {
        let mut found = false;
        self.assigned(&mut |_, _| found = true);
        found
    }

    /// Calls `visit` with each name that the expression assigns; nested functions are ignored.
    pub fn assigned(&self, visit: &mut impl FnMut(&str, Span)) {
        match &self.form {
            Form::Call(name, args) => {
                let target = args.first().and_then(|a| a.value.as_ref());
                match (name.as_str(), target) {
                    ("<-" | "=", Some(target)) | ("for", Some(target)) => {
                        if let Some(name) = target.root() {
                            visit(name, target.span);
                        }
                    }
                    _ => {}
                }
                args.iter().filter_map(|a| a.value.as_ref()).for_each(|a| a.assigned(visit));
            }
            Form::CallOf(function, args) => {
                function.assigned(visit);
                args.iter().filter_map(|a| a.value.as_ref()).for_each(|a| a.assigned(visit));
            }
            _ => {}
        }
    }

    /// The span of the first assignment to a name, as `assigned()` reports it.
    pub fn assigned_at(&self, name: &str) -> Option<Span> {
        let mut found = None;
        self.assigned(&mut |assigned, at| {
            if assigned == name {
                found = found.or(Some(at));
            }
        });
        found
    }

    /// The variable that an assignment to this expression changes: x of `x`, `x[i]`, `"x"`.
    pub fn root(&self) -> Option<&str> {
        match &self.form {
            Form::Name(name) | Form::Text(name) => Some(name),
            Form::Call(name, args) if matches!(name.as_str(), "[" | "[[" | "$") => args.first()?.value.as_ref()?.root(),
            _ => None,
        }
    }

    /// Whether the expression calls one of these functions; nested functions are ignored, and so are the bodies of
    /// loops unless `loops`.
    pub fn calls(&self, names: &[&str], loops: bool) -> bool {
        match &self.form {
            Form::Call(name, args) => {
                names.contains(&name.as_str())
                    || (loops || !matches!(name.as_str(), "for" | "while" | "repeat"))
                        && args.iter().filter_map(|a| a.value.as_ref()).any(|a| a.calls(names, loops))
            }
            Form::CallOf(function, args) => {
                function.calls(names, loops)
                    || args.iter().filter_map(|a| a.value.as_ref()).any(|a| a.calls(names, loops))
            }
            _ => false,
        }
    }
}

/// The longest text of an expression in a message, in characters.
const LONGEST: usize = 70;
/// The deepest nesting of calls in that text.
const DEEPEST_SHOWN: usize = 40;

impl std::fmt::Display for Expr {
    /// Writes R code on one line, cut to `LONGEST`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        self.write(&mut text, 0, DEEPEST_SHOWN);
        if text.chars().count() > LONGEST {
            text = text.chars().take(LONGEST - 3).chain("...".chars()).collect();
        }
        f.write_str(&text)
    }
}

/// The precedence of R's operators; 0 for other functions.
fn strength(name: &str, operands: usize) -> u8 {
    match (name, operands) {
        ("<-" | "<<-" | "=", 2) => 1,
        ("||" | "|", 2) => 2,
        ("&&" | "&", 2) => 3,
        ("!", 1) => 4,
        ("==" | "!=" | "<" | ">" | "<=" | ">=", 2) => 5,
        ("+" | "-", 2) => 6,
        ("*" | "/", 2) => 7,
        (_, 2) if name.starts_with('%') => 8,
        (":", 2) => 9,
        ("+" | "-", 1) => 10,
        ("^", 2) => 11,
        _ => 0,
    }
}

impl Expr {
    fn write(&self, out: &mut String, around: u8, deeper: usize) {
        // The text is cut to LONGEST; deeper calls would not be shown.
        if out.len() > 4 * LONGEST {
            return;
        }
        let Some(deeper) = deeper.checked_sub(1) else {
            out.push_str("...");
            return;
        };
        match &self.form {
            Form::Null => out.push_str("NULL"),
            Form::Logical(x) => out.push_str(match x {
                Some(true) => "TRUE",
                Some(false) => "FALSE",
                None => "NA",
            }),
            Form::Integer(x) => match *x {
                i32::MIN => out.push_str("NA"),
                x => out.push_str(&format!("{x}L")),
            },
            Form::Double(x) => out.push_str(&match x {
                x if x.is_nan() => "NaN".to_string(),
                x if x.is_infinite() => if *x > 0.0 { "Inf" } else { "-Inf" }.to_string(),
                x => format!("{x}"),
            }),
            Form::Complex([re, im]) => out.push_str(&format!("{re}+{im}i")),
            Form::Text(text) => out.push_str(&format!("{text:?}")),
            Form::Other(what) => out.push_str(&format!("<{what}>")),
            Form::Name(name) => {
                let plain = name.chars().all(|c| c.is_alphanumeric() || c == '.' || c == '_');
                out.push_str(&if plain { name.clone() } else { format!("`{name}`") });
            }
            Form::Function(lambda) => {
                let names: Vec<&str> = lambda.parameters.iter().map(|(n, _)| n.as_str()).collect();
                out.push_str(&format!("function({}) ", names.join(", ")));
                lambda.body.write(out, 0, deeper);
            }
            Form::CallOf(function, args) => {
                out.push('(');
                function.write(out, 0, deeper);
                out.push(')');
                list(args, out, deeper);
            }
            Form::Call(name, args) => self.write_call(name, args, out, around, deeper),
        }
    }

    fn write_call(&self, name: &str, args: &[Argument], out: &mut String, around: u8, deeper: usize) {
        let value = |k: usize| args.get(k).and_then(|a| a.value.as_ref());
        let binds = strength(name, args.len());
        match (name, value(0), value(1)) {
            _ if binds > 0 => {
                let open = binds < around;
                if open {
                    out.push('(');
                }
                if let (Some(a), Some(b)) = (value(0), value(1)) {
                    a.write(out, binds, deeper);
                    let tight = matches!(name, ":" | "^");
                    out.push_str(&if tight { name.to_string() } else { format!(" {name} ") });
                    b.write(out, binds + 1, deeper);
                } else if let Some(a) = value(0) {
                    out.push_str(name);
                    a.write(out, binds, deeper);
                }
                if open {
                    out.push(')');
                }
            }
            ("(", Some(a), _) => {
                out.push('(');
                a.write(out, 0, deeper);
                out.push(')');
            }
            ("{", ..) => {
                out.push_str("{ ");
                for (k, a) in args.iter().filter_map(|a| a.value.as_ref()).enumerate() {
                    if k > 0 {
                        out.push_str("; ");
                    }
                    a.write(out, 0, deeper);
                }
                out.push_str(" }");
            }
            ("if", Some(test), Some(then)) => {
                out.push_str("if (");
                test.write(out, 0, deeper);
                out.push_str(") ");
                then.write(out, 0, deeper);
                if let Some(otherwise) = value(2) {
                    out.push_str(" else ");
                    otherwise.write(out, 0, deeper);
                }
            }
            ("for", Some(variable), Some(over)) => {
                out.push_str("for (");
                variable.write(out, 0, deeper);
                out.push_str(" in ");
                over.write(out, 0, deeper);
                out.push_str(") ");
                if let Some(body) = value(2) {
                    body.write(out, 0, deeper);
                }
            }
            ("while", Some(test), Some(body)) => {
                out.push_str("while (");
                test.write(out, 0, deeper);
                out.push_str(") ");
                body.write(out, 0, deeper);
            }
            ("repeat", Some(body), _) => {
                out.push_str("repeat ");
                body.write(out, 0, deeper);
            }
            ("break" | "next", ..) => out.push_str(name),
            ("$", Some(a), Some(b)) => {
                a.write(out, 12, deeper);
                out.push('$');
                b.write(out, 12, deeper);
            }
            ("[" | "[[", Some(a), _) => {
                a.write(out, 12, deeper);
                let (open, close) = if name == "[" { ("[", "]") } else { ("[[", "]]") };
                out.push_str(open);
                inner(&args[1..], out, deeper);
                out.push_str(close);
            }
            _ => {
                out.push_str(name);
                list(args, out, deeper);
            }
        }
    }
}

fn list(args: &[Argument], out: &mut String, deeper: usize) {
    out.push('(');
    inner(args, out, deeper);
    out.push(')');
}

fn inner(args: &[Argument], out: &mut String, deeper: usize) {
    for (k, argument) in args.iter().enumerate() {
        if k > 0 {
            out.push_str(", ");
        }
        if let Some(name) = &argument.name {
            out.push_str(name);
            out.push_str(" = ");
        }
        if let Some(value) = &argument.value {
            value.write(out, 0, deeper);
        }
    }
}
