# spank: the plug-in. Files are named for the process they run in. It needs nothing of ours but core/base and
# core/topo, and nothing of Slurm but spank.h: its undefined symbols are those of the process that loads it.

# what needs nothing of Slurm; the unit tests take it as well
noinst_LTLIBRARIES += spank/libsite.la
spank_libsite_la_SOURCES = spank/srun.c spank/srun.h spank/site.c spank/site.h
spank_libsite_la_LIBADD = core/libbase.la

# what runs around a step; in the unit tests the test is Slurm
spank_libstep_la_SOURCES = spank/options.c spank/options.h spank/stepd.c spank/stepd.h
spank_libstep_la_SOURCES += spank/task_network.c spank/task_network.h
spank_libstep_la_SOURCES += spank/placement.c spank/placement.h spank/placement_state.h spank/placement_task.c
spank_libstep_la_SOURCES += spank/planner.c spank/planner.h spank/planner_child.c spank/planner_child.h
spank_libstep_la_LIBADD = spank/libsite.la core/libtopo.la

spank_spank_hvd_la_SOURCES = spank/plugin.c
spank_spank_hvd_la_LIBADD = spank/libstep.la
spank_spank_hvd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^(plugin_(name|type|version)|spank_plugin.*|slurm_spank_.*)$$'

if HAVE_SLURM
slurmplugindir = $(libdir)/slurm
slurmplugin_LTLIBRARIES = spank/spank_hvd.la
noinst_LTLIBRARIES += spank/libstep.la
SPANK_STEP_LIBS = spank/libstep.la
endif
