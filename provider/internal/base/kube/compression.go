package kube

import (
	"net"
	"net/url"

	"k8s.io/client-go/rest"
)

// withoutNeedlessCompression is the configuration without compressed answers where
// the server is on this machine: there compressing costs more than it saves.
func withoutNeedlessCompression(config *rest.Config) *rest.Config {
	server, err := url.Parse(config.Host)
	if err != nil {
		return config
	}
	if name := server.Hostname(); name != "localhost" && !net.ParseIP(name).IsLoopback() {
		return config
	}
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	return config
}
