"""Installs the package: `pip install .`. The metadata is in pyproject.toml."""

from setuptools import setup

setup()
