# examples: train learns from data that ships with it; hello is the example in the README. Like a user's program, both
# include hvd.h and nothing else of hvd.
hvdexecdir = $(libexecdir)/hvd
hvdexec_PROGRAMS = examples/train
hvdexampledir = $(datadir)/hvd/examples
dist_hvdexample_DATA = examples/train_torch.py examples/train_ddp.py examples/train_elastic.py examples/train.c examples/hello.c examples/digits.csv examples/digits.LICENSE examples/grafana.json

examples_train_SOURCES = examples/train.c
examples_train_CPPFLAGS = -I$(top_srcdir)/core -DTRAIN_DATA='"$(hvdexampledir)/digits.csv"'
examples_train_LDFLAGS = $(INSTALLED_LDFLAGS)
examples_train_LDADD = core/libhvd.la -lm
# built again for another prefix, and so another TRAIN_DATA
$(examples_train_OBJECTS): config.h

# train looks for its data beside its program file first, which libtool puts into .libs in a build tree
EXTRA_examples_train_DEPENDENCIES = examples/.libs/digits.csv
examples/.libs/digits.csv: examples/digits.csv
	$(AM_V_at)$(MKDIR_P) examples/.libs && cp $(srcdir)/examples/digits.csv $@
CLEANFILES += examples/.libs/digits.csv

noinst_PROGRAMS += examples/hello
examples_hello_SOURCES = examples/hello.c
examples_hello_CPPFLAGS = -I$(top_srcdir)/core
examples_hello_LDADD = core/libhvd.la

# for administrators, with the places of this installation
EXTRA_DIST += examples/modulefile.in examples/plugstack.conf.in
nodist_hvdexample_DATA = examples/modulefile examples/plugstack.conf
CLEANFILES += examples/modulefile examples/plugstack.conf
# [@]: configure would replace the names itself
examples/modulefile examples/plugstack.conf: %: %.in Makefile
	$(AM_V_GEN)$(MKDIR_P) examples && sed -e 's|[@]VERSION[@]|$(PACKAGE_VERSION)|g' -e 's|[@]bindir[@]|$(bindir)|g' \
		-e 's|[@]libdir[@]|$(libdir)|g' -e 's|[@]includedir[@]|$(includedir)|g' -e 's|[@]mandir[@]|$(mandir)|g' \
		-e 's|[@]pythondir[@]|$(pythondir)|g' -e 's|[@]slurmplugindir[@]|$(slurmplugindir)|g' $< >$@
