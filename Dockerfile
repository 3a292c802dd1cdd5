# Not built where this is developed (no Docker engine there): linted only. Report what fails.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY bot bot
COPY rag_graph rag_graph
COPY store store
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 signoff && install -d -o signoff /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH SIGNOFF_HOME=/data PYTHONUNBUFFERED=1
USER signoff
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8787/readyz', timeout=2)"]
# SIGNOFF_DATABASE_URL and SIGNOFF_CONSOLE_TOKEN are required here; `signoff worker` is a second container.
ENTRYPOINT ["signoff"]
CMD ["serve", "--host", "0.0.0.0"]
