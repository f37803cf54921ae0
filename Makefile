# `make` or `make help` lists what there is. Every target does its own set-up.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that makes .venv (3.11 to 3.14); found when not given.
PYTHON ?=
VENV := $(CURDIR)/.venv
export PATH := $(VENV)/bin:$(PATH)

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: dev
dev: ## Make .venv and the self-symlink, so that everything runs from this checkout
	@tools/venv.sh .venv "$(PYTHON)" requirements-dev.txt
	@mkdir -p collections/ansible_collections/tandem
	@ln -sfnT ../../.. collections/ansible_collections/tandem/vllm
