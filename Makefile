# `make` or `make help` lists what there is. Every target does its own set-up.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The Python that makes .venv (3.11 to 3.14); found when not given.
PYTHON ?=
LAB := inventories/lab

export PATH := $(CURDIR)/.venv/bin:$(PATH)
STEP := tools/step.sh

.PHONY: help
help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: dev
dev: ## Make .venv and the self-symlink, so that everything runs from this checkout
	@tools/venv.sh .venv "$(PYTHON)" requirements-dev.txt
	@mkdir -p collections/ansible_collections/tandem
	@ln -sfnT ../../.. collections/ansible_collections/tandem/vllm

# Gates

# Their steps all run, so that one run tells everything.

.PHONY: lint
lint: dev ## Linters and types: Ansible, YAML, Python, Markdown, changelog
	@rc=0; \
	$(STEP) "yamllint" yamllint --strict . || rc=1; \
	$(STEP) "ruff check" ruff check . || rc=1; \
	$(STEP) "ruff format" ruff format --check . || rc=1; \
	$(STEP) "mypy --strict" mypy -p ansible_collections.tandem.vllm.plugins || rc=1; \
	$(STEP) "mypy --strict, keeper" mypy roles/rank_group/files/rank_group.py || rc=1; \
	$(STEP) "Markdown" pymarkdown scan $$(git ls-files '*.md') || rc=1; \
	$(STEP) "shellcheck" shellcheck $$(git ls-files '*.sh' .ci/run) || rc=1; \
	$(STEP) "changelog" antsibull-changelog lint || rc=1; \
	$(STEP) "ansible-lint, production profile" ansible-lint --offline || rc=1; \
	exit $$rc

.PHONY: units
units: dev ## Unit tests on both supported ansible-core versions
	@rc=0; \
	$(STEP) "pytest tests/unit in .venv" pytest tests/unit || rc=1; \
	other=$$(tools/other_core.sh); \
	PATH="$(CURDIR)/$$other/bin:$$PATH" $(STEP) "pytest tests/unit in $$other" $$other/bin/pytest tests/unit || rc=1; \
	exit $$rc

.PHONY: sanity
sanity: dev ## ansible-test sanity and units
	@rc=0; \
	$(STEP) "ansible-test sanity" tools/ansible_test.sh sanity || rc=1; \
	$(STEP) "ansible-test units" tools/ansible_test.sh units tests/unit/plugins/ || rc=1; \
	exit $$rc

.PHONY: molecule
molecule: dev ## Every role's scenario on the lab's hosts (SCENARIO=name for one); the lab stays up
	@molecule reset >/dev/null # what an earlier run remembers of a lab that may be gone
	@$(STEP) "molecule" molecule test $(if $(SCENARIO),--scenario-name $(SCENARIO),--all) --destroy never --no-command-borders

.PHONY: e2e
e2e: dev ## The whole product on the lab; the lab stays up
	@$(STEP) "pytest tests/e2e" pytest -v --durations=10 tests/e2e

.PHONY: test
test: ## Every gate above, in order, with times (KEEP_LAB=1 leaves the lab up)
	@tools/test.sh

# Offline bundle

# Where `make bundle` writes it.
BUNDLE ?= $(CURDIR)/.bundle
# The image has another version: so it is the wheels that bring this one.
BUNDLE_RAY ?= {"version": "2.59.0", "extras": ["default"]}

.PHONY: bundle
bundle: dev ## Make the lab's offline bundle, Ray's wheels and the model included (BUNDLE=folder)
	@$(STEP) "lab up" ansible-playbook playbooks/lab_up.yml -i $(LAB)
	@$(STEP) "bundle" ansible-playbook playbooks/bundle.yml -i $(LAB) -e tandem_bundle='$(BUNDLE)' -e bundle_model_files=true \
		-e tandem_bundle_gateway_packages=true -e '{"tandem_ray": $(BUNDLE_RAY)}'

# Demo

.PHONY: demo
demo: dev ## A real two-node deployment on this machine, no GPU needed
	@$(STEP) "lab up" ansible-playbook playbooks/lab_up.yml -i $(LAB)
	@$(STEP) "deploy dual-replica" ansible-playbook dual-replica.yml -i $(LAB)
	@$(STEP) "ask the gateway" python tools/demo.py $(LAB)

.PHONY: demo-down
demo-down: dev ## Take the lab down: nothing of it is left but its caches
	@$(STEP) "lab down" ansible-playbook playbooks/lab_down.yml -i $(LAB)
