package crud_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// listedBy is the provider at the shared hub, and its warnings.
func listedBy(t *testing.T) (*embedded.Provider, *[]string) {
	t.Helper()
	if acctest.Acc.Hub == nil {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	p, err := embedded.New(t.Context(), "test", map[string]any{"kubeconfig_path": acctest.Acc.HubKubeconfig()})
	if err != nil {
		t.Fatal(err)
	}
	warnings := &[]string{}
	p.Warn = func(d embedded.Diagnostic) { *warnings = append(*warnings, d.Error()) }
	return p, warnings
}

// list are the names of what is listed, joined.
func list(t *testing.T, p *embedded.Provider, resource string, config map[string]any, limit int64) string {
	t.Helper()
	var names []string
	for listed, err := range p.ListResources(t.Context(), "muster_"+resource, config, limit) {
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, key := range slices.Sorted(maps.Keys(listed.Identity)) {
			values = append(values, listed.Identity[key])
		}
		names = append(names, strings.Join(values, "/"))
	}
	return strings.Join(names, " ")
}
