"""Writes what CI installs, with versions and hashes: `make lock`.

The files hold for this Python, system and processor. Those of wheels.txt install as they are,
those of sources.txt are compiled, and need the others.
"""

import json
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
#: All that is installed, and what builds the package itself.
WANTED = [".[benchmark,test,docs,sparse,tgp]", "setuptools", "wheel", "ninja"]


def main() -> None:
    """Asks pip what it would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--no-build-isolation", "--constraint", "constraints.txt", "--report", "-", *WANTED]
    found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    lines: dict[str, list[str]] = {"wheels.txt": [], "sources.txt": []}
    for package in json.loads(found)["install"]:
        download = package["download_info"]
        if "archive_info" not in download:  # this package
            continue
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        digest = download["archive_info"]["hashes"]["sha256"]
        kind = "wheels.txt" if download["url"].endswith(".whl") else "sources.txt"
        lines[kind].append(f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{digest}")
    python = ".".join(platform.python_version_tuple()[:2])
    head = f"# Made by `make lock`, for Python {python}, {platform.system()}, {platform.machine()}."
    for name, packages in lines.items():
        path = HERE / "lock" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([head, *sorted(packages)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
