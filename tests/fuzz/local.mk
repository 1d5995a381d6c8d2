# Fuzz targets. make check runs each on its kept corpus; tests/fuzz/fuzz SECONDS lets libFuzzer search for more inputs.
FUZZ_TESTS = tests/fuzz/fuzz_wire tests/fuzz/fuzz_negotiate tests/fuzz/fuzz_frame tests/fuzz/fuzz_peer_info
FUZZ_LIBS = core/libcore.la

tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c tests/fuzz/replay.c
tests_fuzz_fuzz_wire_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_negotiate_SOURCES = tests/fuzz/fuzz_negotiate.c tests/fuzz/replay.c
tests_fuzz_fuzz_negotiate_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_frame_SOURCES = tests/fuzz/fuzz_frame.c tests/fuzz/replay.c
tests_fuzz_fuzz_frame_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_peer_info_SOURCES = tests/fuzz/fuzz_peer_info.c tests/fuzz/replay.c
tests_fuzz_fuzz_peer_info_LDADD = $(FUZZ_LIBS)
FUZZ_TESTS += tests/fuzz/fuzz_network
tests_fuzz_fuzz_network_SOURCES = tests/fuzz/fuzz_network.c tests/fuzz/replay.c
tests_fuzz_fuzz_network_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_tokens tests/fuzz/fuzz_erf
tests_fuzz_fuzz_tokens_SOURCES = tests/fuzz/fuzz_tokens.c tests/fuzz/replay.c
tests_fuzz_fuzz_tokens_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_erf_SOURCES = tests/fuzz/fuzz_erf.c tests/fuzz/replay.c
tests_fuzz_fuzz_erf_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_handshake
tests_fuzz_fuzz_handshake_SOURCES = tests/fuzz/fuzz_handshake.c tests/fuzz/replay.c
tests_fuzz_fuzz_handshake_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_p2p_frame
tests_fuzz_fuzz_p2p_frame_SOURCES = tests/fuzz/fuzz_p2p_frame.c tests/fuzz/replay.c
tests_fuzz_fuzz_p2p_frame_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_node_card
tests_fuzz_fuzz_node_card_SOURCES = tests/fuzz/fuzz_node_card.c tests/fuzz/replay.c
tests_fuzz_fuzz_node_card_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_pmi
tests_fuzz_fuzz_pmi_SOURCES = tests/fuzz/fuzz_pmi.c tests/fuzz/replay.c
tests_fuzz_fuzz_pmi_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_failure_report tests/fuzz/fuzz_error_file
tests_fuzz_fuzz_failure_report_SOURCES = tests/fuzz/fuzz_failure_report.c tests/fuzz/replay.c
tests_fuzz_fuzz_failure_report_LDADD = core/libverdict.la core/libconfig.la core/libbase.la
tests_fuzz_fuzz_error_file_SOURCES = tests/fuzz/fuzz_error_file.c tests/fuzz/replay.c
tests_fuzz_fuzz_error_file_LDADD = core/libverdict.la core/libbase.la

FUZZ_TESTS += tests/fuzz/fuzz_record tests/fuzz/fuzz_fence tests/fuzz/fuzz_start_report tests/fuzz/fuzz_attach
tests_fuzz_fuzz_record_SOURCES = tests/fuzz/fuzz_record.c tests/fuzz/replay.c
tests_fuzz_fuzz_record_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_fence_SOURCES = tests/fuzz/fuzz_fence.c tests/fuzz/replay.c
tests_fuzz_fuzz_fence_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_start_report_SOURCES = tests/fuzz/fuzz_start_report.c tests/fuzz/replay.c
tests_fuzz_fuzz_start_report_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_attach_SOURCES = tests/fuzz/fuzz_attach.c tests/fuzz/replay.c
tests_fuzz_fuzz_attach_LDADD = $(FUZZ_LIBS)

FUZZ_TESTS += tests/fuzz/fuzz_flight
tests_fuzz_fuzz_flight_SOURCES = tests/fuzz/fuzz_flight.c tests/fuzz/replay.c
tests_fuzz_fuzz_flight_LDADD = core/libverdict.la $(FUZZ_LIBS)

# commits on disk
FUZZ_TESTS += tests/fuzz/fuzz_commit_file
tests_fuzz_fuzz_commit_file_SOURCES = tests/fuzz/fuzz_commit_file.c tests/fuzz/replay.c
tests_fuzz_fuzz_commit_file_LDADD = $(FUZZ_LIBS)

# wire-up, and epochs of elastic jobs
FUZZ_TESTS += tests/fuzz/fuzz_pmi_client tests/fuzz/fuzz_fence_client tests/fuzz/fuzz_fence_server tests/fuzz/fuzz_epochs tests/fuzz/fuzz_part_list
tests_fuzz_fuzz_pmi_client_SOURCES = tests/fuzz/fuzz_pmi_client.c tests/fuzz/replay.c
tests_fuzz_fuzz_pmi_client_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_fence_client_SOURCES = tests/fuzz/fuzz_fence_client.c tests/fuzz/replay.c
tests_fuzz_fuzz_fence_client_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_fence_server_SOURCES = tests/fuzz/fuzz_fence_server.c tests/fuzz/replay.c
tests_fuzz_fuzz_fence_server_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_epochs_SOURCES = tests/fuzz/fuzz_epochs.c tests/fuzz/replay.c
tests_fuzz_fuzz_epochs_LDADD = tools/libhvdrun.la $(FUZZ_LIBS)
tests_fuzz_fuzz_part_list_SOURCES = tests/fuzz/fuzz_part_list.c tests/fuzz/replay.c
tests_fuzz_fuzz_part_list_LDADD = $(FUZZ_LIBS)

# ranks of one node
FUZZ_TESTS += tests/fuzz/fuzz_deputy tests/fuzz/fuzz_arena tests/fuzz/fuzz_byte_ring
tests_fuzz_fuzz_deputy_SOURCES = tests/fuzz/fuzz_deputy.c tests/fuzz/replay.c
tests_fuzz_fuzz_deputy_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_arena_SOURCES = tests/fuzz/fuzz_arena.c tests/fuzz/replay.c
tests_fuzz_fuzz_arena_LDADD = $(FUZZ_LIBS)
tests_fuzz_fuzz_byte_ring_SOURCES = tests/fuzz/fuzz_byte_ring.c tests/fuzz/replay.c
tests_fuzz_fuzz_byte_ring_LDADD = $(FUZZ_LIBS)

# what hvdrun and its agents tell each other
FUZZ_TESTS += tests/fuzz/fuzz_agent
tests_fuzz_fuzz_agent_SOURCES = tests/fuzz/fuzz_agent.c tests/fuzz/replay.c
tests_fuzz_fuzz_agent_LDADD = tools/libhvdrun.la core/libverdict.la $(FUZZ_LIBS)

# what the plug-in and the tools read
FUZZ_TESTS += tests/fuzz/fuzz_planner tests/fuzz/fuzz_lines
tests_fuzz_fuzz_planner_SOURCES = tests/fuzz/fuzz_planner.c tests/fuzz/replay.c
tests_fuzz_fuzz_planner_LDADD = spank/libsite.la $(FUZZ_LIBS)
tests_fuzz_fuzz_lines_SOURCES = tests/fuzz/fuzz_lines.c tests/fuzz/replay.c
tests_fuzz_fuzz_lines_LDADD = tools/libhvdrun.la $(FUZZ_LIBS)
FUZZ_TESTS += tests/fuzz/fuzz_records
tests_fuzz_fuzz_records_SOURCES = tests/fuzz/fuzz_records.c tests/fuzz/replay.c
tests_fuzz_fuzz_records_LDADD = tools/libps.la tools/libjson.la $(FUZZ_LIBS)
if HAVE_JANSSON
FUZZ_TESTS += tests/fuzz/fuzz_trace
tests_fuzz_fuzz_trace_SOURCES = tests/fuzz/fuzz_trace.c tests/fuzz/replay.c
tests_fuzz_fuzz_trace_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_fuzz_trace_LDADD = tools/libstragglers.la $(FUZZ_LIBS)
endif

noinst_HEADERS += tests/fuzz/fuzz.h tests/fuzz/fuzz_channel.h tests/fuzz/fuzz_dial.h tests/fuzz/fuzz_packet.h tests/fuzz/fuzz_wireup.h
dist_noinst_SCRIPTS += tests/fuzz/fuzz
EXTRA_DIST += tests/fuzz/corpus

if TESTS_ENABLED
check_PROGRAMS += $(FUZZ_TESTS)
TESTS += $(FUZZ_TESTS)
endif
