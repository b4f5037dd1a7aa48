"""The derivations of all token tasks, by the tasks' names; importing a family registers its tasks.

SPDX-License-Identifier: Apache-2.0
"""

import copying  # noqa: F401
import lookup  # noqa: F401
import mad  # noqa: F401
import recall  # noqa: F401
import state_tracking  # noqa: F401
from sample import DERIVATIONS


def tasks_of(family):
    """Names of the tasks that a module derives."""
    return [name for name, derivation in DERIVATIONS.items() if derivation.draw.__module__ == family]
