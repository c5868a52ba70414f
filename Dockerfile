# The page, its API and MCP in one small image. It listens on every address, so PERSONALAB_TOKEN must be given:
#   docker build -t personalab .
#   docker run -p 8765:8765 -e PERSONALAB_TOKEN=… -v personalab:/data personalab
FROM python:3.12-slim AS build
WORKDIR /build
RUN python -m venv /venv
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY personalab personalab
COPY nodes nodes
COPY graph graph
COPY mcp_server mcp_server
COPY web web
COPY cli cli
COPY data/shipped data/shipped
RUN /venv/bin/pip install --no-cache-dir --constraint constraints.txt ".[postgres]"

FROM python:3.12-slim
RUN useradd --uid 10001 --create-home personalab && install -d -m 700 -o personalab -g personalab /data
COPY --from=build /venv /venv
USER personalab
WORKDIR /home/personalab
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PERSONALAB_DATA=/data
VOLUME /data
EXPOSE 8765
# Without a token the server says so and does not start; a health check needs none.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8765/healthz', timeout=4)"]
CMD ["python", "-m", "web", "--host", "0.0.0.0", "--port", "8765"]
