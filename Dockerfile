# The images of muster: one static program each, no shell, not root.
#
#   docker build --build-arg VERSION=v0.1.0 -t ghcr.io/muster-fleet/muster:v0.1.0 .
#   docker build --build-arg VERSION=v0.1.0 --target hub -t ghcr.io/muster-fleet/muster-hub:v0.1.0 .
#
# It needs BuildKit (docker buildx), which sets the platform to build for.
#
# The image of agents, which managed clusters pull, holds the agent alone and is run
# as `/muster agent …`. The image of hubs holds the complete program; a hub keeps
# its state in the volume /data: `hub --data-dir /data/hub --bind-address 0.0.0.0 …`.

FROM --platform=$BUILDPLATFORM golang:1.26@sha256:595c7847cff97c9a9e76f015083c481d26078f961c9c8dca3923132f51fe12f1 AS source
# BuildKit's own values: a default here would win over them.
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    GOFLAGS="-trimpath" \
    LDFLAGS="-s -w -X github.com/muster-fleet/terraform-provider-muster/internal/version.version=$VERSION"

FROM source AS build-hub
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags "$LDFLAGS" -o /muster ./runtime/cmd/muster \
    && install -d -m 0700 -o 65532 -g 65532 /data

FROM source AS build-agent
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags "$LDFLAGS" -o /muster ./runtime/cmd/muster-agent

FROM gcr.io/distroless/static:nonroot@sha256:f7f8f729987ad0fdf6b05eeeae94b26e6a0f613bdf46feea7fc40f7bd72953e6 AS hub
COPY --from=build-hub /muster /muster
COPY --from=build-hub --chown=65532:65532 /data /data
VOLUME /data
USER 65532:65532
ENTRYPOINT ["/muster"]
CMD ["--help"]

# The last one is what a build without --target makes.
FROM gcr.io/distroless/static:nonroot@sha256:f7f8f729987ad0fdf6b05eeeae94b26e6a0f613bdf46feea7fc40f7bd72953e6 AS agent
COPY --from=build-agent /muster /muster
USER 65532:65532
ENTRYPOINT ["/muster"]
CMD ["--help"]
