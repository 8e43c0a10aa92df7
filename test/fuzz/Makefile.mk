# Tests of label fuzz: parsers, by libFuzzer.
EXTRA_DIST += test/fuzz/fuzzers.mk test/fuzz/input.h test/fuzz/run test/fuzz/tests.cmake \
	test/fuzz/channel_fuzz.cpp \
	test/fuzz/rendezvous_fuzz.cpp \
	test/fuzz/steps_fuzz.cpp \
	test/fuzz/tuning_file_fuzz.cpp \
	test/fuzz/corpus/channel/board_messages_at_once \
	test/fuzz/corpus/channel/board_messages_in_pieces \
	test/fuzz/corpus/channel/longer_than_any_message \
	test/fuzz/corpus/channel/stores_beyond_the_entry \
	test/fuzz/corpus/rendezvous/a_stranger \
	test/fuzz/corpus/rendezvous/one_fails \
	test/fuzz/corpus/rendezvous/one_leaves \
	test/fuzz/corpus/rendezvous/one_rank_twice \
	test/fuzz/corpus/rendezvous/other_sizes \
	test/fuzz/corpus/rendezvous/six_ranks \
	test/fuzz/corpus/rendezvous/two_ranks_meet \
	test/fuzz/corpus/steps/a_head \
	test/fuzz/corpus/steps/a_head_behind_an_end \
	test/fuzz/corpus/steps/a_head_beyond \
	test/fuzz/corpus/steps/another_step \
	test/fuzz/corpus/steps/more_than_the_slots \
	test/fuzz/corpus/steps/no_such_lane \
	test/fuzz/corpus/steps/slices_at_once \
	test/fuzz/corpus/steps/slices_in_pieces \
	test/fuzz/corpus/tuning_file/another_version \
	test/fuzz/corpus/tuning_file/before_a_section \
	test/fuzz/corpus/tuning_file/example \
	test/fuzz/corpus/tuning_file/not_a_number \
	test/fuzz/corpus/tuning_file/ranks_beyond_integers
