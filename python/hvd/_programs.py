"""Finds hvd's programs."""
import os
import shutil

from hvd.errors import InvalidError


def find(name: str) -> str:
    """The path of a program of hvd: installed, of the build tree, or on PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = []
    try:
        from hvd._place import PROGRAM_FOLDER  # written by make install

        places.append(PROGRAM_FOLDER)
    except ImportError:
        pass
    if os.environ.get("HVD_BUILD"):
        places.append(os.path.join(os.environ["HVD_BUILD"], "bin"))
    places.append(os.path.join(here, "..", "..", "bin"))
    for place in places:
        path = os.path.join(place, name)
        if os.access(path, os.X_OK):
            return os.path.abspath(path)
    found = shutil.which(name)
    if found is None:
        raise InvalidError("%s is not on PATH; install hvd, or add its bin folder to PATH" % name)
    return found
