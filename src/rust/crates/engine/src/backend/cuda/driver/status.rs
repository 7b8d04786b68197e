//! Status codes of CUDA as integers, with the names that cudarc's enums give them.

use cudarc::driver::sys::CUresult;
use verdigris_ops::error::Kind;

/// Defines a checked conversion from a status to cudarc's enum: `Some` for the listed codes, `None` for all others. A
/// transmuted unknown code would be undefined behaviour.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident: $enum:ident { $($code:ident)* }) => {
        $(#[$doc])*
        pub(crate) fn $name(status: u32) -> Option<$enum> {
            match status {
                $(code if code == $enum::$code as u32 => Some($enum::$code),)*
                _ => None,
            }
        }
    };
}
pub(crate) use codes;

/// The status of a successful call.
pub const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;

codes! {
    /// The `CUresult` of a status, if this crate distinguishes it from other failures.
    code: CUresult {
        CUDA_ERROR_OUT_OF_MEMORY
        CUDA_ERROR_NOT_INITIALIZED
        CUDA_ERROR_DEINITIALIZED
        CUDA_ERROR_STUB_LIBRARY
        CUDA_ERROR_DEVICE_UNAVAILABLE
        CUDA_ERROR_NO_DEVICE
        CUDA_ERROR_INVALID_DEVICE
        CUDA_ERROR_DEVICE_NOT_LICENSED
        CUDA_ERROR_INVALID_IMAGE
        CUDA_ERROR_NO_BINARY_FOR_GPU
        CUDA_ERROR_ECC_UNCORRECTABLE
        CUDA_ERROR_INVALID_PTX
        CUDA_ERROR_NVLINK_UNCORRECTABLE
        CUDA_ERROR_JIT_COMPILER_NOT_FOUND
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        CUDA_ERROR_JIT_COMPILATION_DISABLED
        CUDA_ERROR_CONTAINED
        CUDA_ERROR_INVALID_SOURCE
        CUDA_ERROR_FILE_NOT_FOUND
        CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
        CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
        CUDA_ERROR_OPERATING_SYSTEM
        CUDA_ERROR_ILLEGAL_ADDRESS
        CUDA_ERROR_LAUNCH_TIMEOUT
        CUDA_ERROR_CONTEXT_IS_DESTROYED
        CUDA_ERROR_ASSERT
        CUDA_ERROR_HARDWARE_STACK_ERROR
        CUDA_ERROR_ILLEGAL_INSTRUCTION
        CUDA_ERROR_MISALIGNED_ADDRESS
        CUDA_ERROR_INVALID_ADDRESS_SPACE
        CUDA_ERROR_INVALID_PC
        CUDA_ERROR_LAUNCH_FAILED
        CUDA_ERROR_TENSOR_MEMORY_LEAK
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
        CUDA_ERROR_SYSTEM_NOT_READY
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
        CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    }
}

/// Whether the status leaves the context unusable: ECC and NVLink failures, faults of kernels, a destroyed context.
pub fn is_sticky(status: u32) -> bool {
    matches!(
        code(status),
        Some(
            CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
                | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
                | CUresult::CUDA_ERROR_CONTAINED
                | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
                | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
                | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
                | CUresult::CUDA_ERROR_ASSERT
                | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
                | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
                | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | CUresult::CUDA_ERROR_INVALID_PC
                | CUresult::CUDA_ERROR_LAUNCH_FAILED
                | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
        )
    )
}

/// The error kind of a driver status.
pub(super) fn kind(status: u32) -> Kind {
    match code(status) {
        Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => Kind::Memory,
        Some(
            CUresult::CUDA_ERROR_NOT_INITIALIZED
            | CUresult::CUDA_ERROR_DEINITIALIZED
            | CUresult::CUDA_ERROR_STUB_LIBRARY
            | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUresult::CUDA_ERROR_NO_DEVICE
            | CUresult::CUDA_ERROR_INVALID_DEVICE
            | CUresult::CUDA_ERROR_DEVICE_NOT_LICENSED
            | CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
            | CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
        ) => Kind::Device,
        Some(
            CUresult::CUDA_ERROR_INVALID_IMAGE
            | CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
            | CUresult::CUDA_ERROR_INVALID_PTX
            | CUresult::CUDA_ERROR_JIT_COMPILER_NOT_FOUND
            | CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION
            | CUresult::CUDA_ERROR_JIT_COMPILATION_DISABLED,
        ) => Kind::Compile,
        Some(
            CUresult::CUDA_ERROR_INVALID_SOURCE
            | CUresult::CUDA_ERROR_FILE_NOT_FOUND
            | CUresult::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND
            | CUresult::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED
            | CUresult::CUDA_ERROR_OPERATING_SYSTEM,
        ) => Kind::Library,
        Some(
            CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION
            | CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        ) => Kind::Capture,
        _ => Kind::Launch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_mean_what_they_did_as_numbers() {
        for status in 0..2000 {
            let sticky = matches!(status, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721);
            assert_eq!(is_sticky(status), sticky, "{status}");
            let expected = match status {
                2 => Kind::Memory,
                3 | 4 | 34 | 46 | 100..=102 | 803 | 804 => Kind::Device,
                200 | 209 | 218 | 221..=223 => Kind::Compile,
                300..=304 => Kind::Library,
                900 | 901 | 905 | 906 => Kind::Capture,
                _ => Kind::Launch,
            };
            assert_eq!(kind(status), expected, "{status}");
            assert!(code(status).is_none_or(|known| known as u32 == status));
        }
        assert_eq!(code(u32::MAX), None);
    }
}
