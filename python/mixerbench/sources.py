"""What stands for a user's code, and for that of this package, in the identity of a result. SPDX-License-Identifier: Apache-2.0"""

import ast
import difflib
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import itertools
import os
import sys
import sysconfig


folders_of_files = set()  # those that loading a file has added to sys.path


class ConfigProblem(Exception):
    """What a user got wrong, in one line."""


def split(place):
    """('FILE.py' or 'package.module', 'Class')."""
    file, colon, name = place.rpartition(":")
    if not colon and place.endswith(".py") and os.path.isfile(place):
        classes = [node.name for node in _tree(place).body if isinstance(node, ast.ClassDef)]
        if not classes:
            raise ConfigProblem(f"{place} has no class")
        known = ", ".join(classes)
        raise ConfigProblem(f"{place}: name one of its classes, such as {place}:{classes[0]} ({known})")
    if not colon or not file or not name.isidentifier():
        raise ConfigProblem(f"{place!r}: expected FILE.py:Class or package.module:Class, a class at the top level")
    return file, name


def file_of(place):
    """The source file. Nothing is imported to find it."""
    file, _ = split(place)
    if file.endswith(".py"):
        if not os.path.isfile(file):
            raise ConfigProblem(f"{place}: there is no file {os.path.abspath(file)}")
        return os.path.abspath(file)
    folders, parts = None, file.split(".")
    for number in range(1, len(parts) + 1):
        name = ".".join(parts[:number])
        spec = _find_spec(name, folders)
        if spec is None and number < len(parts):
            raise ConfigProblem(f"{place}: No module named {name!r} (a file ends in .py)")
        if spec is None or not (spec.has_location or number < len(parts)):
            raise ConfigProblem(f"{place}: there is no module {file} (a file ends in .py)")
        folders = spec.submodule_search_locations
        if folders is None and number < len(parts):
            raise ConfigProblem(f"{place}: {name} is no package")
    return spec.origin


def _find_spec(name, folders):
    """As importlib.util.find_spec, which imports the packages around a module."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, folders) if hasattr(finder, "find_spec") else None
        if spec is not None:
            return spec
    return None


def _tree(path):
    with open(path, "rb") as file:
        source = file.read()
    try:
        return ast.parse(source, path)
    except SyntaxError as error:
        raise ConfigProblem(f"{path}:{error.lineno}: {error.msg}") from error


def _outside_functions(node):
    """Statements that run when a module is imported."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _outside_functions(child)


def _imports(tree):
    """(level, dotted names) of each import at top level: level 0 is absolute. What a module gives may be a module."""
    for node in _outside_functions(tree):
        if isinstance(node, ast.Import):
            yield from ((0, [alias.name]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            yield node.level, [start + alias.name for alias in node.names]


def _beside(root, file, level, name):
    """The source files that run when `file` imports `name`, if they lie with it: packages on the way, then the module.

    Absolute names are looked up in the folder `root`. There a module does not answer for a package of its own name.
    """
    stem = os.path.dirname(file) if level else root
    for _ in range(level - 1):
        stem = os.path.dirname(stem)
    candidates = [(os.path.join(stem, "__init__.py"),)] if level else []
    for part in name.split("."):
        stem = os.path.join(stem, part)
        candidates.append((os.path.join(stem, "__init__.py"), stem + ".py"))  # a package goes before a module
    itself = os.path.join(root, name.partition(".")[0] + ".py")
    found = [first for either in candidates if (first := next(filter(os.path.isfile, either), None))]
    return [first for first in found if level or first != file or file != itself]


def helpers(path):
    """By the name under which a file at `path` imports it, the file beside it that its identity holds."""
    folder = os.path.dirname(path)
    found = {}
    for file in _files_and_packages(path, folder)[0]:
        relative = os.path.relpath(file, folder).removesuffix(".py").removesuffix(os.sep + "__init__")
        if file != path and not relative.startswith(os.pardir):
            found[relative.replace(os.sep, ".")] = file
    return found


def _code_of(place, path):
    """_files_and_packages() of the class at `place`, whose source file is `path`."""
    module, _ = split(place)
    if module.endswith(".py"):
        return _files_and_packages(path, os.path.dirname(path))
    parts = module.split(".")
    root = os.path.dirname(path.removesuffix(os.sep + "__init__.py"))
    for _ in parts[1:]:
        root = os.path.dirname(root)
    if parts[0] in _distributions():  # of which all is known by the version
        files, packages = _files_and_packages(path, root, installed=_distributions())
        return files, packages | {parts[0]}
    around = (os.path.join(root, *parts[:number], "__init__.py") for number in range(1, len(parts)))
    return _files_and_packages(path, root, filter(os.path.isfile, around), installed=_distributions())


def _files_and_packages(path, root, more=(), installed=(), left_out=()):
    """{file: hash} of `path`, of `more` and of what they import of the folder `root`; what they import of elsewhere.

    What is `installed` is not looked up in `root`, but stands for itself.
    """
    files, packages, pending = {}, set(), [path, *more]
    while pending:
        file = pending.pop()
        if file in files or file in left_out:
            continue
        with open(file, "rb") as opened:
            files[file] = hashlib.sha256(opened.read()).hexdigest()
        for level, names in _imports(_tree(file)):
            is_elsewhere = level == 0 and names[0].partition(".")[0] in installed
            beside = [] if is_elsewhere else [found for name in names for found in _beside(root, file, level, name)]
            pending += beside
            if level == 0 and not beside:
                packages.add(names[0].split(".")[0])
    return files, packages - sys.stdlib_module_names


@functools.cache
def _distributions():
    return importlib.metadata.packages_distributions()


def _version(package):
    names = sorted(set(_distributions().get(package, ())))
    if len(names) == 1:
        return importlib.metadata.version(names[0])
    if names:  # which share it
        return "/".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    files = _files_on_path(package)
    if files is None:
        return "missing"
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:16]


def _files_on_path(package):
    """The source files of a package on the path that nobody has installed; None where there is none."""
    # Not in the folders of files that happen to be loaded: in every process it is the same.
    spec = _find_spec(package, [folder for folder in sys.path if folder not in folders_of_files])
    if spec is None:
        return None
    folders = spec.submodule_search_locations or []
    files = [spec.origin or ""] if not folders else [
        os.path.join(folder, file) for top in folders for folder, _, names in os.walk(top) for file in names
    ]
    return sorted(path for path in files if path.endswith(".py"))


def counted(place, path):
    """The real paths of the source files that the identity of the class at `place` holds by their content."""
    files, packages = _code_of(place, path)
    of_packages = (_files_on_path(package) or [] for package in packages - _distributions().keys())
    return {os.path.realpath(file) for file in itertools.chain(files, *of_packages)}


def require_counted(path, files, names):
    """Raises ConfigProblem where one of these modules comes of a source file that is neither installed nor of `files`.

    files: counted(), from before the modules were loaded, which may change where modules are looked for.
    """
    for name in sorted(names):
        spec = getattr(sys.modules.get(name), "__spec__", None)
        file = spec.origin if spec is not None and spec.has_location else ""
        if file.endswith(".py") and not _is_installed(name, file) and os.path.realpath(file) not in files:
            how = f"import {name} at the top level of it, from where Python finds it by itself, or install it"
            raise ConfigProblem(f"{path} loads {file}, which does not count as its code: {how}")


def _is_installed(name, file):
    """Whether it has a version of its own, or comes with Python or with this package."""
    if name.partition(".")[0] in _distributions() or {"site-packages", "dist-packages"} & set(file.split(os.sep)):
        return True
    homes = (*(sysconfig.get_path(which) for which in ("stdlib", "platstdlib")), os.path.dirname(__file__))
    return any(os.path.realpath(file).startswith(os.path.realpath(home) + os.sep) for home in homes)


class FromSource(importlib.machinery.SourceFileLoader):
    """Reads and leaves no bytecode, which another source of the same size and second would be taken for."""

    def path_stats(self, path):
        raise OSError(f"{path}: what is known of it is its text")


class _Finder:
    """Loads from its source what the identity holds by its source."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return spec
        package = name.partition(".")[0]
        if package not in sys.stdlib_module_names and package not in _distributions():
            spec.loader, spec.cached = FromSource(name, spec.origin), None
        return spec


def load_from_sources():
    """From now on, in this process and its copies."""
    sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), _Finder)


def check(place):
    """The source file, which must have the class. Nothing of it is run."""
    path, name = file_of(place), split(place)[1]
    known = set()
    for node in _outside_functions(_tree(path)):
        if isinstance(node, ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            known.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
    if name not in known and "*" not in known and "__getattr__" not in known:
        close = difflib.get_close_matches(name, known, 1)
        raise ConfigProblem(f"{place}: there is no class {name}" + (f" (did you mean '{close[0]}'?)" if close else ""))
    return path


def describe(place):
    """'sha256:... einops 0.8.1, torch 2.11.0': one hash of all source files, and what they import."""
    path = check(place)
    files, packages = _code_of(place, path)
    versions = ", ".join(f"{package} {_version(package)}" for package in sorted(packages))
    return f"sha256:{_digest(files, path)}" + (f" {versions}" if versions else "")


def _digest(files, path):
    """One hash of the files, {name: hash}, by the names under which that at `path`, which has none, imports them."""
    folder = os.path.dirname(path)
    names = {file: "" if file == path else os.path.relpath(file, folder) for file in files}
    lines = sorted(f"{digest}  {names[file]}\n" for file, digest in files.items())
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@functools.cache
def describe_package():
    """'sha256:...': one hash of the files of this package that stand between the engine and a class.

    They decide seeds, precision and weight decay, and the engine is built without them. The API, which the package
    itself imports, starts processes and runs in none with a class.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, "bridge.py")
    files, _ = _files_and_packages(path, folder, left_out=[os.path.join(folder, "__init__.py")])
    return f"sha256:{_digest(files, path)}"
