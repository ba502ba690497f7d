package klusterlet

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

const (
	noProxy = "NO_PROXY"
	// ownServer is the cluster's API server as pods know it. The kubelet puts the
	// address in.
	ownServer = "$(KUBERNETES_SERVICE_HOST)"
)

// isProxy reports whether an environment variable names a proxy.
func isProxy(name string) bool {
	return slices.Contains([]string{"HTTP_PROXY", "HTTPS_PROXY"}, strings.ToUpper(name))
}

// badProxy says what is wrong with the address of a proxy; empty when nothing is. Go
// takes what it can't read for no proxy, without a word.
func badProxy(address string) string {
	if address == "" {
		return ""
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	switch u, err := url.Parse(address); {
	case err != nil || u.Host == "":
		return "is not a URL"
	case !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme):
		return fmt.Sprintf("has the scheme %q, which no proxy has", u.Scheme)
	}
	return ""
}

// env are the container's environment variables. An agent with a proxy on the way to
// its hub reaches its own API server directly, without anybody having to think of it.
func (o *Options) env() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, variable := range o.Env {
		env = append(env, corev1.EnvVar{Name: variable.Name, Value: variable.Value})
	}
	if !slices.ContainsFunc(o.Env, func(v v1alpha1.EnvVar) bool { return isProxy(v.Name) && v.Value != "" }) {
		return env
	}
	exempt := false
	for i := range env {
		if strings.ToUpper(env[i].Name) != noProxy {
			continue
		}
		exempt = true
		env[i].Value = withOwnServer(env[i].Value)
	}
	if !exempt {
		env = append(env, corev1.EnvVar{Name: noProxy, Value: withOwnServer("")})
	}
	return env
}

// withOwnServer adds the cluster's own API server to a list of what is reached without
// a proxy.
func withOwnServer(list string) string {
	entries := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if slices.Contains(entries, "*") || slices.Contains(entries, ownServer) {
		return list
	}
	return strings.Join(append(entries, ownServer), ",")
}
