package pluginlog

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider"
)

func TestAsked(t *testing.T) {
	for variables, want := range map[string]bool{
		"":                                      false,
		"HOME=/root TF_LOG=":                    false,
		"TF_LOG=off TF_LOG_CORE=OFF":            false,
		"TF_LOG_PATH=terraform.log":             false,
		"TF_LOG_PATH_MASK=%s.log":               false,
		"TF_CLI_ARGS=-no-color TF_VAR_x=TF_LOG": false,
		"TF_LOG=trace":                          true,
		"TF_LOG=JSON TF_LOG_PATH=x":             true,
		"TF_LOG_PROVIDER=warn":                  true,
		"TF_LOG_PROVIDER_MUSTER=debug":          true,
		"TF_LOG_SDK_PROTO=debug":                true,
	} {
		if got := asked(strings.Fields(variables)); got != want {
			t.Errorf("%s: got %v", variables, got)
		}
	}
}

// asPlugin has the test's program be a plugin that is asked once.
const asPlugin = "MUSTER_TEST_AS_PLUGIN"

// The plugin writes what its libraries log only when somebody has asked for it.
func TestThePluginWritesNoLogsThatNobodyReads(t *testing.T) {
	if os.Getenv(asPlugin) != "" {
		QuietUnlessAsked()
		server := tf6server.New("muster", providerserver.NewProtocol6(provider.New("test")())())
		_, err := server.GetMetadata(context.Background(), nil)
		testkit.Must(t, err)
		return
	}
	for _, test := range []struct {
		env    string
		writes bool
	}{{"TF_LOG=", false}, {"TF_LOG=trace", true}} {
		command := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		command.Env = append(os.Environ(), "TF_LOG_SDK=", "TF_LOG_PROVIDER=", asPlugin+"=1", test.env)
		var logs bytes.Buffer
		command.Stderr = &logs
		testkit.Must(t, command.Run())
		if wrote := strings.Contains(logs.String(), "Received request"); wrote != test.writes {
			t.Errorf("with %s it wrote:\n%s", test.env, logs.String())
		}
	}
}
