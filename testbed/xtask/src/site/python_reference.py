"""Prints the reference of a Python package as Markdown: what its modules export, with signatures and docstrings.

The sources are parsed, not imported: nothing has to be built or installed. Arguments: the package's folder.
"""

import ast
import inspect
import sys
from pathlib import Path

PACKAGE = Path(sys.argv[1])


def parse(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def exported(tree):
    """The names in a module's __all__; all public definitions without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return set(ast.literal_eval(node.value))
    return {node.name for node in tree.body if hasattr(node, "name") and not node.name.startswith("_")}


def definitions(folder, tree):
    """Classes and functions by name: those of a module, and those that it imports from its neighbours."""
    found = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            path = folder / f"{node.module}.py"
            if path.exists():
                inner = {inner.name: inner for inner in parse(path).body if hasattr(inner, "name")}
                found.update({name.asname or name.name: inner[name.name] for name in node.names if name.name in inner})
    return found


def signature(node):
    arguments = ast.unparse(node.args)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({arguments}){returns}"


def document(node):
    text = ast.get_docstring(node)
    # Docstrings are plain text with ReStructuredText's marks; as they are, they are readable.
    return f"```text\n{inspect.cleandoc(text)}\n```\n" if text else ""


def code(definition):
    return f"```python\n{definition}\n```\n"


def members(node):
    for member in node.body:
        if not isinstance(member, ast.FunctionDef):
            continue
        if member.name == "__init__" or not member.name.startswith("_"):
            is_property = any(getattr(decorator, "id", "") == "property" for decorator in member.decorator_list)
            yield member, member.name if is_property else signature(member)


def module(name, path):
    tree = parse(path)
    lines = [f"## {name}\n", document(tree)]
    known = definitions(path.parent, tree)
    for exported_name in sorted(exported(tree)):
        node = known.get(exported_name)
        if isinstance(node, ast.FunctionDef):
            lines += [f"### `{name}.{exported_name}`\n", code(signature(node)), document(node)]
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            lines += [f"### class `{name}.{exported_name}`" + (f" ({bases})\n" if bases else "\n"), document(node)]
            for member, definition in members(node):
                lines += [f"#### `{exported_name}.{member.name}`\n", code(definition), document(member)]
    return [line for line in lines if line]


def main():
    print("# Python reference\n")
    print("Classes and functions of the package `netfold`, from the docstrings. [Python](../python.md) and [PyTorch](../pytorch.md) are the guides.\n")
    modules = [("netfold", PACKAGE / "__init__.py")]
    for path in sorted(PACKAGE.iterdir()):
        if path.is_dir() and (path / "__init__.py").exists():
            modules.append((f"netfold.{path.name}", path / "__init__.py"))
        elif path.suffix == ".py" and not path.name.startswith("_"):
            modules.append((f"netfold.{path.stem}", path))
    for name, path in modules:
        print("\n".join(module(name, path)))


main()
