"""mixerbench from Python: mixers that are torch.nn.Modules (docs/PYTHON.md). SPDX-License-Identifier: Apache-2.0"""
