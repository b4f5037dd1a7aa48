# SPDX-License-Identifier: Apache-2.0
from .host import main

main()
