"""Makes an environment with the core of tfbio alone: what a wheel without extras needs.

The packages are links to those of this environment, so that making it takes no second 2 GB.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from tests.test_requirements import needed, requirements


def core_packages(setup_cfg) -> list[metadata.Distribution]:
    """Returns the packages that tfbio needs without extras, and those that these need."""
    wanted = requirements(setup_cfg["options"]["install_requires"])
    names = {canonicalize_name(requirement.name) for requirement in wanted}
    return [metadata.distribution(name) for name in sorted(names | set(needed(names)))]


def files_of(package: metadata.Distribution) -> list[Path]:
    """Returns the paths of a package's files, in the folder of all packages."""
    return [
        Path(path) for path in package.files or () if path.parts[0] not in ("..", "__pycache__")
    ]


def make(folder: Path, packages: list[metadata.Distribution], wheel: Path) -> Path:
    """Makes an environment with some packages and a wheel; returns the folder of its commands."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        source = Path(package.locate_file(""))
        for path in files_of(package):
            # Several packages may share a folder without __init__.py, such as google/.
            is_shared = (
                len(path.parts) > 1 and not (source / path.parts[0] / "__init__.py").exists()
            )
            part = Path(*path.parts[: 1 + is_shared])
            if not (site / part).is_symlink():
                (site / part).parent.mkdir(exist_ok=True)
                (site / part).symlink_to(source / part)
    command = [sys.executable, "-m", "pip", f"--python={folder}", "install", "--quiet"]
    options = ["--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*command, *options, str(wheel)], check=True)
    return folder / "bin"
