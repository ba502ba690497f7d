package provider_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

// record has TestAccMatrix write the states of its resources to testdata, where there
// is none of their version yet:
//
//	hack/test.sh ./provider -run TestAccMatrix -args -record
var record = flag.Bool("record", false, "write the states of resources to testdata/states")

// recorded is where the state of a resource is that a version of its schema wrote.
func recorded(resource string, version int64) string {
	return filepath.Join("testdata", "states", fmt.Sprintf("%s.v%d.json", resource, version))
}

// recordStates writes the states of a workspace down. What is there already stays: it
// is what users have.
func recordStates(t *testing.T, workspace string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(workspace, "terraform.tfstate"))
	testkit.Must(t, err)
	var state struct {
		Resources []struct {
			Type      string
			Instances []struct {
				Version    int64 `json:"schema_version"`
				Attributes json.RawMessage
			}
		}
	}
	testkit.Must(t, json.Unmarshal(text, &state))
	testkit.Must(t, os.MkdirAll(filepath.Join("testdata", "states"), 0o755))
	for _, r := range state.Resources {
		path := recorded(r.Type, r.Instances[0].Version)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		testkit.Must(t, os.WriteFile(path, append(r.Instances[0].Attributes, '\n'), 0o644))
	}
}

// Users' states outlive versions of the provider. Each version of a schema that was
// ever released has a recorded state, which has to load for good.
func TestStatesOfAllVersionsLoad(t *testing.T) {
	server := acctest.ConfiguredServer(t, "http://127.0.0.1:1")
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	testkit.Must(t, err)
	for _, name := range resourceNames(t) {
		schema := schemas.ResourceSchemas[name]
		for version := int64(0); version <= schema.Version; version++ {
			text, err := os.ReadFile(recorded(name, version))
			if err != nil {
				t.Errorf("%s has no recorded state of version %d: see record in this file: %v", name, version, err)
				continue
			}
			loads(t, server, name, version, schema.ValueType(), text)
		}
	}
}

// plansFromRecordedStates puts each recorded state in the place of what the workspace
// has of its resource, version by version: the plan has to be empty. kept are attributes
// that no recorded state can have, such as an ID that the hub has made up, by resource:
// only its resources are looked at.
func plansFromRecordedStates(t *testing.T, w *acctest.Terraform, config string, kept map[string][]string) {
	t.Helper()
	file := filepath.Join(w.Dir, "terraform.tfstate")
	original, err := os.ReadFile(file)
	testkit.Must(t, err)
	for version := 0; ; version++ {
		var state map[string]any
		testkit.Must(t, json.Unmarshal(original, &state))
		replaced := 0
		for _, r := range state["resources"].([]any) {
			r := r.(map[string]any)
			name, instance := r["type"].(string), r["instances"].([]any)[0].(map[string]any)
			text, err := os.ReadFile(recorded(name, int64(version)))
			if _, own := kept[name]; !own || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			testkit.Must(t, err)
			var attributes map[string]any
			testkit.Must(t, json.Unmarshal(text, &attributes))
			for _, k := range kept[name] {
				attributes[k] = instance["attributes"].(map[string]any)[k]
			}
			instance["attributes"], instance["schema_version"] = attributes, version
			replaced++
		}
		if replaced == 0 {
			if version == 0 {
				t.Error("there are no recorded states")
			}
			break
		}
		text, err := json.Marshal(state)
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(file, text, 0o600))
		if planned := w.Plan(config); !strings.Contains(planned, noChanges) {
			t.Errorf("the plan on the recorded states of version %d is not empty: %s", version, planned)
		}
	}
	testkit.Must(t, os.WriteFile(file, original, 0o600))
}

// loads fails the test if a state does not load, or loses an attribute.
func loads(t *testing.T, server tfprotov6.ProviderServer, name string, version int64, kind tftypes.Type, text []byte) {
	t.Helper()
	upgraded, err := server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
		TypeName: name, Version: version, RawState: &tfprotov6.RawState{JSON: text},
	})
	testkit.Must(t, err)
	for _, d := range upgraded.Diagnostics {
		t.Fatalf("%s, version %d: %s: %s", name, version, d.Summary, d.Detail)
	}
	value, err := upgraded.UpgradedState.Unmarshal(kind)
	testkit.Must(t, err)
	var is map[string]tftypes.Value
	var was map[string]any
	testkit.Must(t, value.As(&is))
	testkit.Must(t, json.Unmarshal(text, &was))
	for attribute, before := range was {
		if now, there := is[attribute]; before != nil && (!there || now.IsNull()) {
			t.Errorf("%s, version %d: the attribute %s is lost", name, version, attribute)
		}
	}
}
