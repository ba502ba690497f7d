package provider_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
			if errors.Is(err, fs.ErrNotExist) && elsewhere()[name] != "" && version == 0 {
				continue // It has no row in the matrix, which records.
			}
			if err != nil {
				t.Errorf("%s has no recorded state of version %d: see record in this file: %v", name, version, err)
				continue
			}
			loads(t, server, name, version, schema.ValueType(), text)
		}
	}
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
