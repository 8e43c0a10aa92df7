! OpenACC in Fortran, with mpi_f08: inside "host_data use_device(x)" the name x stands for the array on the device, so
! that MPI gets its device address. Where OpenACC has no GPU, it computes on the CPU, and MPI gets the array itself.
! gfortran takes no allocatable array there: pass it to a subroutine, as here, whose argument is not allocatable.
!
!   mpifort -fopenacc -o fortran_openacc fortran_openacc.f90        (nvfortran: -acc)
!   mpirun --mca coll gpucoll -np 3 ./fortran_openacc
program fortran_openacc
  use mpi_f08
  use openacc
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  integer, parameter :: n = 1001
  real(real64), allocatable :: all(:)
  real(real64) :: send(n), recv(n)
  integer :: rank, ranks, local_rank, devices
  type(MPI_Comm) :: node

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)

  ! A GPU for each rank of the node.
  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
  call MPI_Comm_rank(node, local_rank)
  call MPI_Comm_free(node)
  devices = acc_get_num_devices(acc_device_not_host)
  if (devices > 0) call acc_set_device_num(mod(local_rank, devices), acc_device_not_host)

  allocate (all(n * ranks))
  call communicate(send, recv, all)
  if (rank == 0) print '(a, i0, 2a)', 'fortran_openacc: all right on ', ranks, ' ranks, on ', &
    trim(merge('GPUs   ', 'the CPU', devices > 0))
  call MPI_Finalize()
contains
  subroutine communicate(send, recv, all)
    real(real64), asynchronous :: send(n), recv(n), all(n * ranks)
    type(MPI_Request) :: request
    integer :: i, r

    !$acc data create(send, recv, all)
    ! A loop without "async" has ended where MPI begins. Behind one with "async" comes "!$acc wait".
    !$acc parallel loop
    do i = 1, n
      send(i) = (rank + 1) * real(i, real64)
    end do

    !$acc host_data use_device(send, recv)
    call MPI_Allreduce(send, recv, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    !$acc end host_data
    !$acc update self(recv)
    call expect('MPI_Allreduce', recv, real(ranks * (ranks + 1) / 2, real64))

    ! Nonblocking: what each rank has goes to all.
    !$acc host_data use_device(send, all)
    call MPI_Iallgather(send, n, MPI_DOUBLE_PRECISION, all, n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, request)
    !$acc end host_data
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    !$acc update self(all)
    do r = 1, ranks
      call expect('MPI_Iallgather', all((r - 1) * n + 1:r * n), real(r, real64))
    end do

    ! A message to the next rank.
    !$acc host_data use_device(send, recv)
    call MPI_Sendrecv(send, n, MPI_DOUBLE_PRECISION, mod(rank + 1, ranks), 0, &
                      recv, n, MPI_DOUBLE_PRECISION, mod(rank + ranks - 1, ranks), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    !$acc end host_data
    !$acc update self(recv)
    call expect('MPI_Sendrecv', recv, real(mod(rank + ranks - 1, ranks) + 1, real64))
    !$acc end data
  end subroutine

  subroutine expect(what, found, factor)
    character(*), intent(in) :: what
    real(real64), intent(in) :: found(:), factor
    integer :: k
    if (all_equal(found, [(factor * k, k = 1, size(found))])) return
    print '(3a, i0)', 'wrong: ', what, ' on rank ', rank
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  logical function all_equal(a, b)
    real(real64), intent(in) :: a(:), b(:)
    all_equal = count(a /= b) == 0
  end function
end program
