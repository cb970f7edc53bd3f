# `ar` in a container, as a base for your own image with the training environment and the agent:
#   docker build --tag ar .
#   docker run --rm --interactive --tty --volume "$PWD:/work" ar status
FROM rust:1.95-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN cargo install --locked --profile dist --path . --root /installed

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap ca-certificates git \
    && rm -rf /var/lib/apt/lists/* \
    # The repository belongs to the user outside.
    && git config --system --add safe.directory /work
COPY --from=build /installed/bin/ar /installed/bin/autoresearch /usr/local/bin/
WORKDIR /work
ENTRYPOINT ["ar"]
CMD ["help"]
