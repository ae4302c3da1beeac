"""Sphinx configuration.  Build with ``nox -s docs``; dlshim must be installed."""

import sys
from pathlib import Path

import dlshim

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dlshim"
author = "the dlshim developers"
copyright = "the dlshim developers"
version = release = dlshim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "data_tables",
    "library_pages",
    "source_tree",
]
# pypi.md is the text of the package's page on PyPI.
exclude_patterns = ["_build", "pypi.md"]
# Other projects' inventories are not fetched: the manual builds without a network.
intersphinx_mapping = {}
nitpicky = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
html_title = f"dlshim {release}"
