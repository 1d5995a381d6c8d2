"""The name horovod, on hvd: import horovod.torch, horovod.run, horovodrun."""
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


def run(*args, **kwargs):
    """horovod.run: call a function on several ranks, see horovod.runner.run."""
    from horovod.runner import run as runner

    return runner(*args, **kwargs)
