# The gateway as a container: docker build -t looptrap:0.1.0 .
#
# It listens where its configuration says, and inside a container that is 127.0.0.1 by default: see
# deploy/compose and deploy/kubernetes for files that open it. Nothing but /var/lib/looptrap is
# written: run it with --read-only, and a volume or tmpfs there.

FROM python:3.12-slim AS build
# What else it shall know: docker build --build-arg EXTRAS=[jwt,otel] .
ARG EXTRAS=""
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
# Compiled once, here: when it runs, no byte code can be kept. pip itself stays behind.
RUN python -m venv --without-pip /opt/looptrap \
    && pip --python /opt/looptrap/bin/python install --no-cache-dir "./${EXTRAS}"

FROM python:3.12-slim
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
