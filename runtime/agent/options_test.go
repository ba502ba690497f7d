package agent_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*agent.Options)
		want   []string // pieces of the error; none for a good one
	}{
		{"the least", func(*agent.Options) {}, nil},
		{"everything", func(o *agent.Options) {
			o.AgentID, o.Namespace, o.ClientCertExpirationSeconds, o.HealthAddress = "a.b-c", "ns", 3600, ":8000"
			o.ExternalServerURLs, o.ReservedClusterClaimSuffixes = []string{"https://c1.example.com"}, []string{".example.com"}
		}, nil},
		{"no name", func(o *agent.Options) { o.ClusterName = "" }, nil},
		{"a name with a dot", func(o *agent.Options) { o.ClusterName = "a.b" }, []string{`--cluster-name "a.b"`, "use 1 to 63"}},
		{"a name in capitals", func(o *agent.Options) { o.ClusterName = "C1" }, []string{`--cluster-name "C1"`}},
		{"a name of 64 characters", func(o *agent.Options) { o.ClusterName = strings.Repeat("a", 64) }, []string{"--cluster-name", "63"}},
		{"a reserved name", func(o *agent.Options) { o.ClusterName = "managed-clusters" }, []string{`--cluster-name "managed-clusters"`, "choose another name"}},
		{"the name of a shared role", func(o *agent.Options) { o.ClusterName = "work" }, []string{`--cluster-name "work"`, "choose another name"}},
		{"an agent's name with a colon", func(o *agent.Options) { o.AgentID = "a:b" }, []string{`--agent-id "a:b"`, "leave it out"}},
		{"a bad namespace", func(o *agent.Options) { o.Namespace = "a_b" }, []string{`--namespace "a_b"`}},
		{"no cluster", func(o *agent.Options) { o.ManagedCluster = nil }, []string{"--kubeconfig"}},
		{"too short a life", func(o *agent.Options) { o.ClientCertExpirationSeconds = 3599 }, []string{"--client-cert-expiration-seconds 3599", "3600"}},
		{"a negative life", func(o *agent.Options) { o.ClientCertExpirationSeconds = -1 }, []string{"--client-cert-expiration-seconds -1"}},
		{"a negative number of claims", func(o *agent.Options) { o.MaxCustomClusterClaims = -1 }, []string{"--max-custom-cluster-claims -1"}},
		{"a suffix that no name has", func(o *agent.Options) { o.ReservedClusterClaimSuffixes = []string{"A_B"} }, []string{`--reserved-cluster-claim-suffixes has "A_B"`}},
		{"an address without TLS", func(o *agent.Options) { o.ExternalServerURLs = []string{"http://c1"} }, []string{`--spoke-external-server-urls has "http://c1"`, "https://"}},
		{"a health address without a port", func(o *agent.Options) { o.HealthAddress = "localhost" }, []string{`--health-address "localhost"`, ":8000"}},
		{"tunnels for nobody", func(o *agent.Options) { o.Tunnels = true }, []string{"--tunnels", "add --user-access"}},
		{"tunnels", func(o *agent.Options) { o.Tunnels, o.UserAccess = true, true }, nil},
		{"two hubs", func(o *agent.Options) {
			o.Features, o.BootstrapKubeconfigs = gates("MultipleHubs=true"), []string{"a", "b"}
		}, nil},
		{"two hubs without the gate", func(o *agent.Options) { o.BootstrapKubeconfigs = []string{"a", "b"} }, []string{"--bootstrap-kubeconfigs needs --feature-gates MultipleHubs=true"}},
		{"the gate with one hub", func(o *agent.Options) {
			o.Features, o.BootstrapKubeconfigs = gates("MultipleHubs=true"), []string{"a"}
		}, []string{"MultipleHubs=true needs two hubs or more", "names 1"}},
		{"hubs in two flags", func(o *agent.Options) {
			o.Features, o.BootstrapKubeconfigs, o.BootstrapKubeconfig = gates("MultipleHubs=true"), []string{"a", "b"}, "c"
		}, []string{"--bootstrap-kubeconfig c", "exclude each other"}},
		{"a timeout that is too short", func(o *agent.Options) { o.HubConnectionTimeoutSeconds = 5 }, []string{"--hub-connection-timeout-seconds 5", "10 or more"}},
		{"too many checks", func(o *agent.Options) { o.ClusterHealthCheckPeriod = time.Millisecond }, []string{"--cluster-healthcheck-period 1ms"}},
		{"limits of works below zero", func(o *agent.Options) { o.EvictionGracePeriod, o.MaxJSONRawLength = -time.Hour, -1 }, []string{"--appliedmanifestwork-eviction-grace-period -1h0m0s", "--max-json-raw-length -1"}},
		{"several at once", func(o *agent.Options) { o.ClusterName, o.ManagedCluster = "a.b", nil }, []string{"--cluster-name", "--kubeconfig"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := agent.Options{ClusterName: "c1", ManagedCluster: &rest.Config{}}
			tc.change(&o)
			o.Complete()
			err := o.Validate()
			if len(tc.want) == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, piece := range tc.want {
				if err == nil || !strings.Contains(err.Error(), piece) {
					t.Errorf("got %v, want an error with %q", err, piece)
				}
			}
		})
	}
}

func gates(set string) featuregate.FeatureGate {
	g := features.NewAgent()
	if err := g.Set(set); err != nil {
		panic(err)
	}
	return g
}

func TestRunRefusesBadOptions(t *testing.T) {
	if err := agent.Run(t.Context(), agent.Options{ClusterName: "a.b"}); err == nil || !strings.Contains(err.Error(), "--cluster-name") {
		t.Errorf("got %v, want an error about --cluster-name", err)
	}
}

func TestClientIDOptions(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*agent.Options)
		want   string
	}{
		"a client ID":               {func(o *agent.Options) { o.ClusterName, o.ClientID = "", "store-17" }, ""},
		"with a name":               {func(o *agent.Options) { o.ClusterName, o.ClientID = "paris", "store-17" }, "--client-id store-17 and --cluster-name paris exclude"},
		"one that is none":          {func(o *agent.Options) { o.ClientID = "a b" }, `--client-id: "a b" is not a client ID`},
		"labels with a name":        {func(o *agent.Options) { o.ClusterName, o.RegistrationLabels = "paris", map[string]string{"a": "b"} }, "--registration-label has no effect"},
		"labels that are none":      {func(o *agent.Options) { o.RegistrationLabels = map[string]string{"a": "b c"} }, `--registration-label: "b c" is not a value of the label "a"`},
		"with several hubs":         {func(o *agent.Options) { o.ClientID, o.BootstrapKubeconfigs = "a", []string{"x", "y"} }, "name it with --cluster-name"},
		"a Secret that there isn't": {func(o *agent.Options) { o.DeleteBootstrapSecret, o.BootstrapKubeconfigs = true, []string{"x", "y"} }, "--delete-bootstrap-secret excludes"},
	} {
		o := agent.Options{ManagedCluster: env.Config("test")}
		x.change(&o)
		o.Complete()
		err := o.Validate()
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
