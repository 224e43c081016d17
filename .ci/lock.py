"""Writes the versions and hashes of all packages that CI installs: `make lock`.

The files hold for this Python, system and processor. The packages of wheels.txt are installed as
they are; those of sources.txt are compiled, and need the others.
"""

import json
import platform
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
REQUIREMENTS = [".[benchmark,test,docs,sparse,tgp]", "setuptools", "wheel", "ninja"]


def main() -> None:
    """Asks pip for the packages that it would install into an empty environment."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--no-build-isolation", "--constraint", "constraints.txt", "--report", "-"]
    report = subprocess.run(
        [*command, *REQUIREMENTS], cwd=FOLDER.parent, check=True, stdout=subprocess.PIPE
    ).stdout
    lines: dict[str, list[str]] = {"wheels.txt": [], "sources.txt": []}
    for package in json.loads(report)["install"]:
        archive = package["download_info"].get("archive_info")
        if archive is not None:  # not a folder, as this package is
            is_wheel = package["download_info"]["url"].endswith(".whl")
            name = package["metadata"]["name"].lower().replace("_", "-")
            pin = f"{name}=={package['metadata']['version']}"
            lines["wheels.txt" if is_wheel else "sources.txt"].append(
                f"{pin} --hash=sha256:{archive['hashes']['sha256']}"
            )
    python = ".".join(platform.python_version_tuple()[:2])
    head = f"# Made by `make lock`, for Python {python}, {platform.system()}, {platform.machine()}."
    for file, packages in lines.items():
        path = FOLDER / "lock" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([head, *sorted(packages)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
