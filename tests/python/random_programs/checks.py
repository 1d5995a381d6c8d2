"""How results are compared."""
import numpy as np


class Wrong(AssertionError):
    """A result that is not the expected one."""


def compare(found, wanted, tolerance=0, what=""):
    """Lists of arrays must be equal, or nearly so."""
    if len(found) != len(wanted):
        raise Wrong("%s: %d results, expected %d" % (what, len(found), len(wanted)))
    for i, (one, other) in enumerate(zip(found, wanted)):
        _compare_one(np.asarray(one), np.asarray(other), tolerance, "%s, tensor %d" % (what, i))


def _compare_one(found, wanted, tolerance, what):
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        raise Wrong(
            "%s: %s%s, expected %s%s"
            % (what, found.dtype, list(found.shape), wanted.dtype, list(wanted.shape))
        )
    if tolerance:
        good = np.isclose(found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        good = (found == wanted) | ((found != found) & (wanted != wanted))
    if not np.all(good):
        wrong = np.flatnonzero(~np.ravel(good))
        first = wrong[0]
        raise Wrong(
            "%s: %d of %d elements are wrong, first [%d]: %s, expected %s"
            % (what, wrong.size, found.size, first, found.ravel()[first], wanted.ravel()[first])
        )
