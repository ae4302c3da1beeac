"""A stateful model of exchanges: what must come of each, said in plain Python data.

``rules.py`` is the model, written from the rules' text; ``machine.py`` walks it beside dlshim with
hypothesis; ``python -m model`` (``nox -s model``) is the long run.
"""
