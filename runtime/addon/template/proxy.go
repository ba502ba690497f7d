package template

import (
	"errors"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// Where the certificates of a proxy's authorities are in a container, and in their
// ConfigMap.
const (
	proxyCAPath = "/managed/proxy-ca"
	proxyCAKey  = "ca-bundle.crt"
)

// proxy is the way out of a cluster.
type proxy struct {
	environment []variable
	// mount is of the certificates, nil where no container gets a proxy.
	mount *mount
	// certificates are for a ConfigMap, which there is if they are not empty.
	certificates string
}

func proxyOf(addOn string, c v1alpha1.ProxyConfig) (proxy, error) {
	var p proxy
	for _, x := range []struct{ upper, lower, value string }{
		{"HTTP_PROXY", "http_proxy", c.HTTPProxy},
		{"HTTPS_PROXY", "https_proxy", c.HTTPSProxy},
		{"NO_PROXY", "no_proxy", c.NoProxy},
	} {
		if x.value != "" {
			p.environment = append(p.environment, variable{x.upper, x.value}, variable{x.lower, x.value})
		}
	}
	if len(c.CABundle) == 0 {
		return p, nil
	}
	if !utf8.Valid(c.CABundle) {
		return p, errors.New("spec.proxyConfig.caBundle is no text: it has to be certificates in PEM, base64 encoded once")
	}
	p.certificates = string(c.CABundle)
	if len(p.environment) > 0 {
		p.environment = append(p.environment, variable{"CA_BUNDLE_FILE_PATH", proxyCAPath + "/" + proxyCAKey})
		p.mount = &mount{volume: "proxy-ca-bundle", kind: "configMap", key: "name", object: proxyConfigMap(addOn), path: proxyCAPath}
	}
	return p, nil
}

// proxyConfigMap is the name of the ConfigMap with the certificates.
func proxyConfigMap(addOn string) string { return addOn + "-proxy-ca" }

// additions are the objects that a configuration adds: the ConfigMap with the proxy's
// certificates, for each workload whose pods mount it in its namespace, and otherwise in
// that of the agent.
func (c *changes) additions(
	all []*unstructured.Unstructured, namespace string,
) (out []*unstructured.Unstructured, err error) {
	if c.proxy.certificates == "" {
		return nil, nil
	}
	there := map[string]bool{}
	add := func(namespace string) {
		if there[namespace] || err != nil {
			return
		}
		there[namespace] = true
		if err = c.left.grow(len(c.proxy.certificates)+overhead, "the proxy's certificates"); err != nil {
			return
		}
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": proxyConfigMap(c.addOn), "namespace": namespace},
			"data":     map[string]any{proxyCAKey: c.proxy.certificates},
		}})
	}
	if c.proxy.mount != nil {
		for _, o := range all {
			if isWorkload(o) && o.GetNamespace() != "" {
				add(o.GetNamespace())
			}
		}
	}
	if len(out) == 0 {
		add(namespace)
	}
	return out, err
}
