"""The name horovod, on hvd: import horovod.torch, horovod.run, horovodrun."""
import sys
import warnings

import hvd

__version__ = "0.28.1"  # whose calls these are


def _warn_of_horovod() -> None:
    """Say so if Horovod itself is installed too: only one of the two can have the name."""
    from importlib import metadata

    try:
        found = metadata.version("horovod")
    except metadata.PackageNotFoundError:
        return
    warnings.warn(
        "Horovod %s is installed too, but import horovod is hvd %s here (%s); uninstall "
        "hvd-horovod or horovod" % (found, hvd.__version__, __file__)
    )


_warn_of_horovod()

_NUMPY = (
    "hvd has no binding for it: reduce its arrays by hvd.allreduce, which takes numpy and DLPack"
)
_LAUNCHERS = "start the ranks by srun or hvdrun, or from Python by hvd.run"
# parts of Horovod that hvd does not have, and what to do
_MISSING = {
    "tensorflow": _NUMPY,
    "keras": _NUMPY,
    "mxnet": _NUMPY,
    "spark": _LAUNCHERS,
    "ray": _LAUNCHERS,
    "data": "hvd loads no data; use torch.utils.data.DataLoader",
}


class _Missing:
    """Says what to do where a part is imported that no other finder has found."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        why = _MISSING.get(name[len("horovod.") :]) if name.startswith("horovod.") else None
        if why is not None:
            raise ModuleNotFoundError("%s: %s" % (name, why), name=name)


sys.meta_path.append(_Missing)


def run(*args, **kwargs):
    """horovod.run: call a function on several ranks, see horovod.runner.run."""
    from horovod.runner import run as runner

    return runner(*args, **kwargs)
