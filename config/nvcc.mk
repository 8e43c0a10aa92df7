# How CUDA is compiled, in one place. nvcc hands what it does not know (-fPIC, -Wall, -fsanitize=...) to the host
# compiler, so libtool needs no wrapper. A .cu file must not share its basename with a .cpp file of its directory:
# both would become the same object.
# No -lineinfo: code runs no slower with it, but the first communicator of a process loads all kernels, which takes
# five times as long then (docs/measurements/2026-11-23-first-communicator.md). To see lines in ncu or
# compute-sanitizer: NVCCFLAGS=-lineinfo.
SUFFIXES = .cu
GC_NVCCFLAGS = -forward-unknown-to-host-compiler -ccbin=$(NVCC_CCBIN) -std=c++20 -fmad=false -O2 -g \
	-fvisibility=hidden -ffp-contract=off $(NVCC_GENCODE) $(GC_SANITIZER_FLAGS) \
	-DHAVE_CONFIG_H -I. $(AM_CPPFLAGS) $(CPPFLAGS) $(NVCCFLAGS)
AM_V_NVCC = $(AM_V_NVCC_@AM_V@)
AM_V_NVCC_ = $(AM_V_NVCC_@AM_DEFAULT_V@)
AM_V_NVCC_0 = @echo "  NVCC    " $@;
AM_V_NVCC_1 =
.cu.lo:
	@$(MKDIR_P) $(@D)/$(DEPDIR)
	$(AM_V_NVCC)$(LIBTOOL) $(AM_V_lt) --tag=CXX --mode=compile $(NVCC) $(GC_NVCCFLAGS) \
	  -MD -MF $(@D)/$(DEPDIR)/$(*F).cu.d -MT $@ -c -o $@ $<
-include $(wildcard src/*/$(DEPDIR)/*.cu.d src/*/*/$(DEPDIR)/*.cu.d examples/$(DEPDIR)/*.cu.d)
EXTRA_DIST += config/nvcc.mk
distclean-local:
	-rm -f src/*/$(DEPDIR)/*.cu.d src/*/*/$(DEPDIR)/*.cu.d examples/$(DEPDIR)/*.cu.d
