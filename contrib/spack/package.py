# Copyright 2026, The gpucoll authors. BSD-3-Clause
"""Spack's recipe for gpucoll. gpucoll has no public archive yet, so Spack builds it from a source tree of yours:

    spack repo create ~/gpucoll-repo && mkdir -p ~/gpucoll-repo/packages/gpucoll
    cp contrib/spack/package.py ~/gpucoll-repo/packages/gpucoll
    spack repo add ~/gpucoll-repo
    spack dev-build --source-path . gpucoll@0.1.0 +cuda cuda_arch=90
"""
from spack.package import *


class Gpucoll(AutotoolsPackage, CudaPackage):
    """Collectives on GPU memory: a plugin for Open MPI, and a C API."""

    license("BSD-3-Clause")
    version("0.1.0")

    variant("verbs", default=True, description="RDMA between nodes")
    variant("tools", default=True, description="gpucoll-perf, gpucoll-info and gpucoll-tune")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    # With the headers of its internals, which the plugin needs.
    depends_on("openmpi@4.1:5.0 +internal-headers")
    depends_on("hwloc")
    depends_on("rdma-core", when="+verbs")
    depends_on("cli11", when="+tools", type="build")
    depends_on("fmt", when="+tools")
    depends_on("nlohmann-json", when="+tools", type="build")
    depends_on("cuda@12.2:", when="+cuda")
    conflicts("%gcc@:11", msg="gpucoll needs C++20: GCC 12 or newer")
    conflicts("cuda_arch=none", when="+cuda", msg="name the architectures, such as cuda_arch=90")

    def configure_args(self):
        spec = self.spec
        arguments = ["--disable-variants"]
        arguments += self.enable_or_disable("tools")
        arguments += self.with_or_without("verbs")
        if spec.satisfies("+cuda"):
            arguments.append(f"--with-cuda={spec['cuda'].prefix}")
            arguments.append("--with-cuda-arch=" + " ".join(spec.variants["cuda_arch"].value))
        else:
            arguments.append("--with-cuda=no")
        return arguments

    def setup_run_environment(self, env):
        """Lets mpirun find the plugin, beside Open MPI's own."""
        path = f"{self.prefix.lib.openmpi}:{self.spec['openmpi'].prefix.lib.openmpi}"
        env.set("OMPI_MCA_mca_base_component_path", path)
        env.set("PMIX_MCA_mca_base_component_show_load_errors", "none")
