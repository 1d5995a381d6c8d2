# Unit tests: one file per source file that has logic. UNIT_TESTS is the list.
UNIT_TESTS = tests/unit/test_parse tests/unit/test_option

if TESTS_ENABLED
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
endif

UNIT_LIBS = core/libcore.la $(CHECK_LIBS)
AM_CPPFLAGS += $(CHECK_CFLAGS)
noinst_HEADERS += tests/unit/unit.h

tests_unit_test_parse_LDADD = $(UNIT_LIBS)
tests_unit_test_option_LDADD = $(UNIT_LIBS)
