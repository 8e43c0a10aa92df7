! Device memory in Fortran, with mpi_f08: a pointer that c_f_pointer makes of a device address is a buffer as any other.
! The program itself must not touch its elements. Here the memory is gpucoll's own, so that this runs on the emulated
! device as well; cudaMalloc's is as good, and so are arrays of OpenACC (host_data use_device) and of CUDA Fortran (device).
!
!   mpifort -o fortran_arrays fortran_arrays.f90 $(pkg-config --libs gpucoll)
!   mpirun --mca coll gpucoll -np 3 ./fortran_arrays
module gpucoll
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function gpucollDeviceCount(devices) bind(c, name='gpucollDeviceCount')
      import :: c_int
      integer(c_int), intent(out) :: devices
    end function
    integer(c_int) function gpucollSetDevice(device) bind(c, name='gpucollSetDevice')
      import :: c_int
      integer(c_int), value :: device
    end function
    integer(c_int) function gpucollMalloc(address, bytes) bind(c, name='gpucollMalloc')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function gpucollMemcpy(to, from, bytes) bind(c, name='gpucollMemcpy')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function gpucollFree(address) bind(c, name='gpucollFree')
      import :: c_int, c_ptr
      type(c_ptr), value :: address
    end function
  end interface
contains
  subroutine need(result)
    integer(c_int), intent(in) :: result
    if (result == 0) return
    print '(a, i0)', 'gpucoll answers with error ', result
    error stop 1
  end subroutine

  ! Returns device memory of n doubles. "contiguous" keeps the compiler from copying the array where it is passed on.
  function device_array(n) result(array)
    integer, intent(in) :: n
    real(c_double), pointer, contiguous :: array(:)
    type(c_ptr) :: address
    call need(gpucollMalloc(address, 8_c_size_t * n))
    call c_f_pointer(address, array, [n])
  end function
end module

program fortran_arrays
  use mpi_f08
  use gpucoll
  implicit none
  integer, parameter :: n = 1001
  real(c_double), pointer, contiguous, asynchronous :: send(:), recv(:), all(:)
  real(c_double), target :: values(n)
  real(c_double), allocatable, target :: gathered(:)
  real(c_double) :: total
  integer(c_int) :: devices
  integer :: rank, ranks, i, r
  type(MPI_Request) :: request
  type(MPI_Status) :: status

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call need(gpucollDeviceCount(devices))
  call need(gpucollSetDevice(mod(rank, devices)))
  total = ranks * (ranks + 1) / 2

  send => device_array(n)
  recv => device_array(n)
  all => device_array(n * ranks)
  values = [((rank + 1) * real(i, c_double), i = 1, n)]
  call need(gpucollMemcpy(c_loc(send), c_loc(values), 8_c_size_t * n))

  call MPI_Allreduce(send, recv, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  call need(gpucollMemcpy(c_loc(values), c_loc(recv), 8_c_size_t * n))
  call expect('MPI_Allreduce', all_right(values, total))

  ! Nonblocking: what each rank has goes to all.
  allocate (gathered(n * ranks))
  call MPI_Iallgather(send, n, MPI_DOUBLE_PRECISION, all, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, request)
  call MPI_Wait(request, status)
  call need(gpucollMemcpy(c_loc(gathered), c_loc(all), 8_c_size_t * n * ranks))
  do r = 1, ranks
    call expect('MPI_Iallgather', all_right(gathered((r - 1) * n + 1:r * n), real(r, c_double)))
  end do

  ! A message to the next rank, from device memory to device memory.
  call MPI_Sendrecv(send, n, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 0, &
                    recv, n, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 0, MPI_COMM_WORLD, status)
  call need(gpucollMemcpy(c_loc(values), c_loc(recv), 8_c_size_t * n))
  call expect('MPI_Sendrecv', all_right(values, real(mod(rank + ranks - 1, ranks) + 1, c_double)))

  call need(gpucollFree(c_loc(send)))
  call need(gpucollFree(c_loc(recv)))
  call need(gpucollFree(c_loc(all)))
  if (rank == 0) print '(a, i0, a)', 'fortran_arrays: all right on ', ranks, ' ranks'
  call MPI_Finalize()
contains
  logical function all_right(found, factor)
    real(c_double), intent(in) :: found(:), factor
    integer :: k
    all_right = all_equal(found, [(factor * k, k = 1, size(found))])
  end function

  logical function all_equal(a, b)
    real(c_double), intent(in) :: a(:), b(:)
    all_equal = count(a /= b) == 0
  end function

  subroutine expect(what, right)
    character(*), intent(in) :: what
    logical, intent(in) :: right
    if (right) return
    print '(3a, i0)', 'wrong: ', what, ' on rank ', rank
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine
end program
