# Builds the fuzz targets, by clang with libFuzzer, which automake's one compiler cannot do. test/fuzz/run calls it in
# the build tree: make -f SOURCE/test/fuzz/fuzzers.mk source=SOURCE
targets := channel rendezvous steps tuning_file
# The parsers, and what they stand on. The archive may hold more than the targets need: the linker takes what they use.
room_objects = $(patsubst $(source)/%.cpp, %.o, $(wildcard $(addsuffix /*.cpp, $(addprefix $(source)/, $(1)))))
objects := $(addsuffix .o, \
  src/base/equal_params src/base/fork src/base/log src/base/params src/base/shared_memory src/base/status \
  src/base/system_limits \
  src/core/plan/tuner src/core/plan/tuning_file \
  src/mpi/board src/mpi/remote_process \
  src/net/mesh_lines src/net/step_lanes) \
  $(call room_objects, src/net/bootstrap src/net/tcp)
fuzzers := $(addsuffix _fuzz, $(targets))
flags := -std=c++20 -O1 -g1 -pthread -MMD -fsanitize=address,undefined -fno-sanitize-recover=undefined \
  -I$(source)/src -I$(source)/include -DGPUCOLL_VERSION_STRING='"fuzzed"'

all: $(fuzzers)
$(fuzzers): %_fuzz: test/fuzz/%_fuzz.o libfuzzed.a
	clang++ $(flags) -fsanitize=fuzzer $^ -o $@
libfuzzed.a: $(objects)
	rm -f $@
	ar rc $@ $^
vpath %.cpp $(source)
%.o: %.cpp
	@mkdir -p $(@D)
	clang++ $(flags) -fsanitize=fuzzer-no-link -c $< -o $@
.SECONDARY:
-include $(objects:.o=.d) $(addprefix test/fuzz/, $(addsuffix _fuzz.d, $(targets)))
