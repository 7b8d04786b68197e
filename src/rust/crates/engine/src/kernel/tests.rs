use super::*;
use crate::array::Host;
use crate::layout::Axis;

fn one(parameters: &str) -> Signature {
    parse(&format!("extern \"C\" __global__ void k({parameters}) {{}}")).unwrap().remove(0)
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
    let found = parse(source).unwrap();
    let names: Vec<(&str, usize)> = found.iter().map(|s| (s.name.as_str(), s.line)).collect();
    assert_eq!(names, [("first", 10), ("second", 15), ("third", 18), ("fourth", 20)]);
    assert_eq!(found[0].to_string(), "void first(const float* x, float* y, int n)");
    assert_eq!(choose(&found, Some("third")).unwrap().name, "third");
    assert!(choose(&found, None).unwrap_err().message.contains("`first`, `second`, `third`, `fourth`"));
    assert_eq!(choose(&found, Some("fifth")).unwrap_err().kind, ErrorKind::Argument);
    assert_eq!(choose(&found[..1], None).unwrap().name, "first");
}

#[test]
fn what_cannot_be_called_is_refused() {
    let message = |source: &str| parse(source).unwrap_err().message;
    assert!(message("__global__ void f(int n) {}").contains("is not `extern \"C\"`"));
    assert!(message("extern \"C\" { } __global__ void f(int n) {}").contains("is not `extern \"C\"`"));
    assert!(message("void f(int n) {}").contains("defines no kernel"));
    assert!(message("").contains("defines no kernel"));
    assert!(message("extern \"C\" __global__ void f(float** x) {}").contains("pointer to a pointer"));
    assert!(message("extern \"C\" __global__ void f(int a, float& x) {}").contains("parameter 2 is a reference"));
    assert!(message("extern \"C\" __global__ void f(int a = 1) {}").contains("default value"));
    assert!(message("extern \"C\" __global__ void f(int a").contains("not closed"));
    assert!(message("extern \"C\" __global__ void f(int a,) {}").contains("parameter 2 has no type"));
}

fn packed(c_type: &str, value: Scalar, kind: Kind) -> std::result::Result<Vec<u8>, String> {
    value::bytes(&one(c_type).parameters[0].element, value, kind)
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
        ("thing", 1.0),
        ("bool", f64::NAN),
    ] {
        assert!(double(c_type, x).is_err(), "{x} as {c_type}");
    }
    assert!(packed("int", Scalar::I32(crate::scalar::NA_I32), Kind::Integer).is_err());
    assert!(packed("float", Scalar::C128([1.0, 0.0]), Kind::Complex).is_err());
    assert!(
        packed("double", Scalar::I32(crate::scalar::NA_I32), Kind::Integer).unwrap()
            == crate::scalar::NA_F64.to_ne_bytes()
    );
}

fn doubles(x: &[f64]) -> Array {
    Array::upload(Host::Double(x), None, Device::Cpu, None).unwrap()
}

#[test]
fn calls_are_checked_before_anything_happens() {
    let signature = one("const double* x, float* y, int n");
    let number = Value::Scalar(Scalar::F64(1.0), Kind::Double);
    let call = |values: &[Value]| {
        let mut arrays = [doubles(&[1.0]), doubles(&[1.0]).cast(DType::Float32, None).unwrap()];
        call("", &signature, values, &mut arrays, 1, &Geometry::default()).unwrap_err()
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
    let address = |a: &Array| a.settle().unwrap().address();
    // alone: `x` itself is the only holder
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
    // a consumer elsewhere
    let raw = crate::interop::dlpack::export(&x, &[3], true, None).unwrap();
    assert_ne!(address(&own(&x, 1).unwrap()), address(&x));
    // SAFETY: just made.
    unsafe { raw.delete() };
    assert_eq!(address(&own(&x, 1).unwrap()), address(&x));
    // strided: brought together, by itself or, where it is shared, beside it
    let t = |x: &Array| x.view(&[3, 1], &[Axis { of: 0, start: 2, step: -1, extent: 3 }]).unwrap();
    let strided = t(&doubles(&[1.0, 2.0, 3.0]));
    assert_eq!(address(&own(&strided, 1).unwrap()), address(&strided));
    let x = doubles(&[1.0, 2.0, 3.0]);
    x.settle().unwrap().buffer.share();
    let strided = t(&x);
    let before = address(&strided);
    assert_ne!(address(&own(&strided, 1).unwrap()), before);
    assert_eq!(address(&strided), before);
}
