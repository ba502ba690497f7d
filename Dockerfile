# The image of muster: one static binary, no shell, not root.
#
#   docker build --build-arg VERSION=v0.1.0 -t ghcr.io/muster-fleet/muster:v0.1.0 .
#
# The agent of a managed cluster runs it as `/muster agent …`.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build \
    -ldflags "-s -w -X github.com/muster-fleet/terraform-provider-muster/internal/version.version=$VERSION" \
    -o /muster ./runtime/cmd/muster

FROM gcr.io/distroless/static:nonroot
COPY --from=build /muster /muster
USER 65532:65532
ENTRYPOINT ["/muster"]
CMD ["--help"]
