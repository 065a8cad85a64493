"""The reference: a page for each public module, with a table of its public names and their docstrings."""

import inspect
from importlib import import_module

import hlmtheory

INDEX = """\
API
===

``import hlmtheory as hlm`` gives every module as ``hlm.module``, imported when it is first used, and these names:

.. list-table::
   :header-rows: 1

   * - name in ``hlmtheory``
     - is
{top}

Functions take numpy arrays or torch tensors with leading batch dimensions, and return arrays of the same library on the
same device. Bad input is refused with a ``ValueError`` that names the argument, the value and the remedy.

.. autofunction:: hlmtheory.all_claims

The record of a claim
---------------------

.. currentmodule:: hlmtheory.claims

.. autoclass:: Claim
   :members: check, standing, proof, takes

.. autoclass:: Verdict
   :members:

.. autoclass:: Status

.. toctree::
   :hidden:
   :maxdepth: 1

{tree}
"""


def api_targets() -> dict[str, str]:
    """Return the anchor of each public function and class, by its name as ``module.name`` and with the package."""
    found: dict[str, str] = {}
    for module in hlmtheory.MODULES:
        library = import_module(f"hlmtheory.{module}")
        for name in library.__all__:
            if callable(getattr(library, name)):
                full = f"hlmtheory.{module}.{name}"
                found |= {full: full, f"{module}.{name}": full}
    for name, module in hlmtheory.SHORTCUTS.items():
        found |= {f"hlm.{name}": f"hlmtheory.{module}.{name}", f"hlmtheory.{name}": f"hlmtheory.{module}.{name}"}
    return found


def module_page(module: str) -> str:
    library = import_module(f"hlmtheory.{module}")
    public = list(library.__all__)
    classes = [name for name in public if inspect.isclass(getattr(library, name))]
    functions = [name for name in public if inspect.isroutine(getattr(library, name))]
    values = [name for name in public if name not in {*classes, *functions}]
    title = f"hlmtheory.{module}"
    stated = any(name.startswith(f"{module}.") for name in hlmtheory.all_claims())
    claims = f"\n\nIts claims, with proofs: :doc:`/theory/{module}`." if stated else ""
    parts = [f"{title}\n{'=' * len(title)}\n\n.. automodule:: hlmtheory.{module}\n   :no-members:{claims}"]
    parts.append(f".. currentmodule:: hlmtheory.{module}")
    for head, found, kind in (("Functions", functions, "function"), ("Classes", classes, "class")):
        if found:
            names = "\n".join(f"   {name}" for name in found)
            parts.append(f"{head}\n{'-' * len(head)}\n\n.. autosummary::\n   :nosignatures:\n\n{names}")
            shown = "\n   :members:\n   :undoc-members:" if kind == "class" else ""
            parts += [f".. auto{kind}:: {name}{shown}" for name in found]
    if values:
        parts.append("Constants\n---------")
        parts += [f".. autodata:: {name}\n   :no-value:" for name in values]
    return "\n\n".join(parts) + "\n"


def api_pages() -> dict[str, str]:
    """Return every generated page of the reference, by its path in the site's source."""
    top = "\n".join(
        f"   * - ``{name}``\n     - :obj:`hlmtheory.{module}.{name}`" for name, module in hlmtheory.SHORTCUTS.items()
    )
    tree = "\n".join(f"   {module}" for module in hlmtheory.MODULES)
    index = INDEX.format(top=top, tree=tree)
    return {"api/index.rst": index} | {f"api/{module}.rst": module_page(module) for module in hlmtheory.MODULES}
