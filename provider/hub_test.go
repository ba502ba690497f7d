package provider

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// publishing is a hub with these config maps in kube-public.
func publishing(t *testing.T, maps map[string]string) (*hub, *kube.Client) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		data, ok := maps[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":%q,"kind":"configmaps"}}`, name)
			return
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q},"data":%s}`, name, data)
	}))
	t.Cleanup(server.Close)
	h := newHub(kube.Connection{Host: server.URL}, nil, "test")
	var diags diag.Diagnostics
	client := h.client(&diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	return h, client
}

func TestTokensAreBoundWhereTheHubKnowsHow(t *testing.T) {
	musterHub := map[string]string{"muster-hub-info": `{"features":"Other,BoundBootstrapApproval"}`}
	for name, test := range map[string]struct {
		maps     map[string]string
		clusters []string
		want     string
		warns    bool
	}{
		"muster's hub":                   {musterHub, []string{"c1"}, cluster.BoundBootstrapGroup("c1"), false},
		"muster's hub, two clusters":     {musterHub, []string{"c1", "c2"}, cluster.BoundBootstrapGroup("c1") + "," + cluster.BoundBootstrapGroup("c2"), false},
		"an upstream hub":                {nil, []string{"c1"}, cluster.BootstrapGroup, true},
		"a hub without that feature":     {map[string]string{"muster-hub-info": `{"features":"Other"}`}, []string{"c1"}, cluster.BootstrapGroup, true},
		"any cluster, on muster's hub":   {musterHub, nil, cluster.BootstrapGroup, false},
		"any cluster, on upstream's hub": {nil, nil, cluster.BootstrapGroup, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, client := publishing(t, test.maps)
			var diags diag.Diagnostics
			got, err := h.tokenGroups(t.Context(), client, test.clusters, &diags)
			if err != nil || got != test.want || (diags.WarningsCount() > 0) != test.warns {
				t.Errorf("got %q, %v, %v, want %q", got, err, diags, test.want)
			}
		})
	}
}

func TestAgentsAreSentWhereTheHubSaysItIs(t *testing.T) {
	published := map[string]string{"cluster-info": `{"kubeconfig":"apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster: {server: \"https://public:6443\", certificate-authority-data: Y2E=}\n"}`}
	for name, test := range map[string]struct {
		maps       map[string]string
		server, ca string
		want       func(own string) endpoint
	}{
		"published":            {published, "", "", func(string) endpoint { return endpoint{"https://public:6443", []byte("ca")} }},
		"nothing published":    {nil, "", "", func(own string) endpoint { return endpoint{own, nil} }},
		"server configured":    {published, "https://lb", "", func(string) endpoint { return endpoint{"https://lb", []byte("ca")} }},
		"authority configured": {published, "", "mine", func(string) endpoint { return endpoint{"https://public:6443", []byte("mine")} }},
		"both configured":      {nil, "https://lb", "mine", func(string) endpoint { return endpoint{"https://lb", []byte("mine")} }},
	} {
		t.Run(name, func(t *testing.T) {
			_, client := publishing(t, test.maps)
			got, err := agentEndpoint(t.Context(), client, test.server, test.ca)
			want := test.want(client.Host())
			if err != nil || got.Server != want.Server || string(got.CA) != string(want.CA) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestWithAnUnknownHubTheErrorNamesTheAttributes(t *testing.T) {
	var diags diag.Diagnostics
	if client := newHub(kube.Connection{}, []string{"host", "token"}, "test").client(&diags); client != nil {
		t.Fatal("a hub came out of unknown values")
	}
	if got := diags.Errors()[0].Detail(); !strings.Contains(got, "host, token") || !strings.Contains(got, "-target") {
		t.Errorf("got %q", got)
	}
}

func TestExplanationsSayWhatToDoNext(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusUnauthorized: "credentials",
		http.StatusForbidden:    "cluster role",
		http.StatusNotFound:     "does not serve this kind",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		var diags diag.Diagnostics
		client := newHub(kube.Connection{Host: server.URL}, nil, "test").client(&diags)
		err := client.Get(t.Context(), &clusterv1.ManagedCluster{}, "", "c1")
		server.Close()
		if err == nil {
			t.Fatalf("%d is no error", status)
		}
		if got := explain("https://hub", "do it", err); !strings.Contains(got, want) || !strings.Contains(got, "Could not do it on https://hub") {
			t.Errorf("%d: got %q, want it to say %q", status, got, want)
		}
	}
}
