package provider

import (
	"os/exec"
	"strings"
	"testing"
)

// forbiddenDependencies are packages that the provider must not link, not even by
// way of others. The linter (depguard in .golangci.yml) refuses to import them.
func forbiddenDependencies() []string {
	const module = "github.com/muster-fleet/terraform-provider-muster"
	return []string{
		"k8s.io/kubernetes", "k8s.io/client-go/kubernetes",
		"k8s.io/apiserver/pkg/server", "k8s.io/apiserver/pkg/endpoints", "k8s.io/apiserver/pkg/registry",
		"k8s.io/apiserver/pkg/storage", "k8s.io/apiserver/pkg/admission",
		"sigs.k8s.io/controller-runtime", "go.etcd.io/etcd/server",
		module + "/runtime/hub", module + "/runtime/agent", module + "/runtime/controlplane",
	}
}

// The provider has to stay small: everybody downloads it with every terraform
// init. The control plane and the typed clientset would make it three times as
// large. Of the API server's library it needs the expressions of placements, which
// it evaluates as the hub does.
func TestTheProviderLinksNoControlPlane(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/muster-fleet/terraform-provider-muster").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, dependency := range strings.Fields(string(out)) {
		for _, forbidden := range forbiddenDependencies() {
			if dependency == forbidden || strings.HasPrefix(dependency, forbidden+"/") {
				t.Errorf("the provider depends on %s", dependency)
			}
		}
	}
}
