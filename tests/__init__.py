"""The tests: a package, so that one of this name that another distribution installs is not found instead."""
