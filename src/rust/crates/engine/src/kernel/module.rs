//! A module: a source or a binary with kernels, independent of the devices on which it is loaded.

use std::any::Any;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use super::binary::{self, is_mangled, Binary, Format};
use super::parse::{self, Contents, Global};
use super::signature::{Element, Parameter, Passing, Signature};
use verdigris_ops::error::{Error, Kind, Result};

/// The description of a module by the user.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub code: Code,
    /// The name in messages: `kernel.cu`, or the file's name.
    pub label: String,
    /// NVRTC options, in nvcc's syntax.
    pub options: Vec<String>,
    /// Directories of headers.
    pub include: Vec<PathBuf>,
    /// Template instances to compile: `scale<float>`.
    pub names: Vec<String>,
    /// C declarations of a binary's kernels and host functions.
    pub signatures: Vec<String>,
    /// Compiled code to link: a name and the file's bytes.
    pub link: Vec<(String, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub enum Code {
    Source(String),
    /// The file's bytes. The path is given for a shared library whose host functions are called.
    Binary(Vec<u8>, Option<PathBuf>),
}

impl Default for Code {
    fn default() -> Code {
        Code::Source(String::new())
    }
}

/// A module. It is loaded on a device when one of its kernels is first called there.
pub struct Module {
    pub spec: Spec,
    contents: Contents,
    binary: Option<Binary>,
    declared: Vec<(Signature, bool)>,
    /// The loaded module on each device, as made by the backend.
    pub loaded: PerDevice,
}

/// A value that a backend makes once for each device.
#[derive(Default)]
pub struct PerDevice(Mutex<Vec<(u32, Arc<dyn Any + Send + Sync>)>>);

impl PerDevice {
    /// The value of a device; `make` is called if there is none yet.
    pub fn get<T: Any + Send + Sync>(&self, ordinal: u32, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let known = |list: &[(u32, Arc<dyn Any + Send + Sync>)]| {
            list.iter().find(|(of, _)| *of == ordinal).and_then(|(_, value)| value.clone().downcast().ok())
        };
        let lock = || self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(found) = known(&lock()) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        let mut list = lock();
        if let Some(found) = known(&list) {
            return Ok(found);
        }
        list.push((ordinal, made.clone()));
        Ok(made)
    }
}

/// A kernel of a module, or a host function that launches kernels.
pub struct Function {
    pub module: Arc<Module>,
    pub name: String,
    /// Whether it is a host function.
    pub host: bool,
    signature: OnceLock<Arc<Signature>>,
    /// The loaded function on each device, as made by the backend.
    pub loaded: PerDevice,
}

impl Module {
    /// Parses the declarations in the code; compiles and loads nothing.
    ///
    /// # Errors
    /// `Argument` for signatures that cannot be parsed; `Compile` for a file that is not device code.
    pub fn new(spec: Spec) -> Result<Module> {
        let (contents, binary) = match &spec.code {
            Code::Source(text) => {
                if text.contains('\0') {
                    return Err(Error::new(Kind::Argument, "a kernel's source must not contain a zero byte"));
                }
                (parse::contents(text)?, None)
            }
            Code::Binary(bytes, _) => (Contents::default(), Some(binary::read(bytes, &spec.label)?)),
        };
        let declared = spec.signatures.iter().map(|text| parse::declared(text)).collect::<Result<Vec<_>>>()?;
        let module = Module { spec, contents, binary, declared, loaded: PerDevice::default() };
        for name in &module.spec.names {
            module.instance(name)?;
        }
        Ok(module)
    }

    /// The format of a binary; None for a source.
    pub fn format(&self) -> Option<Format> {
        self.binary.as_ref().map(|b| b.format)
    }

    /// The images of a binary for the driver to load.
    pub fn images(&self) -> &[Vec<u8>] {
        self.binary.as_ref().map_or(&[], |b| &b.images)
    }

    /// The source; empty for a binary.
    pub fn source(&self) -> &str {
        match &self.spec.code {
            Code::Source(text) => text,
            Code::Binary(..) => "",
        }
    }

    /// Hashes everything that the compiled module depends on, except for headers.
    pub fn hash_into(&self, hasher: &mut DefaultHasher) {
        match &self.spec.code {
            Code::Source(text) => text.hash(hasher),
            Code::Binary(bytes, path) => (bytes, path).hash(hasher),
        }
        (&self.spec.options, &self.spec.names, &self.spec.link).hash(hasher);
    }

    /// The device variables that the source declares.
    pub fn globals(&self) -> &[Global] {
        &self.contents.globals
    }

    /// Names of kernels and host functions, as far as the code lists them. Templates appear as their instances.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let plain = self.contents.kernels.iter().filter(|k| k.template.is_none()).map(|k| &k.name);
        let given = self.declared.iter().map(|(s, _)| &s.name);
        let known = self.binary.iter().flat_map(|b| &b.kernels);
        for name in plain.chain(&self.spec.names).chain(given) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        for symbol in known {
            if !names.iter().any(|name| name == symbol || is_mangled(symbol, name)) {
                names.push(symbol.clone());
            }
        }
        names
    }

    /// The signature of a template instance, such as `scale<float>`.
    fn instance(&self, name: &str) -> Result<Signature> {
        let base = name.split('<').next().unwrap_or_default().trim();
        let found = self.contents.kernels.iter().find(|k| k.name == base).ok_or_else(|| self.unknown(name))?;
        found.signature(name)
    }

    fn unknown(&self, name: &str) -> Error {
        let list = self.names().iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
        let what = if self.binary.is_some() { self.spec.label.as_str() } else { "the source" };
        if list.is_empty() && self.binary.is_none() && !self.contents.kernels.iter().any(|k| k.template.is_some()) {
            return self.no_kernel();
        }
        let error = Error::new(Kind::Argument, format!("{what} has no kernel `{name}`"));
        let error = if list.is_empty() { error } else { error.advise(format!("It has {list}.")) };
        let template = self.contents.kernels.iter().find(|k| k.template.is_some() && name.starts_with(&k.name));
        match template {
            Some(k) => error
                .advise(format!("`{}` is a template: name its instances by `names = \"{}<...>\"`.", k.name, k.name)),
            None => error,
        }
    }

    fn no_kernel(&self) -> Error {
        Error::new(Kind::Argument, "the source defines no kernel")
            .advise("A kernel looks like `extern \"C\" __global__ void name(const float* x, float* y, int n) { ... }`.")
    }

    /// The kernel of this name; without a name, the module's only kernel.
    ///
    /// # Errors
    /// `Argument`, with the names of the module's kernels.
    pub fn function(self: &Arc<Module>, name: Option<&str>) -> Result<Function> {
        let name = match name {
            Some(name) => name.to_string(),
            None => {
                let names = self.names();
                match names.as_slice() {
                    [one] => one.clone(),
                    [] if self.binary.is_some() => {
                        return Err(Error::new(
                            Kind::Argument,
                            format!("`name` must name a kernel of {}", self.spec.label),
                        ));
                    }
                    [] => {
                        return Err(match self.contents.kernels.first() {
                            Some(template) => {
                                template.signature(&template.name).err().unwrap_or_else(|| self.no_kernel())
                            }
                            None => self.no_kernel(),
                        });
                    }
                    many => {
                        let list = many.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
                        return Err(Error::new(
                            Kind::Argument,
                            format!("there are {} kernels, and `name` does not say which: {list}", many.len()),
                        ));
                    }
                }
            }
        };
        let make = |signature: Option<Signature>, host: bool| {
            let known = OnceLock::new();
            if let Some(signature) = signature {
                let _ = known.set(Arc::new(signature));
            }
            Function { module: self.clone(), name: name.clone(), host, signature: known, loaded: PerDevice::default() }
        };
        let host = self.format() == Some(Format::Host);
        if let Some((signature, kernel)) = self.declared.iter().find(|(s, _)| s.name == name) {
            if !kernel && host && !matches!(&self.spec.code, Code::Binary(_, Some(_))) {
                return Err(Error::new(
                    Kind::Argument,
                    format!("`{name}` is a host function, but {} is not a file", self.spec.label),
                ));
            }
            return Ok(make(Some(signature.clone()), host && !kernel));
        }
        if let Some(binary) = &self.binary {
            let is = |symbol: &str| symbol == name || is_mangled(symbol, &name);
            if let Some(found) = binary.signatures.iter().find(|s| is(&s.name)) {
                return Ok(make(Some(Signature { name: name.clone(), ..found.clone() }), false));
            }
            if !binary.kernels.is_empty() && !binary.kernels.iter().any(|symbol| is(symbol)) {
                return Err(self.unknown(&name));
            }
            return Ok(make(None, false));
        }
        let plain = self.contents.kernels.iter().find(|k| k.template.is_none() && k.name == name);
        let signature = match plain {
            Some(kernel) => kernel.signature(&name)?,
            None if self.spec.names.contains(&name) => self.instance(&name)?,
            None => return Err(self.unknown(&name)),
        };
        Ok(make(Some(signature), false))
    }
}

impl Function {
    /// The signature, if the code declares it.
    pub fn known_signature(&self) -> Option<&Arc<Signature>> {
        self.signature.get()
    }

    /// The signature. If the binary does not declare it, `sizes` returns the sizes of the parameters.
    ///
    /// # Errors
    /// Those of `sizes`.
    pub fn signature(&self, sizes: impl FnOnce() -> Result<Vec<usize>>) -> Result<&Arc<Signature>> {
        if let Some(known) = self.signature.get() {
            return Ok(known);
        }
        let sizes = sizes()?;
        let parameter = |size: &usize| Parameter {
            name: String::new(),
            element: Element::Bytes(*size, false),
            passing: if *size == 8 { Passing::Either } else { Passing::Value },
        };
        let parameters = sizes.iter().map(parameter).collect();
        let signature = Signature { name: self.name.clone(), parameters, status: false };
        Ok(self.signature.get_or_init(|| Arc::new(signature)))
    }
}
