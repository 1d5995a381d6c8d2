# spank: the plug-in. Files are named for the process they run in. Of hvd it uses only core/base, core/options,
# core/topo, core/trace's flight record and core/verdict, and of Slurm only spank.h: the process that loads it provides its undefined symbols.

# code without Slurm, which the unit tests link too
noinst_LTLIBRARIES += spank/libsite.la
spank_libsite_la_SOURCES = spank/srun.c spank/srun.h spank/site.c spank/site.h spank/switch.c spank/switch.h \
	spank/step_reports.c spank/step_reports.h \
	spank/planner_reply.c spank/planner_reply.h
spank_libsite_la_LIBADD = core/libbase.la

# code that Slurm calls around a step; in unit tests the test takes Slurm's place
spank_libstep_la_SOURCES = spank/options.c spank/options.h spank/srun_record.c spank/srun_record.h spank/stepd.c spank/stepd.h spank/step.c spank/step.h
spank_libstep_la_SOURCES += spank/first_host.c spank/first_host.h spank/task_network.c spank/task_network.h spank/task_place.c spank/task_place.h
spank_libstep_la_SOURCES += spank/placement.c spank/placement.h spank/placement_state.h spank/placement_task.c
spank_libstep_la_SOURCES += spank/planner.c spank/planner.h spank/planner_child.c spank/planner_child.h spank/user_child.c spank/user_child.h
spank_libstep_la_SOURCES += spank/task_traces.c spank/task_traces.h spank/failure_reporter.c spank/failure_reporter.h
spank_libstep_la_SOURCES += spank/failure_child.c spank/failure_child.h
spank_libstep_la_SOURCES += spank/srun_verdict.c spank/srun_verdict.h spank/srun_watch.c spank/srun_watch.h spank/srun_port.c spank/srun_port.h
spank_libstep_la_SOURCES += spank/srun_controller.c spank/srun_controller.h
spank_libstep_la_SOURCES += spank/srun_epochs.c spank/srun_epochs.h
spank_libstep_la_LIBADD = spank/libsite.la core/libverdict.la core/libtopo.la

spank_spank_hvd_la_SOURCES = spank/plugin.c
spank_spank_hvd_la_LIBADD = spank/libstep.la
spank_spank_hvd_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^(plugin_(name|type|version)|spank_plugin.*|slurm_spank_.*)$$'

slurmplugindir = $(SLURM_PLUGIN_DIR)
if HAVE_SLURM
slurmplugin_LTLIBRARIES = spank/spank_hvd.la
noinst_LTLIBRARIES += spank/libstep.la
SPANK_STEP_LIBS = spank/libstep.la
endif
