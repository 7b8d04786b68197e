use std::sync::Arc;

use super::*;
use crate::array::kernel_call::{call, own, Value};
use crate::array::transfer::Host;
use crate::array::Array;
use crate::memory::buffer::Device;
use verdigris_ops::dtype::{DType, Kind};
use verdigris_ops::error::{Kind as ErrorKind, Result};
use verdigris_ops::layout::Axis;
use verdigris_ops::scalar::Scalar;

fn module(source: &str, names: &[&str]) -> Result<Arc<Module>> {
    let names = names.iter().map(|&n| n.into()).collect();
    Module::new(Spec { code: Code::Source(source.into()), label: "kernel.cu".into(), names, ..Spec::default() })
        .map(Arc::new)
}

fn function(source: &str, name: Option<&str>) -> Result<Function> {
    module(source, &[])?.function(name)
}

fn one(parameters: &str) -> Signature {
    let function = function(&format!("extern \"C\" __global__ void k({parameters}) {{}}"), None).unwrap();
    function.known_signature().unwrap().as_ref().clone()
}

fn shown(parameters: &str) -> String {
    one(parameters).parameters.iter().map(Parameter::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn parameters_of_every_kind() {
    assert_eq!(
        shown("const float* x, float* __restrict__ y, float a, int n"),
        "const float* x, float* y, float a, int n"
    );
    assert_eq!(shown("float const * const __restrict__ x"), "const float* x");
    assert_eq!(shown("double y[], const int idx[16]"), "double* y, const int* idx");
    assert_eq!(
        shown("unsigned, unsigned long long n, long long int m, unsigned char c"),
        "unsigned int, unsigned long long n, long long m, unsigned char c"
    );
    assert_eq!(
        shown("size_t n, std::int32_t m, uint8_t* p, bool b"),
        "unsigned long long n, int m, unsigned char* p, bool b"
    );
    assert_eq!(
        shown("cuda::std::complex<float>* z, const double2* w, cuDoubleComplex c"),
        "float2* z, const double2* w, double2 c"
    );
    assert_eq!(shown("const my_struct s, my_struct *p, void* q"), "my_struct s, my_struct* p, void* q");
    assert_eq!(shown("float*, int"), "float*, int");
    assert_eq!(shown("const __half *x, __nv_bfloat16* y"), "const __half* x, __nv_bfloat16* y");
    assert_eq!(shown("const __grid_constant__ int n"), "int n");
    assert_eq!((shown(""), shown("void")), (String::new(), String::new()));
}

#[test]
fn kernels_among_other_code() {
    let source = r#"
#include <thing.h>
#define KERNEL extern "C" __global__ \
  void fake(int a) {
// extern "C" __global__ void commented(int a) {}
/* __global__ void also(
   int b) {} */
const char* text = "__global__ void quoted(int a) {";
__device__ float twice(float x) { return 1'000 > 1 ? 2 * x : '"'; }
extern "C" __global__ void __launch_bounds__(256, 2) first(const float* x, // in
    float* y /* out */, int n) { if (n) { y[0] = twice(x[0]); } }
extern "C" __global__ void first(const float*, float*, int);
extern "C" {
  namespace a { }
  __global__ void second(double a) {}
  __device__ int helper() { return 1; }
  __global__
  void third() {}
}
__global__ extern "C" void fourth(int n) {}
extern "C" __global__ void declared(int n);
"#;
    let found = parse::contents(source).unwrap().kernels;
    let names: Vec<(&str, usize, bool)> = found.iter().map(|k| (k.name.as_str(), k.line, k.c_linkage)).collect();
    assert_eq!(names, [("first", 10, true), ("second", 15, true), ("third", 18, true), ("fourth", 20, true)]);
    let module = module(source, &[]).unwrap();
    let shown = |name: &str| module.function(Some(name)).map(|f| f.known_signature().unwrap().to_string());
    assert_eq!(shown("first").unwrap(), "void first(const float* x, float* y, int n)");
    assert_eq!(shown("third").unwrap(), "void third()");
    let error = module.function(None).err().unwrap();
    assert!(error.message.contains("`first`, `second`, `third`, `fourth`"), "{error}");
    assert_eq!(shown("fifth").unwrap_err().kind, ErrorKind::Argument);
}

#[test]
fn templates_namespaces_and_variables() {
    let source = r#"
namespace a { namespace b {
  template <class T, int N = 4, typename U = T> __global__ void scale(const T* x, U* y, T by, int n) {}
  __device__ float table[8], more;
} __global__ void plain(int n) {} }
namespace { __constant__ int hidden; }
__device__ __constant__ const double c[2][3] = {{1, 2, 3}, {4, 5, 6}};
static __device__ unsigned long long count = 0;
__device__ float f(float x) { __device__ int not_this; return x; }
__device__ struct P { int a; } p;
template <class T> __device__ T g(T x) { return x; }
template <> __global__ void special<int>(int* x) {}
"#;
    let module = module(source, &["a::b::scale<float>", "a::b::scale<__half, 2, float>"]).unwrap();
    assert_eq!(module.names(), ["a::plain", "a::b::scale<float>", "a::b::scale<__half, 2, float>"]);
    let shown = |name: &str| module.function(Some(name)).map(|f| f.known_signature().unwrap().to_string());
    assert_eq!(
        shown("a::b::scale<float>").unwrap(),
        "void a::b::scale<float>(const float* x, float* y, float by, int n)"
    );
    assert_eq!(
        shown("a::b::scale<__half, 2, float>").unwrap(),
        "void a::b::scale<__half, 2, float>(const __half* x, float* y, __half by, int n)"
    );
    let error = shown("a::b::scale<double>").unwrap_err();
    assert!(error.advice.iter().any(|a| a.contains("is a template")), "{error}");
    let globals: Vec<(&str, String, bool)> =
        module.globals().iter().map(|g| (g.name.as_str(), g.element.to_string(), g.constant)).collect();
    assert_eq!(
        globals,
        [
            ("a::b::table", "float".to_string(), false),
            ("a::b::more", "float".into(), false),
            ("hidden", "int".into(), true),
            ("c", "double".into(), true),
            ("count", "unsigned long long".into(), false)
        ]
    );
    assert!(super::tests::module(source, &["nothing<float>"]).is_err());
}

#[test]
fn signatures_that_are_written_down() {
    let shown = |text: &str| parse::declared(text).map(|(s, kernel)| (s.to_string(), kernel));
    assert_eq!(
        shown("extern \"C\" __global__ void f(const float* x, int n);").unwrap(),
        ("void f(const float* x, int n)".into(), true)
    );
    assert_eq!(
        shown("cudaError_t go(float *x, size_t n, cudaStream_t s)").unwrap(),
        ("int go(float* x, unsigned long long n, cudaStream_t s)".into(), false)
    );
    for wrong in [
        "",
        "f",
        "void f(int",
        "float f(int n)",
        "__global__ int f(int n)",
        "void f(int n) {}",
        "void (int n)",
        "__global__ void f(cudaStream_t s)",
    ] {
        assert_eq!(shown(wrong).unwrap_err().kind, ErrorKind::Argument, "{wrong}");
    }
}

#[test]
fn what_binaries_do_not_say_is_not_guessed() {
    let ptx = ".version 8.0\n.visible .entry _Z1fPfi(.param .u64 a, .param .u32 b, .param .b32 c, .param .f32 d, .param .align 4 .b8 e[12])\n{}";
    let module = |signatures: &[&str]| {
        let code = Code::Binary(ptx.into(), None);
        let signatures = signatures.iter().map(|&s| s.into()).collect();
        Arc::new(Module::new(Spec { code, label: "x.ptx".into(), signatures, ..Spec::default() }).unwrap())
    };
    let signature = module(&[]).function(Some("f")).unwrap().known_signature().unwrap().clone();
    let bytes =
        |k: usize, value, kind| value::bytes(&signature.parameters[k].element, value, kind).map(|bytes| bytes.to_vec());
    assert!(bytes(1, Scalar::F64(3.0), Kind::Double).is_ok() && bytes(1, Scalar::F64(3.5), Kind::Double).is_err());
    assert!(bytes(2, Scalar::F64(3.0), Kind::Double).is_err() && bytes(2, Scalar::I32(3), Kind::Integer).is_ok());
    assert_eq!(bytes(3, Scalar::F64(0.5), Kind::Double).unwrap(), 0.5f32.to_ne_bytes());
    assert!(bytes(4, Scalar::I32(3), Kind::Integer).is_err());
    assert!(signature.parameters[0].writes());
    let declared = module(&["__global__ void f(const float* x, int n, float a, float b, thing t)"]);
    assert_eq!(declared.names(), ["f"]);
    assert_eq!(declared.function(None).unwrap().known_signature().unwrap().parameters[0].passing, Passing::Read);
    assert!(module(&[]).function(Some("g")).is_err());
}

#[test]
fn what_cannot_be_called_is_refused() {
    let message = |source: &str| function(source, None).err().unwrap().message;
    assert!(message("template <class T> __global__ void f(T* x) {}").contains("is a template"));
    assert!(message("__global__ void f(std::vector<int>& x) {}").contains("is a reference"));
    assert!(message("void f(int n) {}").contains("defines no kernel"));
    assert!(message("").contains("defines no kernel"));
    assert!(message("extern \"C\" __global__ void f(float** x) {}").contains("pointer to a pointer"));
    assert!(message("extern \"C\" __global__ void f(int a, float& x) {}").contains("parameter 2 is a reference"));
    assert!(message("extern \"C\" __global__ void f(int a = 1) {}").contains("default value"));
    assert!(message("extern \"C\" __global__ void f(int a").contains("not closed"));
    assert!(message("extern \"C\" __global__ void f(int a,) {}").contains("parameter 2 has no type"));
}

fn packed(c_type: &str, value: Scalar, kind: Kind) -> std::result::Result<Vec<u8>, String> {
    value::bytes(&one(c_type).parameters[0].element, value, kind).map(|bytes| bytes.to_vec())
}

#[test]
fn numbers_take_the_parameters_type() {
    let double = |c_type: &str, x: f64| packed(c_type, Scalar::F64(x), Kind::Double);
    assert_eq!(double("int", -3.0).unwrap(), (-3i32).to_le_bytes());
    assert_eq!(double("unsigned char", 255.0).unwrap(), [255]);
    assert_eq!(double("size_t", 1e15).unwrap(), 1_000_000_000_000_000u64.to_le_bytes());
    assert_eq!(double("float", 0.1).unwrap(), 0.1f32.to_ne_bytes());
    assert_eq!(double("double", f64::NAN).unwrap().len(), 8);
    assert_eq!(double("__half", 1.0).unwrap(), [0, 0x3c]);
    assert_eq!(double("bool", 2.0).unwrap(), [1]);
    assert_eq!(packed("double2", Scalar::C128([1.0, 2.0]), Kind::Complex).unwrap().len(), 16);
    assert_eq!(packed("float2", Scalar::F64(1.0), Kind::Double).unwrap().len(), 8);
    assert_eq!(packed("long long", Scalar::I64(1 << 60), Kind::Integer64).unwrap(), (1i64 << 60).to_le_bytes());
    for (c_type, x) in [
        ("int", 2.5),
        ("int", 2_147_483_648.0),
        ("unsigned", -1.0),
        ("int", f64::NAN),
        ("float", 1e300),
        ("__half", 1e6),
        ("__nv_bfloat16", 1e39),
        ("thing", 1.0),
        ("bool", f64::NAN),
    ] {
        assert!(double(c_type, x).is_err(), "{x} as {c_type}");
    }
    assert!(packed("int", Scalar::I32(verdigris_ops::scalar::NA_I32), Kind::Integer).is_err());
    assert!(packed("float", Scalar::C128([1.0, 0.0]), Kind::Complex).is_err());
    assert!(
        packed("double", Scalar::I32(verdigris_ops::scalar::NA_I32), Kind::Integer).unwrap()
            == verdigris_ops::scalar::NA_F64.to_ne_bytes()
    );
}

fn doubles(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), None, Device::Cpu, None).unwrap()
}

#[test]
fn calls_are_checked_before_anything_happens() {
    let function = function("__global__ void k(const double* x, float* y, int n) {}", None).unwrap();
    let number = Value::Scalar(Scalar::F64(1.0), Kind::Double);
    let call = |values: &[Value<'_>]| {
        let mut arrays = [doubles(&[1.0]), doubles(&[1.0]).cast(DType::Float32, None).unwrap()];
        call(&function, values, &mut arrays, 1, &Geometry::default(), Device::Cuda(0)).unwrap_err()
    };
    assert!(call(&[number]).message.contains("takes 3 arguments, not 1"));
    let error = call(&[Value::Array(0), Value::Array(0), number]);
    assert_eq!(error.kind, ErrorKind::DType);
    assert_eq!(error.message, "argument `y` of kernel `k` is `float*`: it takes float32 arrays, not float64");
    assert_eq!(error.advice, ["Cast it with `gpu_cast(y, \"float32\")`."]);
    assert!(call(&[number, Value::Array(1), number]).message.contains("takes an array"));
    assert!(call(&[Value::Array(0), Value::Array(1), Value::Array(0)]).message.contains("takes one number"));
    assert!(call(&[Value::Array(0), Value::Array(1), Value::Null]).message.contains("pointer only"));
    let error = call(&[Value::Array(0), Value::Array(1), number]);
    assert_eq!(error.kind, ErrorKind::Device);
    assert!(error.advice[0].contains("as_gpu(x, device = \"cuda\")"));
}

#[test]
fn who_shares_memory_keeps_it() {
    let x = doubles(&[1.0, 2.0, 3.0]);
    let address = |a: &Array| a.evaluate().unwrap().address();
    let own = |a: &Array, holders| {
        own(a, a.contiguous().unwrap(), holders, false).map(|(_, copy)| copy.unwrap_or_else(|| a.clone()))
    };
    // only `x` refers to the node
    assert_eq!(address(&own(&x, 1).unwrap()), address(&x));
    // a recorded operation that reads it
    let pending = x.cast(DType::Float32, None).unwrap();
    let copy = own(&x, 1).unwrap();
    assert_ne!(address(&copy), address(&x));
    drop(pending);
    // a view of it
    let view = x.view(&[3], &[Axis { of: 0, start: 0, step: 1, extent: 2 }]).unwrap();
    assert_ne!(address(&own(&x, 1).unwrap()), address(&x));
    assert_ne!(address(&own(&view, 1).unwrap()), address(&view));
    drop(view);
    // a DLPack consumer
    let raw = crate::interop::dlpack::export(&x, &[3], true, None).unwrap();
    assert_ne!(address(&own(&x, 1).unwrap()), address(&x));
    // SAFETY: it was just made, and nothing uses it.
    unsafe { raw.delete() };
    assert_eq!(address(&own(&x, 1).unwrap()), address(&x));
    // strided: made contiguous in the node itself or, if the memory is shared, as a copy
    let t = |x: &Array| x.view(&[3, 1], &[Axis { of: 0, start: 2, step: -1, extent: 3 }]).unwrap();
    let strided = t(&doubles(&[1.0, 2.0, 3.0]));
    assert_eq!(address(&own(&strided, 1).unwrap()), address(&strided));
    let x = doubles(&[1.0, 2.0, 3.0]);
    x.evaluate().unwrap().buffer.share();
    let strided = t(&x);
    let before = address(&strided);
    assert_ne!(address(&own(&strided, 1).unwrap()), before);
    assert_eq!(address(&strided), before);
}
