package crud_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/provider/embedded"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

func TestAccEveryKindIsListedByWhatItHas(t *testing.T) {
	acctest.World(t, "listed")
	p, _ := listedBy(t)
	for name, test := range map[string]struct {
		resource string
		config   map[string]any
		limit    int64
		want     string
	}{
		"clusters by name":            {"managed_cluster", map[string]any{"name": "listed-*"}, 0, "listed-a listed-b"},
		"no more than the limit":      {"managed_cluster", map[string]any{"name": "listed-*"}, 1, "listed-a"},
		"by a class of characters":    {"managed_cluster", map[string]any{"name": "listed-[b-z]"}, 0, "listed-b"},
		"clusters by set":             {"managed_cluster", map[string]any{"cluster_set": "listed"}, 0, "listed-a"},
		"clusters by labels":          {"managed_cluster", map[string]any{"name": "listed-*", "label_selector": "env in (test)"}, 0, "listed-a"},
		"only accepted ones":          {"cluster_acceptance", map[string]any{"name": "listed-*"}, 0, "listed-a"},
		"only registered ones":        {"cluster_registration", map[string]any{"name": "listed-*"}, 0, "listed-a"},
		"tokens":                      {"bootstrap_token", map[string]any{"name": "bootstrap-token-listed"}, 0, "listed"},
		"sets":                        {"managed_cluster_set", map[string]any{"name": "listed"}, 0, "listed"},
		"the hub's sets":              {"managed_cluster_set", map[string]any{"name": "[dg]*l*"}, 0, ""},
		"the hub's sets when asked":   {"managed_cluster_set", map[string]any{"name": "[dg]*l*", "include_generated": true}, 0, "default global"},
		"bindings":                    {"managed_cluster_set_binding", map[string]any{"cluster_set": "listed"}, 0, "listed/listed"},
		"placements by set":           {"placement", map[string]any{"cluster_set": "listed"}, 0, "where/listed"},
		"placements by a namespace":   {"placement", map[string]any{"namespace": "listed"}, 0, "where/listed"},
		"placements by pattern":       {"placement", map[string]any{"namespace": "l?sted"}, 0, "where/listed"},
		"works without generated":     {"manifest_work", map[string]any{"managed_cluster": "listed-a"}, 0, "listed-a/web"},
		"works, generated ones too":   {"manifest_work", map[string]any{"managed_cluster": "listed-a", "include_generated": true}, 0, "listed-a/made listed-a/web"},
		"works by the cluster's set":  {"manifest_work", map[string]any{"cluster_set": "listed"}, 0, "listed-a/web"},
		"works of no such set":        {"manifest_work", map[string]any{"cluster_set": "nothing"}, 0, ""},
		"replica sets":                {"manifest_work_replica_set", map[string]any{"namespace": "listed"}, 0, "everywhere/listed"},
		"scores by the cluster's set": {"addon_placement_score", map[string]any{"cluster_set": "listed"}, 0, "listed-a/latency"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := list(t, p, test.resource, test.config, test.limit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What a list says of an object is what an import of it says.
func TestAccListsSayWhatImportsSay(t *testing.T) {
	acctest.World(t, "equals")
	p, _ := listedBy(t)
	for _, resource := range p.Listed() {
		for listed, err := range p.ListResources(t.Context(), resource, map[string]any{"name": "*"}, 0) {
			if err != nil {
				t.Fatal(err)
			}
			schema, err := p.Schema(resource)
			if err != nil {
				t.Fatal(err)
			}
			imported, err := p.Import(t.Context(), resource, listed.ID())
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(listed.Identity, imported.Identity) {
				t.Errorf("%s: %v is listed and %v imported", resource, listed.Identity, imported.Identity)
			}
			there, here := map[string]tftypes.Value{}, map[string]tftypes.Value{}
			if err := listed.State.As(&there); err != nil {
				t.Fatal(err)
			}
			if err := imported.State.As(&here); err != nil {
				t.Fatal(err)
			}
			for _, a := range schema.Block.Attributes {
				if (a.Required || a.Optional) && !there[a.Name].Equal(here[a.Name]) {
					t.Errorf("%s %v: %s is listed as %s and imported as %s", resource, listed.Identity, a.Name, there[a.Name], here[a.Name])
				}
			}
			if listed.Name == "" {
				t.Errorf("%s %v has no name for people", resource, listed.Identity)
			}
		}
	}
}

func TestAccWhatTerraformOrADeletionHoldsIsLeftOutAndSaid(t *testing.T) {
	someone := acctest.World(t, "leaves")
	w := acctest.NewTerraform(t)
	if said, ok := w.Apply(`resource "muster_placement" "p" {
  namespace = "leaves"
  name      = "ours"
}
import {
  to = muster_placement.p2
  id = "leaves/where"
}
resource "muster_placement" "p2" {
  namespace    = "leaves"
  name         = "where"
  cluster_sets = ["leaves"]
  labels       = { team = "shop" }
}`); !ok {
		t.Fatal(said)
	}
	someone.Patch(&clusterv1.ManagedCluster{}, "", "leaves-b", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	ctx, cancel := someone.Context()
	defer cancel()
	if _, err := someone.Client.Delete(ctx, &clusterv1.ManagedCluster{}, "", "leaves-b", ""); err != nil {
		t.Fatal(err)
	}
	defer someone.Patch(&clusterv1.ManagedCluster{}, "", "leaves-b", `{"metadata":{"finalizers":null}}`)
	p, warnings := listedBy(t)
	if got := list(t, p, "placement", map[string]any{"namespace": "leaves"}, 0); got != "" {
		t.Errorf("listed %q, which Terraform manages", got)
	}
	if len(*warnings) != 1 || !strings.Contains((*warnings)[0], "2 managed in Terraform already (include_managed = true lists them)") {
		t.Errorf("warned %q", *warnings)
	}
	if got := list(t, p, "placement", map[string]any{"namespace": "leaves", "include_managed": true}, 0); got != "ours/leaves where/leaves" {
		t.Errorf("listed %q with include_managed", got)
	}
	if got := list(t, p, "managed_cluster", map[string]any{"name": "leaves-b"}, 0); got != "" {
		t.Errorf("listed %q, which is being deleted", got)
	}
	if got := list(t, p, "managed_cluster", map[string]any{"name": "leaves-b", "include_deleting": true}, 0); got != "leaves-b" {
		t.Errorf("listed %q with include_deleting", got)
	}
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
	if someone.Exists(&clusterv1beta1.Placement{}, "leaves", "where") {
		t.Error("the imported placement was not destroyed")
	}
}

func TestAccListsExplainMistakesAndMissingRights(t *testing.T) {
	p, _ := listedBy(t)
	someone := acctest.Someone(t)
	unable, err := embedded.New(t.Context(), "test", map[string]any{"host": someone.Client.Host(), "token": "wrong", "insecure": true})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		p        *embedded.Provider
		resource string
		config   map[string]any
		want     []string
	}{
		"pattern":  {p, "muster_managed_cluster", map[string]any{"name": "prod-["}, []string{"Invalid pattern", `"prod-["`, "each [ needs its ]"}},
		"selector": {p, "muster_managed_cluster", map[string]any{"label_selector": "env==="}, []string{"Invalid label selector"}},
		"set":      {p, "muster_managed_cluster", map[string]any{"cluster_set": "Prod"}, []string{"cluster set name"}},
		"rights":   {unable, "muster_placement", nil, []string{"Cannot list the placements", "renew the token"}},
	} {
		t.Run(name, func(t *testing.T) {
			var last error
			for _, err := range test.p.ListResources(t.Context(), test.resource, test.config, 0) {
				last = err
			}
			for _, want := range test.want {
				if last == nil || !strings.Contains(last.Error(), want) {
					t.Errorf("got %v, want %q", last, want)
				}
			}
		})
	}
}
