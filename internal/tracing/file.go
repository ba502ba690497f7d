package tracing

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const (
	// configGroup and configKind are those of Kubernetes' configuration of tracing.
	configGroup = "apiserver.config.k8s.io/"
	configKind  = "TracingConfiguration"
	// defaultEndpoint is where the collector is when the configuration does not say.
	defaultEndpoint = "localhost:4317"
	perMillion      = 1_000_000
)

// Config is a TracingConfiguration of apiserver.config.k8s.io, as a hub takes it: where the
// collector is, which is spoken to with gRPC and without TLS, and how many of a million
// traces are sent, none by default.
type Config = tracingapi.TracingConfiguration

// ReadFile reads a Config, and refuses what is unknown in it.
func ReadFile(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file := struct {
		metav1.TypeMeta `json:",inline"`
		Config          `json:",inline"`
	}{}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	version, ok := strings.CutPrefix(file.APIVersion, configGroup)
	if file.Kind != configKind || !ok || version != "v1" && version != "v1beta1" && version != "v1alpha1" {
		return nil, fmt.Errorf("%s has the kind %q of %q, not %s of %sv1", path, file.Kind, file.APIVersion,
			configKind, configGroup)
	}
	if wrong := tracingapi.ValidateTracingConfiguration(&file.Config, nil, nil); len(wrong) > 0 {
		return nil, fmt.Errorf("%s: %w", path, wrong.ToAggregate())
	}
	return &file.Config, nil
}

// FromConfig is a Provider as a Config asks for it. It never samples more than the Config
// says, whatever the parent of a span is.
func FromConfig(config *Config, of Service) (*Provider, error) {
	endpoint := ptr.Deref(config.Endpoint, defaultEndpoint)
	network, address := dialed(endpoint)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, address)
	}}
	host := address
	if network == "unix" {
		host = "localhost"
	}
	to := newCollector(&url.URL{Scheme: "http", Host: host, Path: exportMethod}, true, transport)
	return newProvider(to, of, sampling(share(ptr.Deref(config.SamplingRatePerMillion, 0))/perMillion))
}

// dialed is how to reach an endpoint that is named as gRPC does it, by host and port or by
// a socket.
func dialed(endpoint string) (network, address string) {
	if path, ok := strings.CutPrefix(endpoint, "unix-abstract:"); ok {
		return "unix", "@" + strings.TrimPrefix(path, "//")
	}
	if path, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		return "unix", strings.TrimPrefix(path, "//")
	}
	if name, ok := strings.CutPrefix(endpoint, "dns:"); ok {
		endpoint = name[strings.LastIndex(name, "/")+1:]
	}
	return "tcp", endpoint
}
