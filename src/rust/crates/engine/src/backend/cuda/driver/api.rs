//! The functions of the CUDA driver and of NVRTC.
//!
//! Types, layouts and constants are cudarc's. Its functions are not used: they return Rust enums, for which an unknown
//! code would be undefined behaviour, and they panic if a library is missing. For the same reason enums are only passed
//! to functions, never returned or written by them. The libraries stay loaded until the process ends.

use std::ffi::{c_char, c_void, CStr};
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use cudarc::driver::sys;
pub use cudarc::driver::sys::{
    CUdevice, CUdevice_attribute, CUdeviceptr, CUevent_flags, CUfunction_attribute, CUipcMemHandle, CUjitInputType,
    CUjit_option, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue_union__bindgen_ty_1, CUlaunchConfig,
    CUmemAccessDesc, CUmemPoolProps, CUmemPool_attribute, CUmemorytype, CUpointer_attribute, CUresult,
    CUstreamCaptureMode, CUstream_flags, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE,
    CU_MEMHOSTREGISTER_PORTABLE,
};
pub use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};

use super::functions::functions;
use super::library;
use super::status::kind;
pub use super::status::SUCCESS;
pub(crate) use super::status::{code, is_sticky};
use verdigris_ops::error::{Error, Kind, Result};

/// An opaque handle of the driver, such as a `CUstream`, which threads may share.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Shared<T>(*mut T);

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

// SAFETY: nothing is read through the pointer but by the driver, which takes its handles on any thread.
unsafe impl<T: Opaque> Send for Shared<T> {}
// SAFETY: as above; the driver locks for itself.
unsafe impl<T: Opaque> Sync for Shared<T> {}

/// Types that only the driver accesses.
pub trait Opaque {}
macro_rules! opaque { ($($t:ident)*) => { $(impl Opaque for sys::$t {})* } }
opaque!(CUctx_st CUstream_st CUevent_st CUmemPoolHandle_st CUmod_st CUfunc_st CUgraph_st CUgraphExec_st CUgraphNode_st);

impl<T> Shared<T> {
    pub const NULL: Shared<T> = Shared(std::ptr::null_mut());

    /// A handle from its numeric value: another library's handle, or a constant such as `CU_STREAM_LEGACY`.
    pub const fn from_number(number: usize) -> Shared<T> {
        Shared(std::ptr::without_provenance_mut(number))
    }

    /// The pointer, to store in one of the driver's structs.
    pub fn as_raw(self) -> *mut T {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn number(self) -> usize {
        self.0.addr()
    }
}

/// `CUcontext`.
pub type Context = Shared<sys::CUctx_st>;
/// `CUstream`.
pub type Stream = Shared<sys::CUstream_st>;
/// `CUevent`.
pub type Event = Shared<sys::CUevent_st>;
/// `CUmemoryPool`.
pub type MemoryPool = Shared<sys::CUmemPoolHandle_st>;
/// `CUmodule`.
pub type Module = Shared<sys::CUmod_st>;
/// `CUgraph`.
pub type Graph = Shared<sys::CUgraph_st>;
/// `CUgraphExec`.
pub type GraphExec = Shared<sys::CUgraphExec_st>;
/// `CUgraphNode`.
pub type GraphNode = Shared<sys::CUgraphNode_st>;
/// The parameters of a kernel node in a graph.
pub type KernelNode = sys::CUDA_KERNEL_NODE_PARAMS_v2_st;
/// `CUlinkState`, used only by the thread that created it.
pub type LinkState = sys::CUlinkState;
/// `CUfunction`.
pub type Function = Shared<sys::CUfunc_st>;

functions! {
    /// `libcuda`.
    Driver of sys {
        error_name = cuGetErrorName(u32, *mut *const c_char);
        error_string = cuGetErrorString(u32, *mut *const c_char);
        init = cuInit(u32);
        driver_version = cuDriverGetVersion(*mut i32);
        device_count = cuDeviceGetCount(*mut i32);
        device_get = cuDeviceGet(*mut CUdevice, i32);
        device_name = cuDeviceGetName(*mut c_char, i32, CUdevice);
        device_memory = cuDeviceTotalMem_v2(*mut usize, CUdevice);
        device_attribute = cuDeviceGetAttribute(*mut i32, CUdevice_attribute, CUdevice);
        context_retain = cuDevicePrimaryCtxRetain(*mut Context, CUdevice);
        context_get = cuCtxGetCurrent(*mut Context);
        context_set = cuCtxSetCurrent(Context);
        stream_create = cuStreamCreateWithPriority(*mut Stream, u32, i32);
        stream_priorities = cuCtxGetStreamPriorityRange(*mut i32, *mut i32);
        capture_begin = cuStreamBeginCapture_v2(Stream, CUstreamCaptureMode);
        capture_end = cuStreamEndCapture(Stream, *mut Graph);
        graph_create = cuGraphCreate(*mut Graph, u32);
        graph_add_kernel = cuGraphAddKernelNode_v2(*mut GraphNode, Graph, *const GraphNode, usize, *const KernelNode);
        graph_exec_set_kernel = cuGraphExecKernelNodeSetParams_v2(GraphExec, GraphNode, *const KernelNode);
        graph_nodes = cuGraphGetNodes(Graph, *mut *mut c_void, *mut usize);
        graph_instantiate = cuGraphInstantiateWithFlags(*mut GraphExec, Graph, u64);
        graph_launch = cuGraphLaunch(GraphExec, Stream);
        graph_destroy = cuGraphDestroy(Graph);
        graph_exec_destroy = cuGraphExecDestroy(GraphExec);
        stream_synchronize = cuStreamSynchronize(Stream);
        stream_query = cuStreamQuery(Stream);
        stream_wait = cuStreamWaitEvent(Stream, Event, u32);
        event_create = cuEventCreate(*mut Event, u32);
        event_destroy = cuEventDestroy_v2(Event);
        event_record = cuEventRecord(Event, Stream);
        event_query = cuEventQuery(Event);
        event_synchronize = cuEventSynchronize(Event);
        event_elapsed = cuEventElapsedTime(*mut f32, Event, Event) like cuEventElapsedTime_v2;
        pool_create = cuMemPoolCreate(*mut MemoryPool, *const CUmemPoolProps);
        pool_set = cuMemPoolSetAttribute(MemoryPool, CUmemPool_attribute, *mut c_void);
        pool_get = cuMemPoolGetAttribute(MemoryPool, CUmemPool_attribute, *mut c_void);
        pool_trim = cuMemPoolTrimTo(MemoryPool, usize);
        allocate_async = cuMemAllocFromPoolAsync(*mut CUdeviceptr, usize, MemoryPool, Stream);
        free_async = cuMemFreeAsync(CUdeviceptr, Stream);
        allocate = cuMemAlloc_v2(*mut CUdeviceptr, usize);
        free = cuMemFree_v2(CUdeviceptr);
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
        host_allocate = cuMemHostAlloc(*mut *mut c_void, usize, u32);
        host_free = cuMemFreeHost(*mut c_void);
        host_register = cuMemHostRegister_v2(*mut c_void, usize, u32);
        host_unregister = cuMemHostUnregister(*mut c_void);
        host_address = cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, u32);
        pointer_attribute = cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr);
        pointer_attributes = cuPointerGetAttributes(u32, *mut CUpointer_attribute, *mut *mut c_void, CUdeviceptr);
        upload_async = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, Stream);
        download_async = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, Stream);
        copy_async = cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, Stream);
        set_async = cuMemsetD8Async(CUdeviceptr, u8, usize, Stream);
        link_create = cuLinkCreate_v2(u32, *mut CUjit_option, *mut *mut c_void, *mut LinkState);
        link_add = cuLinkAddData_v2(
            LinkState, CUjitInputType, *mut c_void, usize, *const c_char, u32, *mut CUjit_option, *mut *mut c_void);
        link_complete = cuLinkComplete(LinkState, *mut *mut c_void, *mut usize);
        link_destroy = cuLinkDestroy(LinkState);
        module_load = cuModuleLoadDataEx(*mut Module, *const c_void, u32, *mut CUjit_option, *mut *mut c_void);
        module_unload = cuModuleUnload(Module);
        module_function = cuModuleGetFunction(*mut Function, Module, *const c_char);
        module_global = cuModuleGetGlobal_v2(*mut CUdeviceptr, *mut usize, Module, *const c_char);
        function_attribute = cuFuncGetAttribute(*mut i32, CUfunction_attribute, Function);
        function_set = cuFuncSetAttribute(Function, CUfunction_attribute, i32);
        occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut i32, Function, i32, usize);
        best_block = cuOccupancyMaxPotentialBlockSize(*mut i32, *mut i32, Function, *const c_void, usize, i32);
        launch_with = cuLaunchKernelEx(*const CUlaunchConfig, Function, *mut *mut c_void, *mut *mut c_void);
        launch = cuLaunchKernel(Function, u32, u32, u32, u32, u32, u32, u32, Stream, *mut *mut c_void, *mut *mut c_void);
    }
}

functions! {
    /// Functions of `libcuda` since CUDA 12.4 that enumerate a module's kernels and their parameters.
    Reflection of sys {
        parameter = cuFuncGetParamInfo(Function, usize, *mut usize, *mut usize);
        function_count = cuModuleGetFunctionCount(*mut u32, Module);
        functions = cuModuleEnumerateFunctions(*mut Function, u32, Module);
        function_name = cuFuncGetName(*mut *const c_char, Function);
    }
}

functions! {
    /// Functions of `libcuda` for several devices.
    Peers of sys {
        can_access = cuDeviceCanAccessPeer(*mut i32, CUdevice, CUdevice);
        pool_access = cuMemPoolSetAccess(MemoryPool, *const CUmemAccessDesc, usize);
        // arguments: target and its context, source and its context, bytes, stream
        copy_async = cuMemcpyPeerAsync(CUdeviceptr, Context, CUdeviceptr, Context, usize, Stream);
    }
}

functions! {
    /// Functions of `libcuda` for memory of other processes.
    Ipc of sys {
        export = cuIpcGetMemHandle(*mut CUipcMemHandle, CUdeviceptr);
        import = cuIpcOpenMemHandle_v2(*mut CUdeviceptr, CUipcMemHandle, u32);
        close = cuIpcCloseMemHandle(CUdeviceptr);
    }
}

functions! {
    /// `libnvrtc`.
    Nvrtc of cudarc::nvrtc::sys {
        version = nvrtcVersion(*mut i32, *mut i32);
        arch_count = nvrtcGetNumSupportedArchs(*mut i32);
        archs = nvrtcGetSupportedArchs(*mut i32);
        create = nvrtcCreateProgram(
            *mut nvrtcProgram, *const c_char, *const c_char, i32, *const *const c_char, *const *const c_char);
        destroy = nvrtcDestroyProgram(*mut nvrtcProgram);
        add_name = nvrtcAddNameExpression(nvrtcProgram, *const c_char);
        lowered = nvrtcGetLoweredName(nvrtcProgram, *const c_char, *mut *const c_char);
        compile = nvrtcCompileProgram(nvrtcProgram, i32, *const *const c_char);
        cubin_size = nvrtcGetCUBINSize(nvrtcProgram, *mut usize);
        cubin = nvrtcGetCUBIN(nvrtcProgram, *mut u8);
        ptx_size = nvrtcGetPTXSize(nvrtcProgram, *mut usize);
        ptx = nvrtcGetPTX(nvrtcProgram, *mut u8);
        log_size = nvrtcGetProgramLogSize(nvrtcProgram, *mut usize);
        log = nvrtcGetProgramLog(nvrtcProgram, *mut u8);
    }
}

/// The properties of a pool of pinned (that is, not managed) memory on a device.
pub fn pool_properties(ordinal: u32) -> CUmemPoolProps {
    CUmemPoolProps {
        allocType: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        handleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location_of(ordinal),
        win32SecurityAttributes: std::ptr::null_mut(),
        // drivers of older CUDA versions treat all fields from here on as reserved, and require zero
        maxSize: 0,
        usage: 0,
        gpuDirectRDMACapable: 0,
        reserved: [0; 53],
    }
}

/// Opens the driver's library by its path: a library without a soname would otherwise be searched again.
fn loaded_driver() -> Result<library::Handle> {
    let path = &library::driver()?.path;
    library::Handle::open(path)
        .map_err(|e| Error::new(Kind::Library, format!("{} cannot be loaded: {}", path.display(), e.reason)))
}

/// A table of the driver's functions, made once; a failure is not remembered.
fn once<T>(table: &'static OnceLock<T>, make: impl FnOnce(&library::Handle) -> Result<T>) -> Result<&'static T> {
    if let Some(table) = table.get() {
        return Ok(table);
    }
    let made = make(&loaded_driver()?)?;
    Ok(table.get_or_init(|| made))
}

/// The driver's functions, after a successful `cuInit`.
///
/// # Errors
/// `Library` where there is no driver, with the findings of `library`.
pub fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    once(&DRIVER, |loaded| {
        // SAFETY: this is the driver.
        let table = unsafe { Driver::find(loaded) }?;
        // SAFETY: takes a number.
        check(&table, unsafe { (table.init)(0) }, "cuInit")?;
        Ok(table)
    })
}

/// The functions that describe modules; None for drivers before CUDA 12.4.
pub fn reflection() -> Option<&'static Reflection> {
    static REFLECTION: OnceLock<Option<Reflection>> = OnceLock::new();
    REFLECTION
        .get_or_init(|| {
            // SAFETY: this is the driver.
            unsafe { Reflection::find(&loaded_driver().ok()?) }.ok()
        })
        .as_ref()
}

/// The functions for several devices.
///
/// # Errors
/// `Library` where the driver lacks one.
pub fn peers() -> Result<&'static Peers> {
    static PEERS: OnceLock<Peers> = OnceLock::new();
    // SAFETY: this is the driver.
    once(&PEERS, |loaded| unsafe { Peers::find(loaded) })
}

/// The functions for memory of other processes.
///
/// # Errors
/// `Library` where the driver lacks one.
pub fn ipc() -> Result<&'static Ipc> {
    static IPC: OnceLock<Ipc> = OnceLock::new();
    // SAFETY: this is the driver.
    once(&IPC, |loaded| unsafe { Ipc::find(loaded) })
}

/// Read and write access of a device to a memory pool.
pub fn access_of(ordinal: u32) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: location_of(ordinal),
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    }
}

fn location_of(ordinal: u32) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        __bindgen_anon_1: sys::CUmemLocation_st__bindgen_ty_1 { id: ordinal as i32 },
    }
}

/// NVRTC's functions.
///
/// # Errors
/// `Library` where it is not found.
pub fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Nvrtc> = OnceLock::new();
    if let Some(nvrtc) = NVRTC.get() {
        return Ok(nvrtc);
    }
    if std::env::var_os("VERDIGRIS_NVRTC").is_some_and(|v| v == "none") {
        return Err(Error::new(
            Kind::Library,
            "NVRTC is not used: the environment variable VERDIGRIS_NVRTC is \"none\"",
        )
        .advise("Unset it to have kernels compiled."));
    }
    // SAFETY: this is NVRTC.
    let table = unsafe { Nvrtc::find(library::load(library::Library::Nvrtc)?) }?;
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    library::imports::leave_signals(table.compile as *const std::ffi::c_void);
    Ok(NVRTC.get_or_init(|| table))
}

/// The name of a status code and the driver's description of it.
pub fn describe(driver: &Driver, status: u32) -> String {
    let text = |f: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
        let mut at: *const c_char = std::ptr::null();
        // SAFETY: gives null or a string that lives as long as the driver.
        unsafe {
            if f(status, &mut at) != SUCCESS || at.is_null() {
                return None;
            }
            Some(CStr::from_ptr(at).to_string_lossy().into_owned())
        }
    };
    match (text(driver.error_name), text(driver.error_string)) {
        (Some(name), Some(sentence)) => format!("{name} ({status}): {sentence}"),
        (Some(name), None) => format!("{name} ({status})"),
        _ => format!("code {status}"),
    }
}

/// Turns the status of a function into an error: `check` for a driver, or `Core::check`, which remembers errors that
/// corrupt the context.
pub type Check<'a> = &'a dyn Fn(u32, &str) -> Result<()>;

/// # Errors
/// An error of the fitting kind, naming the function, where the status is not success.
pub fn check(driver: &Driver, status: u32, function: &str) -> Result<()> {
    if status == SUCCESS {
        return Ok(());
    }
    Err(Error::new(kind(status), format!("`{function}` failed: {}", describe(driver, status))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(std::mem::size_of::<CUmemPoolProps>(), 88);
        assert_eq!(std::mem::size_of::<Stream>(), std::mem::size_of::<sys::CUstream>());
    }
}
