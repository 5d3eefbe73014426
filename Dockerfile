# `nmt serve` on CPUs; docs/deploying.md says how to run it.
#     docker build --tag nmt .

# Releases of Python and Debian are fixed; `docker build --pull` brings their security fixes.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
# The small CPU build of torch comes from here; empty: from the default package index.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PATH=/opt/nmt/bin:$PATH
WORKDIR /src

# From what changes least to what changes most: torch, the dependencies, nmt.
COPY constraints.txt ./
RUN python3 -m venv /opt/nmt \
    && pip install --retries 1 --no-deps --constraint constraints.txt \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch

COPY pyproject.toml ./
RUN python -c "import tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = project['optional-dependencies']; \
print(*project['dependencies'], *extras['serve'], *extras['ctranslate2'], sep='\n')" > requirements.txt \
    && pip install --constraint constraints.txt --requirement requirements.txt

COPY setup.py MANIFEST.in README.md LICENSE ./
COPY configs configs
COPY data/sample data/sample
COPY docs/settings.md docs/settings.md
COPY nmt nmt
RUN pip install --no-deps .


FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="nmt" \
      org.opencontainers.image.description="A translation server for models trained by nmt" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

RUN groupadd --gid 10001 nmt \
    && useradd --uid 10001 --gid nmt --no-create-home --home-dir /tmp --shell /usr/sbin/nologin nmt
COPY --from=build /opt/nmt /opt/nmt

# Nothing is written but in /tmp, so the root file system can be read-only.
ENV PATH=/opt/nmt/bin:$PATH HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
# Runs are mounted at /srv/runs, of which the newest is served by default; exported models at /srv/models.
WORKDIR /srv
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["nmt"]
CMD ["serve", "--host", "0.0.0.0"]
