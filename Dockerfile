# The gateway as a container: docker build -t looptrap:0.1.0.dev0 .
#
# It listens where its configuration says, and inside a container that is 127.0.0.1 by default: see
# deploy/compose and deploy/kubernetes for files that open it.

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/looptrap \
    && /opt/looptrap/bin/pip install --no-cache-dir --no-compile .

FROM python:3.12-slim
# No name is needed: orchestrators check that the number is not root's.
RUN install -d -o 10001 -g 10001 /var/lib/looptrap
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
