"""The tests are a package, so that no package `tests` of another distribution is imported instead."""
