package kube

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestAnswersAreCompressedOnTheirWayBetweenMachines(t *testing.T) {
	for host, off := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost": true, "https://[::1]:6443/prefix": true,
		"https://hub.example.org": false, "https://10.0.0.1:6443": false, "https://localhost.example.org": false, "127.0.0.1:6443": false, "": false, "://": false,
	} {
		config := &rest.Config{Host: host}
		if got := withoutNeedlessCompression(config).DisableCompression; got != off {
			t.Errorf("%s: turned off: %v", host, got)
		}
		if config.DisableCompression {
			t.Errorf("%s: the caller's configuration was changed", host)
		}
	}
}
