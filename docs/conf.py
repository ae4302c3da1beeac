"""Sphinx configuration.  Build with ``nox -s docs``; dlshim must be installed."""

import sys
from pathlib import Path

try:
    import dlshim
except ModuleNotFoundError:
    told = "The manual reads the installed package: pip install . (nox -s docs does it)."
    raise SystemExit(told) from None

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dlshim"
author = "the dlshim developers"
copyright = "the dlshim developers"
version = release = dlshim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "data_tables",
    "library_pages",
    "source_tree",
]
# pypi.md is the text of the package's page on PyPI.
exclude_patterns = ["_build", "pypi.md"]
# Other projects' inventories are not fetched: the manual builds without a network.
intersphinx_mapping = {}
nitpicky = False

# The button copies what is typed: no prompts, and no answers.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]
html_title = f"dlshim {release}"
