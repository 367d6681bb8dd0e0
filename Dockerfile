# The gateway as a container: docker build -t looptrap:0.1.0 .
#
# It listens where its configuration says, and inside a container that is 127.0.0.1 by default: see
# deploy/compose and deploy/helm for files that open it. Nothing but /var/lib/looptrap is
# written: run it with --read-only, and a volume or tmpfs there.

# A tag can be moved to another image, a digest cannot:
# docker build --build-arg PYTHON_IMAGE=python:3.12-slim@sha256:… .
# Its Python is built with --enable-optimizations and --with-lto: another image's should be, too.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
# What else it shall know: docker build --build-arg EXTRAS=[jwt,otel] .
ARG EXTRAS=""
WORKDIR /source
# The modules on the path of a call are compiled, which needs a compiler: it stays in this stage.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY src src
# All that is downloaded, build tools included, has the version and a hash of the lock file.
# Afterwards only these files can be installed, so no version has to be named again.
# hadolint ignore=DL3013
RUN pip download --no-cache-dir --require-hashes --only-binary :all: \
        --requirement requirements.lock --dest wheels \
    && pip install --no-cache-dir --no-index --find-links wheels --requirement requirements.lock \
    && HATCH_BUILD_HOOK_ENABLE_MYPYC=true \
       pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels .
# Byte code is made once, here: when it runs, none can be kept. pip itself stays behind.
# hadolint ignore=DL3013
RUN python -m venv --without-pip /opt/looptrap \
    && pip --python /opt/looptrap/bin/python install --no-cache-dir \
        --no-index --find-links wheels "looptrap${EXTRAS}"

FROM ${PYTHON_IMAGE}
# No name is needed: orchestrators check that the number is not root's.
RUN install -d -o 10001 -g 10001 -m 0700 /var/lib/looptrap
COPY --from=build /opt/looptrap /opt/looptrap
ENV PATH=/opt/looptrap/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/looptrap
EXPOSE 4100 4101
# A gateway whose store is away says 200 and `degraded`: it serves, and must not be restarted.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:4101/readyz', timeout=2)"]
ENTRYPOINT ["looptrap"]
CMD ["serve"]
