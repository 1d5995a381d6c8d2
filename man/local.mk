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
if HAVE_PMIX
dist_man_MANS += man/hvdrun.1
else
EXTRA_DIST += man/hvdrun.1
endif
# the picture that the README shows, also where that is installed
docmandir = $(docdir)/man
dist_docman_DATA = man/map.svg
