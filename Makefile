.PHONY: test clean
