# man: manual pages, in mdoc
dist_man_MANS += man/hvd.3 man/hvd_mpi.3
dist_man_MANS += man/hvdinfo.1
dist_man_MANS += man/hvdbench.1

# the options of hvd(7) are those of the table in core/options/option.c
man_MANS += man/hvd.7
EXTRA_DIST += man/hvd.7.in
CLEANFILES += man/hvd.7
man/hvd.7: man/hvd.7.in bin/hvdinfo$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) man
	$(AM_V_GEN)bin/hvdinfo --man >$@.options && bin/hvdinfo --man-horovod >$@.horovod && \
	sed -e '/^@OPTIONS@$$/{r $@.options' -e 'd;}' -e '/^@HOROVOD@$$/{r $@.horovod' -e 'd;}' \
		$(srcdir)/man/hvd.7.in >$@.made && \
	rm -f $@.options $@.horovod && mv $@.made $@
if HAVE_SLURM
dist_man_MANS += man/hvd-spank.8
else
EXTRA_DIST += man/hvd-spank.8
endif
# the events and metrics of hvdrun(1) are those of the tables in tools/common/launch_events.c
EXTRA_DIST += man/hvdrun.1.in
CLEANFILES += man/hvdrun.1
if HAVE_PMIX
man_MANS += man/hvdrun.1
else
noinst_DATA = man/hvdrun.1
endif
man/hvdrun.1: man/hvdrun.1.in bin/hvdinfo$(EXEEXT)
	$(AM_V_at)$(MKDIR_P) man
	$(AM_V_GEN)bin/hvdinfo --man-events >$@.events && \
	sed -e '/^@EVENTS@$$/{r $@.events' -e 'd;}' $(srcdir)/man/hvdrun.1.in >$@.made && \
	rm -f $@.events && mv $@.made $@
# the picture that docs/features.md shows, also where that is installed
docmandir = $(docdir)/man
dist_docman_DATA = man/map.svg

# the README, docs/ and the manual pages as HTML, in one folder
EXTRA_DIST += docs/make_html
html-local: man/hvd.7 man/hvdrun.1
	$(AM_V_GEN)bash $(srcdir)/docs/make_html $(srcdir) html man/hvd.7 $(srcdir)/man/hvd.3 $(srcdir)/man/hvd_mpi.3 \
		man/hvdrun.1 $(srcdir)/man/hvdinfo.1 $(srcdir)/man/hvdbench.1 $(srcdir)/man/hvd-spank.8
clean-local: clean-html
clean-html:
	rm -rf html
.PHONY: clean-html
