# GC_CHECK_OPENMPI: Open MPI through its wrapper compiler, and its internal headers, which the component needs.
#
# Answers MPICC, MPI_CPPFLAGS and MPI_LIBS (for MPI programs), OMPI_CPPFLAGS (for the component: internal headers,
# then our stub/ directory for those that distributions forget), OMPI_PLUGIN_DIR (where the component goes),
# OMPI_SYSTEM_PLUGIN_DIR (where Open MPI's own are), OMPI_VERSION, the probes of GC_PROBE_OPENMPI in config.h and
# GC_PARTITIONED, GC_PML_UCX and GC_ROMIO (whether MPI has partitioned messages, the PML ucx and ROMIO).
AC_DEFUN([GC_CHECK_OPENMPI],[
  AC_ARG_VAR([MPICC],[Open MPI's wrapper compiler])
  AC_PATH_PROGS([MPICC],[mpicc mpicc.openmpi],[no])
  AS_IF([test "$MPICC" = no],
    [AC_MSG_ERROR([mpicc is missing: install Open MPI (Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin) or set MPICC])])
  gc_mpi_incdirs=`$MPICC --showme:incdirs 2>/dev/null`
  AS_IF([test -z "$gc_mpi_incdirs"],
    [AC_MSG_ERROR([$MPICC does not answer --showme:incdirs, so it is not Open MPI's: set MPICC to Open MPI's mpicc])])

  AC_MSG_CHECKING([for Open MPI's internal headers])
  gc_ompi_dir=
  for gc_dir in $gc_mpi_incdirs; do
    AS_IF([test -z "$gc_ompi_dir" && test -f "$gc_dir/openmpi/ompi_config.h"],[gc_ompi_dir=$gc_dir])
  done
  AS_IF([test -z "$gc_ompi_dir"],[AC_MSG_RESULT([no])
    AC_MSG_ERROR([Open MPI's internal headers (openmpi/ompi_config.h) are not under $gc_mpi_incdirs: install libopenmpi-dev, or an Open MPI that was configured with --with-devel-headers])])
  AC_MSG_RESULT([$gc_ompi_dir/openmpi])

  MPI_CPPFLAGS=-DOMPI_SKIP_MPICXX  # its C++ classes need a library that mpicc does not link
  for gc_dir in $gc_mpi_incdirs; do AS_VAR_APPEND([MPI_CPPFLAGS],[" -isystem $gc_dir"]); done
  MPI_LIBS=
  for gc_dir in `$MPICC --showme:libdirs`; do AS_VAR_APPEND([MPI_LIBS],[" -L$gc_dir"]); done
  for gc_lib in `$MPICC --showme:libs`; do AS_VAR_APPEND([MPI_LIBS],[" -l$gc_lib"]); done
  OMPI_CPPFLAGS="-isystem $gc_ompi_dir -isystem $gc_ompi_dir/openmpi -isystem \$(top_srcdir)/src/mca/stub"
  # Those of 5.0 include PMIx's, which distributions keep elsewhere.
  AC_PATH_PROG([PKG_CONFIG],[pkg-config],[no])
  AS_IF([test "$PKG_CONFIG" != no && test -f "$gc_ompi_dir/openmpi/opal/mca/pmix/pmix-internal.h"],
    [AS_VAR_APPEND([OMPI_CPPFLAGS],[" `$PKG_CONFIG --cflags-only-I pmix 2>/dev/null | sed 's/-I/-isystem /g'`"])])
  AC_SUBST([MPI_CPPFLAGS])
  AC_SUBST([MPI_LIBS])
  AC_SUBST([OMPI_CPPFLAGS])

  AC_PATH_PROGS([OMPI_INFO],[ompi_info ompi_info.openmpi],[no],[`dirname "$MPICC"`:$PATH])
  AC_PATH_PROGS([MPIRUN],[mpirun mpirun.openmpi],[no],[`dirname "$MPICC"`:$PATH])
  OMPI_SYSTEM_PLUGIN_DIR=
  gc_openmpi_version=unknown
  AS_IF([test "$OMPI_INFO" != no],[
    OMPI_SYSTEM_PLUGIN_DIR=`$OMPI_INFO --path pkglibdir --parsable 2>/dev/null | sed -n 's/^path:pkglibdir://p'`
    gc_openmpi_version=`$OMPI_INFO --version 2>/dev/null | sed -n 's/^Open MPI v//p'`])
  # 5.0 has most components in its libraries.
  AS_IF([$OMPI_INFO --parsable 2>/dev/null | grep '^mca:pml:ucx:' >/dev/null],[gc_pml_ucx=ON],[gc_pml_ucx=OFF])
  AC_SUBST([GC_PML_UCX],[$gc_pml_ucx])
  AS_IF([$OMPI_INFO --parsable 2>/dev/null | grep '^mca:io:romio' >/dev/null],[gc_romio=ON],[gc_romio=OFF])
  AC_SUBST([GC_ROMIO],[$gc_romio])
  AC_SUBST([OMPI_SYSTEM_PLUGIN_DIR])
  AC_SUBST([OMPI_VERSION],[$gc_openmpi_version])
  AC_ARG_WITH([ompi-plugin-dir],[AS_HELP_STRING([--with-ompi-plugin-dir=DIR],
    [where mca_coll_gpucoll.so is installed (LIBDIR/openmpi)])],[],[with_ompi_plugin_dir='${libdir}/openmpi'])
  AC_SUBST([OMPI_PLUGIN_DIR],[$with_ompi_plugin_dir])
  gc_openmpi_summary="$gc_openmpi_version ($MPICC)"
  GC_PROBE_OPENMPI
])

# GC_PROBE_OPENMPI: what this Open MPI's interfaces look like; src/mca/common/compat.h acts on the answers.
# Probes, not version numbers: a distribution may have moved a change to an older release.
AC_DEFUN([GC_PROBE_OPENMPI],[
  gc_saved_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS -isystem $gc_ompi_dir -isystem $gc_ompi_dir/openmpi -isystem $srcdir/src/mca/stub"
  AC_CHECK_MEMBERS([mca_coll_base_module_t.coll_reduce_local, mca_coll_base_module_t.coll_allreduce_init],[],[],[[
    #include <ompi_config.h>
    #include <ompi/mca/coll/coll.h>]])
  AC_CHECK_DECLS([MPI_Psend_init, MPI_Isendrecv_replace],[],[],[[#include <mpi.h>]])
  AS_IF([test "$ac_cv_have_decl_MPI_Psend_init" = yes],[gc_partitioned=ON],[gc_partitioned=OFF])
  AM_CONDITIONAL([GC_PARTITIONED],[test "$gc_partitioned" = ON])
  AC_SUBST([GC_PARTITIONED],[$gc_partitioned])
  AC_CHECK_HEADERS([opal/mca/pmix/pmix.h opal/mca/pmix/pmix-internal.h],[],[],[[#include <ompi_config.h>]])
  CPPFLAGS=$gc_saved_CPPFLAGS
])
