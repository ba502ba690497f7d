# The image of muster: one static binary, no shell, not root.
#
#   docker build --build-arg VERSION=v0.1.0 -t ghcr.io/muster-fleet/muster:v0.1.0 .
#
# It needs BuildKit (docker buildx), which tells the platform to build for.
#
# The agent of a managed cluster runs it as `/muster agent …`; a hub keeps its
# state in the volume /data: `hub --data-dir /data/hub --bind-address 0.0.0.0 …`.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
# BuildKit's own values: a default here would win over them.
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build \
    -ldflags "-s -w -X github.com/muster-fleet/terraform-provider-muster/internal/version.version=$VERSION" \
    -o /muster ./runtime/cmd/muster \
    && install -d -m 0700 -o 65532 -g 65532 /data

FROM gcr.io/distroless/static:nonroot
COPY --from=build /muster /muster
COPY --from=build --chown=65532:65532 /data /data
VOLUME /data
USER 65532:65532
ENTRYPOINT ["/muster"]
CMD ["--help"]
