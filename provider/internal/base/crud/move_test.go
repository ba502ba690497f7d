package crud_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// Every resource that is one object of the hub takes over a manifest of it, without
// asking the hub.
func TestEveryKindCanBeMoved(t *testing.T) {
	server := acctest.ConfiguredServer(t, "https://127.0.0.1:1")
	manifests := `"workload":{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}]}`
	for kind, text := range map[string]string{
		"namespace":                   `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
		"managed_cluster":             `{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"a"},"spec":{"hubAcceptsClient":true}}`,
		"managed_cluster_set":         `{"apiVersion":"cluster.open-cluster-management.io/v1beta2","kind":"ManagedClusterSet","metadata":{"name":"a"},"spec":null}`,
		"managed_cluster_set_binding": `{"apiVersion":"cluster.open-cluster-management.io/v1beta2","kind":"ManagedClusterSetBinding","metadata":{"name":"a","namespace":"n"},"spec":{"clusterSet":"a"}}`,
		"placement":                   `{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":"a"}}`,
		"addon_placement_score":       `{"apiVersion":"cluster.open-cluster-management.io/v1alpha1","kind":"AddOnPlacementScore","metadata":{"name":"a","namespace":"n"}}`,
		"manifest_work":               `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{"name":"a","namespace":"n"},"spec":{` + manifests + `}}`,
		"manifest_work_replica_set":   `{"apiVersion":"work.open-cluster-management.io/v1alpha1","kind":"ManifestWorkReplicaSet","metadata":{"name":"a","namespace":"n"},"spec":{"placementRefs":[{"name":"p"}],"manifestWorkTemplate":{` + manifests + `}}}`,
		"bootstrap_token":             `{"apiVersion":"v1","kind":"Secret","type":"bootstrap.kubernetes.io/token","metadata":{"name":"bootstrap-token-abcdef","namespace":"kube-system"},"stringData":{"token-id":"abcdef","token-secret":"0123456789abcdef"}}`,
	} {
		for source, attributes := range map[string]any{
			"kubernetes_manifest": map[string]any{"manifest": map[string]any{"type": "dynamic", "value": json.RawMessage(text)}, "object": nil, "field_manager": nil},
			"kubectl_manifest":    map[string]any{"yaml_body": text, "uid": "u"},
		} {
			state, err := json.Marshal(attributes)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.MoveResourceState(t.Context(), &tfprotov6.MoveResourceStateRequest{
				SourceProviderAddress: "registry.terraform.io/x/y", SourceTypeName: source, SourceState: &tfprotov6.RawState{JSON: state}, TargetTypeName: "muster_" + kind,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range resp.Diagnostics {
				t.Errorf("%s to %s: %s: %s", source, kind, d.Summary, d.Detail)
			}
			if resp.TargetState == nil || resp.TargetIdentity == nil || !strings.Contains(string(resp.TargetPrivate), "from") && !strings.Contains(string(resp.TargetPrivate), "claim") {
				t.Errorf("%s to %s: got %+v", source, kind, resp)
			}
		}
	}
	resp, err := server.MoveResourceState(t.Context(), &tfprotov6.MoveResourceStateRequest{
		SourceTypeName: "aws_instance", SourceState: &tfprotov6.RawState{JSON: []byte(`{}`)}, TargetTypeName: "muster_placement",
	})
	if err != nil || len(resp.Diagnostics) != 1 {
		t.Errorf("a machine became a placement: %+v, %v", resp, err)
	}
}
