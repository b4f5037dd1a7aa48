"""mixerbench from Python: mixers that are torch.nn.Modules (docs/PYTHON.md). SPDX-License-Identifier: Apache-2.0"""

from .api import CheckReport, MixerbenchError, Report, check, generate, run

__version__ = "0.1.0"
__all__ = ["CheckReport", "MixerbenchError", "Report", "check", "generate", "run"]
