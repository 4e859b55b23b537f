# Punctual in a container: the embedded service, or one node on Dapr (see docker-compose.yml).
FROM python:3.11.14-slim-bookworm
WORKDIR /app
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scheduler_service scheduler_service
COPY client_sdk client_sdk
COPY examples examples
RUN pip install --no-cache-dir --constraint constraints.txt ".[service,dapr,postgres,mysql,redis,secrets,holidays,otel]" \
    && useradd --uid 1000 --create-home punctual \
    && install --directory --owner punctual --mode 0700 /data
USER punctual
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-c", "from os import environ as e; from urllib import request as r; r.urlopen(f\"http://127.0.0.1:{e.get('PUNCTUAL_SERVER__PORT', 8000)}/health/ready\")"]
CMD ["punctual", "serve", "--host", "0.0.0.0", "--data", "/data"]
