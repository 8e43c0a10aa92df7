// The C API in Rust: one process drives all devices. The declarations are by hand, as few are needed; bindgen makes all of
// them from gpucoll/gpucoll.h.
//
//   rustc -O one_process.rs -L $(pkg-config --variable=libdir gpucoll) -l gpucoll && ./one_process 4
use std::ffi::{c_void, CStr};
use std::os::raw::{c_char, c_int};

#[allow(non_snake_case)]
extern "C" {
    fn gpucollGetLastError(comm: *mut c_void) -> *const c_char;
    fn gpucollDeviceCount(count: *mut c_int) -> c_int;
    fn gpucollSetDevice(device: c_int) -> c_int;
    fn gpucollMalloc(address: *mut *mut c_void, bytes: usize) -> c_int;
    fn gpucollMemcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
    fn gpucollFree(address: *mut c_void) -> c_int;
    fn gpucollStreamSynchronize(stream: *mut c_void) -> c_int;
    fn gpucollCommInitAll(comms: *mut *mut c_void, n: c_int, devices: *const c_int) -> c_int;
    fn gpucollCommDestroy(comm: *mut c_void) -> c_int;
    fn gpucollGroupStart() -> c_int;
    fn gpucollGroupEnd() -> c_int;
    fn gpucollAllReduce(
        send: *const c_void, recv: *mut c_void, count: usize, datatype: c_int, op: c_int, comm: *mut c_void,
        stream: *mut c_void,
    ) -> c_int;
}
const FLOAT32: c_int = 7; // of gpucollDataType_t
const SUM: c_int = 0; // of gpucollRedOp_t
const DEFAULT_STREAM: *mut c_void = std::ptr::null_mut();

/// Makes the sentence of the last error of what a function has answered.
fn need(result: c_int) -> Result<(), String> {
    match result {
        0 => Ok(()),
        _ => Err(unsafe { CStr::from_ptr(gpucollGetLastError(std::ptr::null_mut())) }.to_string_lossy().into_owned()),
    }
}

/// Floats in memory of the device that is chosen; freed with the value.
struct DeviceArray {
    address: *mut c_void,
    count: usize,
}

impl DeviceArray {
    fn new(values: &[f32]) -> Result<DeviceArray, String> {
        let mut address = std::ptr::null_mut();
        need(unsafe { gpucollMalloc(&mut address, 4 * values.len()) })?;
        let array = DeviceArray { address, count: values.len() };
        need(unsafe { gpucollMemcpy(address, values.as_ptr().cast(), 4 * values.len()) })?;
        Ok(array)
    }

    fn values(&self) -> Result<Vec<f32>, String> {
        let mut values = vec![0f32; self.count];
        need(unsafe { gpucollMemcpy(values.as_mut_ptr().cast(), self.address, 4 * self.count) })?;
        Ok(values)
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        unsafe { gpucollFree(self.address) };
    }
}

fn run() -> Result<usize, String> {
    let mut devices = 0;
    need(unsafe { gpucollDeviceCount(&mut devices) })?;
    let n = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(devices as usize);
    let mut comms = vec![std::ptr::null_mut(); n];
    need(unsafe { gpucollCommInitAll(comms.as_mut_ptr(), n as c_int, std::ptr::null()) })?;

    const COUNT: usize = 1001;
    let mut arrays = Vec::new();
    for device in 0..n {
        need(unsafe { gpucollSetDevice(device as c_int) })?;
        let values: Vec<f32> = (0..COUNT).map(|i| ((device + 1) * (i % 97)) as f32).collect();
        arrays.push(DeviceArray::new(&values)?);
    }

    // In place: each array is input and output.
    need(unsafe { gpucollGroupStart() })?;
    for (array, comm) in arrays.iter().zip(&comms) {
        need(unsafe { gpucollAllReduce(array.address, array.address, COUNT, FLOAT32, SUM, *comm, DEFAULT_STREAM) })?;
    }
    need(unsafe { gpucollGroupEnd() })?;

    for (device, array) in arrays.iter().enumerate() {
        need(unsafe { gpucollSetDevice(device as c_int) })?;
        need(unsafe { gpucollStreamSynchronize(DEFAULT_STREAM) })?;
        let right = |i: usize| (n * (n + 1) / 2 * (i % 97)) as f32;
        if array.values()?.iter().enumerate().any(|(i, value)| *value != right(i)) {
            return Err(format!("wrong sum on device {}", device));
        }
    }
    for comm in comms {
        need(unsafe { gpucollCommDestroy(comm) })?;
    }
    Ok(n)
}

fn main() {
    match run() {
        Ok(n) => println!("one_process.rs: all right on {} devices", n),
        Err(sentence) => {
            eprintln!("one_process.rs: {}", sentence);
            std::process::exit(1);
        }
    }
}
