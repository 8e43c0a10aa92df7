// MPI from Rust, with arrays in device memory: raw calls of Open MPI's C functions. The crate mpi (rsmpi) declares the
// same functions in mpi::ffi; its safe calls take slices, which are host memory. Here the memory is gpucoll's own, so
// that this runs on the emulated device as well; cudaMalloc's is as good.
//
//   rustc -O mpi_arrays.rs -L $(mpicc --showme:libdirs | cut -d' ' -f1) -l mpi -L $(pkg-config --variable=libdir gpucoll) -l gpucoll
//   mpirun --mca coll gpucoll -np 3 ./mpi_arrays
use std::ffi::c_void;
use std::os::raw::c_int;
use std::ptr::{addr_of, null_mut};

// A handle of Open MPI is the address of an object in its library.
type Handle = *const c_void;
#[allow(non_snake_case)]
extern "C" {
    static ompi_mpi_comm_world: [u8; 0];
    static ompi_mpi_double: [u8; 0];
    static ompi_mpi_op_sum: [u8; 0];
    fn MPI_Init(argc: *mut c_int, argv: *mut c_void) -> c_int;
    fn MPI_Finalize() -> c_int;
    fn MPI_Abort(comm: Handle, code: c_int) -> c_int;
    fn MPI_Comm_rank(comm: Handle, rank: *mut c_int) -> c_int;
    fn MPI_Comm_size(comm: Handle, size: *mut c_int) -> c_int;
    fn MPI_Allreduce(
        send: *const c_void, recv: *mut c_void, count: c_int, datatype: Handle, op: Handle, comm: Handle,
    ) -> c_int;
    fn MPI_Sendrecv(
        send: *const c_void, send_count: c_int, send_type: Handle, to: c_int, send_tag: c_int, recv: *mut c_void,
        recv_count: c_int, recv_type: Handle, from: c_int, recv_tag: c_int, comm: Handle, status: *mut c_void,
    ) -> c_int;
    fn gpucollDeviceCount(count: *mut c_int) -> c_int;
    fn gpucollSetDevice(device: c_int) -> c_int;
    fn gpucollMalloc(address: *mut *mut c_void, bytes: usize) -> c_int;
    fn gpucollMemcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> c_int;
    fn gpucollFree(address: *mut c_void) -> c_int;
}

/// Ends all ranks where a function of gpucoll or MPI has failed; MPI's own calls do so by default.
fn need(result: c_int, what: &str) {
    if result != 0 {
        eprintln!("mpi_arrays.rs: {} has failed: {}", what, result);
        unsafe { MPI_Abort(addr_of!(ompi_mpi_comm_world).cast(), 1) };
    }
}

/// Doubles in memory of the device that is chosen; freed with the value.
struct DeviceArray {
    address: *mut c_void,
    count: usize,
}

impl DeviceArray {
    fn new(values: &[f64]) -> DeviceArray {
        let mut array = DeviceArray { address: null_mut(), count: values.len() };
        need(unsafe { gpucollMalloc(&mut array.address, 8 * values.len()) }, "gpucollMalloc");
        need(unsafe { gpucollMemcpy(array.address, values.as_ptr().cast(), 8 * values.len()) }, "gpucollMemcpy");
        array
    }

    fn values(&self) -> Vec<f64> {
        let mut values = vec![0f64; self.count];
        need(unsafe { gpucollMemcpy(values.as_mut_ptr().cast(), self.address, 8 * self.count) }, "gpucollMemcpy");
        values
    }

    /// Ends all ranks unless element i is factor * i.
    fn expect(&self, what: &str, factor: c_int) {
        let right = self.values().iter().enumerate().all(|(i, value)| *value == f64::from(factor) * i as f64);
        need(c_int::from(!right), what);
    }
}

impl Drop for DeviceArray {
    fn drop(&mut self) {
        unsafe { gpucollFree(self.address) };
    }
}

fn main() {
    const COUNT: usize = 1001;
    let (mut rank, mut ranks, mut devices) = (0, 0, 0);
    let (world, double, sum): (Handle, Handle, Handle);
    unsafe {
        world = addr_of!(ompi_mpi_comm_world).cast();
        double = addr_of!(ompi_mpi_double).cast();
        sum = addr_of!(ompi_mpi_op_sum).cast();
        need(MPI_Init(null_mut(), null_mut()), "MPI_Init");
        MPI_Comm_rank(world, &mut rank);
        MPI_Comm_size(world, &mut ranks);
        need(gpucollDeviceCount(&mut devices), "gpucollDeviceCount");
        need(gpucollSetDevice(rank % devices), "gpucollSetDevice");
    }

    let own: Vec<f64> = (0..COUNT).map(|i| f64::from(rank + 1) * i as f64).collect();
    let (send, recv) = (DeviceArray::new(&own), DeviceArray::new(&[0.0; COUNT]));
    let count = COUNT as c_int;
    unsafe { MPI_Allreduce(send.address, recv.address, count, double, sum, world) };
    recv.expect("MPI_Allreduce", ranks * (ranks + 1) / 2);

    // A message to the next rank, from device memory to device memory. MPI_STATUS_IGNORE is a null pointer.
    let (to, from) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    unsafe {
        MPI_Sendrecv(
            send.address, count, double, to, 0, recv.address, count, double, from, 0, world, null_mut(),
        );
    }
    recv.expect("MPI_Sendrecv", from + 1);

    drop((send, recv));
    if rank == 0 {
        println!("mpi_arrays.rs: all right on {} ranks", ranks);
    }
    unsafe { MPI_Finalize() };
}
