"""Find the packages, and write the commit into what is built; pyproject.toml has everything else."""

import runpy
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

VERSION = runpy.run_path(str(Path(__file__).parent / "nmt" / "version.py"))


def write_commit(folder):
    """Write the commit into the package in `folder`, if it is known."""
    commit = VERSION["commit"]()
    if commit is not None:
        (Path(folder) / "nmt" / VERSION["COMMIT_FILE"]).write_text(f"{commit}\n", encoding="ascii")


class BuildPy(build_py):
    """The packages of a wheel."""

    def run(self):
        super().run()
        if not self.editable_mode:  # which runs from the repository, and asks git
            write_commit(self.build_lib)


class Sdist(sdist):
    """A source distribution, from which a wheel is built without git."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        write_commit(base_dir)


setup(
    packages=[*find_packages(include=["nmt", "nmt.*"]), "nmt.configs", "nmt.data.sample"],
    cmdclass={"build_py": BuildPy, "sdist": Sdist},
)
