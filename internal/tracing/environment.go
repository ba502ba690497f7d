package tracing

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// httpPort is the port at which collectors speak OTLP with plain HTTP.
const httpPort = "4318"

// FromEnvironment is a Provider as OpenTelemetry's variables ask for it. It is nil when they
// don't: without OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, with
// OTEL_SDK_DISABLED=true, and with OTEL_TRACES_EXPORTER=none. TRACEPARENT is its parent.
func FromEnvironment(getenv func(string) string, of Service) (*Provider, error) {
	e := environment{getenv}
	if e.of("ENDPOINT") == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	switch kind := getenv("OTEL_TRACES_EXPORTER"); kind {
	case "none":
		return nil, nil
	case "", "otlp":
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: spans are sent by otlp only", kind)
	}
	to, err := e.collector()
	if err != nil {
		return nil, err
	}
	p, err := newProvider(to, of, nil)
	if err != nil {
		return nil, err
	}
	p.Parent = Parent(getenv("TRACEPARENT"))
	return p, nil
}

// environment has the variables of OTLP.
type environment struct{ getenv func(string) string }

// of is a variable's value for traces, or for all that is sent.
func (e environment) of(name string) string {
	return cmp.Or(e.getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), e.getenv("OTEL_EXPORTER_OTLP_"+name))
}

func (e environment) collector() (*collector, error) {
	text := e.of("ENDPOINT")
	if !strings.Contains(text, "://") {
		scheme := "https"
		if strings.EqualFold(e.of("INSECURE"), "true") {
			scheme = "http"
		}
		text = scheme + "://" + text
	}
	at, err := url.Parse(text)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		// The URL may have a password in it, which url.Parse quotes.
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is not the URL of a collector: " +
			"give one like http://localhost:4317")
	}
	grpc, err := e.speaksGRPC(at.Port())
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if transport.TLSClientConfig, err = e.tls(); err != nil {
		return nil, err
	}
	switch {
	case grpc:
		at.Path = exportMethod
		if at.Scheme == "http" {
			transport.Proxy = nil // a proxy would not speak HTTP/2
		}
	case e.getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		at = at.JoinPath(exportPath)
	}
	c := newCollector(at, grpc, transport)
	c.headers, err = e.headers()
	return c, err
}

// speaksGRPC reports which of the two protocols is asked for: gRPC, unless the port is that
// of the other one.
func (e environment) speaksGRPC(port string) (bool, error) {
	switch protocol := e.of("PROTOCOL"); protocol {
	case "grpc":
		return true, nil
	case "http/protobuf":
		return false, nil
	case "":
		return port != httpPort, nil
	default:
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: use grpc or http/protobuf", protocol)
	}
}

// tls is how to verify the collector.
func (e environment) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	file := e.of("CERTIFICATE")
	if file == "" {
		return config, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %s has no certificate", file)
	}
	return config, nil
}

// headers are those that each request has, such as a token.
func (e environment) headers() (map[string]string, error) {
	headers := map[string]string{}
	for i, pair := range strings.Split(e.of("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, text, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(text))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: entry %d is not NAME=VALUE", i+1)
		}
		headers[strings.TrimSpace(name)] = value
	}
	return headers, nil
}
