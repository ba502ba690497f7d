package klusterlet

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestKlusterletImportID(t *testing.T) {
	text := types.StringValue
	for id, want := range map[string]klusterletIdentity{
		"c1@/k/c1":        {ClusterName: text("c1"), KubeconfigPath: text("/k/c1")},
		"c1@~/c1#admin":   {ClusterName: text("c1"), KubeconfigPath: text("~/c1"), Context: text("admin")},
		"agents/c1@/k/c1": {ClusterName: text("c1"), KubeconfigPath: text("/k/c1"), Namespace: text("agents")},
		"c1@/home/a@b/c1": {ClusterName: text("c1"), KubeconfigPath: text("/home/a@b/c1")},
	} {
		var diags diag.Diagnostics
		if got := parseKlusterletID(id, &diags); diags.HasError() || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", id, got, diags, want)
		}
	}
	for _, id := range []string{"c1", "@/k", "c1@", "/c1@/k"} {
		var diags diag.Diagnostics
		if parseKlusterletID(id, &diags); !diags.HasError() || !strings.Contains(diags.Errors()[0].Detail(), "CLUSTER_NAME@KUBECONFIG_PATH") {
			t.Errorf("%s passes for an ID: %v", id, diags)
		}
	}
}
